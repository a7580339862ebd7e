"""Requests the schema with an id from a schema registry, and the schemas to which it refers.

Only the two requests belong here: ``GET /schemas/ids/{id}`` and ``GET /subjects/{subject}/versions/{version}``. Only an answer
that will not change later counts as "the schema does not exist".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import requests

from lakehouse.streams.client import StreamProblem

if TYPE_CHECKING:
    from lakehouse.lake import Lake


AVRO = "AVRO"
#: The registry's codes for a schema, a subject and a version that do not exist.
_NO_SCHEMA, _NOT_THERE = 40403, {40401, 40402, 40403}
_ANSWER_SECONDS = 10.0
_OPTIONS = (
    "url",
    "basic.auth.user.info",
    "bearer.auth.token",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
)
_HEADERS = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
_HOW = "check source.kafka.values.registry, the network, and LAKEHOUSE_SCHEMA_REGISTRY_OPTIONS"


class SchemaRegistryError(StreamProblem):
    """The registry does not answer, or its answer cannot be read. No message has been ingested; the attempt can be repeated."""


@dataclass(frozen=True)
class RegisteredSchema:
    """A schema as it is registered.

    :param kind: AVRO, JSON or PROTOBUF.
    :param references: the texts of the schemas to which it refers, each after those to which it refers itself.
    """

    text: str
    kind: str
    references: tuple[str, ...] = ()


class SchemaRegistry:
    """A schema registry over HTTP."""

    def __init__(self, lake: Lake, url: str) -> None:
        """A client of a registry; it connects at the first request.

        :raises SchemaRegistryError: if the settings have an option that is unknown or whose value has the wrong form.
        """
        options = lake.settings.schema_registry_options
        if unknown := sorted(options.keys() - set(_OPTIONS)):
            msg = f"LAKEHOUSE_SCHEMA_REGISTRY_OPTIONS: {', '.join(unknown)} is unknown; known are {', '.join(_OPTIONS)}"
            raise SchemaRegistryError(msg)
        self.url = options.get("url", url).rstrip("/")
        if "@" in self.url:  # it would be shown in messages
            msg = "LAKEHOUSE_SCHEMA_REGISTRY_OPTIONS: give the user and the password as basic.auth.user.info, not within url"
            raise SchemaRegistryError(msg)
        self._session = requests.Session()
        self._session.headers.update(_HEADERS)
        if user_info := options.get("basic.auth.user.info"):
            user, _, password = user_info.partition(":")
            self._session.auth = (user, password)
        if token := options.get("bearer.auth.token"):
            self._session.headers["Authorization"] = f"Bearer {token}"
        self._session.verify = options.get("ssl.ca.location", True)
        if certificate := options.get("ssl.certificate.location"):
            key = options.get("ssl.key.location")
            self._session.cert = (certificate, key) if key else certificate

    def schema(self, schema_id: int) -> RegisteredSchema | None:
        """The schema with the id ``schema_id``; None if the registry answers that it has none.

        :raises SchemaRegistryError: if the request fails.
        """
        answer = self._answer(f"/schemas/ids/{schema_id}", {_NO_SCHEMA})
        if answer is None:
            return None
        references: dict[str, None] = {}
        self._add_references(answer, references, set())
        return RegisteredSchema(answer["schema"], answer.get("schemaType") or AVRO, tuple(references))

    def _add_references(self, answer: dict[str, Any], texts: dict[str, None], seen: set[str]) -> None:
        """Add the texts of the schemas to which a schema refers, the innermost first."""
        for reference in answer.get("references") or ():
            path = f"/subjects/{quote(reference['subject'], safe='')}/versions/{reference['version']}"
            if path in seen:
                continue
            seen.add(path)
            referred = self._answer(path, set())
            if referred is not None:
                self._add_references(referred, texts, seen)
                texts[referred["schema"]] = None

    def _answer(self, path: str, absent: set[int]) -> dict[str, Any] | None:
        """The answer to a request.

        :param absent: codes of the registry which state that the object does not exist; the answer then is None.
        """
        try:
            response = self._session.get(f"{self.url}{path}", timeout=_ANSWER_SECONDS)
        except (requests.RequestException, OSError) as error:  # a certificate that is no file is an OSError
            msg = f"the schema registry at {self.url} does not answer ({type(error).__name__}): {_HOW}"
            raise SchemaRegistryError(msg) from None
        try:
            body = response.json()
        except requests.JSONDecodeError:
            body = None
        status, fields = response.status_code, body if isinstance(body, dict) else {}
        if status == requests.codes.ok and isinstance(fields.get("schema"), str):
            return fields
        if status == requests.codes.not_found and fields.get("error_code") in absent:
            return None
        if status in {requests.codes.unauthorized, requests.codes.forbidden}:
            msg = f"the schema registry at {self.url} refuses to give {path} (status {status}): {_HOW}"
        elif status == requests.codes.not_found and fields.get("error_code") in _NOT_THERE:
            msg = f"the schema registry at {self.url} does not have {path}, which another schema refers to: register it again"
        else:
            msg = f"the schema registry at {self.url} does not give {path} (status {status}): {_HOW}"
        raise SchemaRegistryError(msg)
