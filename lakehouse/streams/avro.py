"""Decodes Avro messages that name a registered schema: each becomes JSON text that the readers of JSON read exactly.

A message is read by the schema with which it was written. A message that cannot be decoded keeps its bytes, as base64, and gets a
reason; a registry that does not answer is no such reason.

The schema, and the schemas to which it refers, are requested from a schema registry. Only two requests are made:
``GET /schemas/ids/{id}`` and ``GET /subjects/{subject}/versions/{version}``. Only an answer that will not change later counts as
"the schema does not exist".
"""

from __future__ import annotations

import base64
import io
import json
import time
from dataclasses import dataclass, replace
from datetime import date, datetime
from datetime import time as time_of_day
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from uuid import UUID

import numpy as np
import requests

from lakehouse.streams.client import StreamProblem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lakehouse.contracts.inputs import RegisteredValues
    from lakehouse.lake import Lake
    from lakehouse.streams.client import MessageColumns


#: The beginning of the reason for a message that cannot be decoded; ``reparse.read_again`` leaves such rows as they are.
NOT_DECODED = "not decoded: "
_MAGIC, _HEAD_BYTES = 0, 5
#: A schema that was registered a moment ago may be unknown to another server of the registry: the number of requests, and the
#: pause between them, before a message counts as one that cannot be decoded.
_ATTEMPTS, _PAUSE_SECONDS = 3, 0.5
#: How long an id counts as unknown before it is requested again.
_UNKNOWN_SECONDS = 60.0
#: A record of one field is encoded as the field is: so a schema of any kind, with names of other schemas, becomes a record.
_WRAPPED, _VALUE = "lakehouse_value", "value"
#: The logical type of floats that are read in their shortest form.
_SHORTEST = "lakehouse-shortest"
#: The exceptions that fastavro raises for a body that does not match its schema.
_MISMATCHES = (EOFError, ValueError, TypeError, LookupError, ArithmeticError, RecursionError, MemoryError)
#: By registry and id: schemas do not change, and are requested once per process.
_READERS: dict[tuple[str, int], Callable[[io.BytesIO], Any] | str] = {}
#: By registry and id, the time at which an unknown id was requested.
_UNKNOWN: dict[tuple[str, int], float] = {}


class AvroDecoder:
    """Decodes the values of messages that name schemas of one registry."""

    def __init__(self, lake: Lake, values: RegisteredValues) -> None:
        """A decoder.

        :raises StreamProblem: if the library that reads Avro is not installed, or the registry's options are not as documented.
        """
        try:
            import fastavro  # noqa: F401, PLC0415 (other sources do without it)
        except ImportError:
            msg = "the library that reads Avro is not installed: pip install 'lakehouse[kafka]'"
            raise StreamProblem(msg) from None
        self._registry = SchemaRegistry(lake, values.registry)

    def decoded(self, messages: MessageColumns) -> MessageColumns:
        """The messages with JSON text as their values; messages that cannot be decoded have a problem, and base64 as their value.

        :raises SchemaRegistryError: if a schema cannot be requested from the registry.
        """
        self._look_up({_id_of(value) for value in messages.values if value is not None and _has_id(value)})
        values: list[bytes | None] = []
        problems: dict[int, str] = {}
        for position, value in enumerate(messages.values):
            if value is None:
                values.append(None)
                continue
            text, problem = self._text(value)
            values.append(base64.b64encode(value) if text is None else text)
            if problem is not None:
                problems[position] = f"{NOT_DECODED}{problem}; the raw payload is the message in base64"
        return replace(messages, values=values, problems=problems)

    def _text(self, message: bytes) -> tuple[bytes | None, str | None]:
        """The JSON text of a message, or the reason why it cannot be decoded."""
        if not _has_id(message):
            return None, f"does not begin with a zero byte and the {_HEAD_BYTES - 1} bytes of a schema's id"
        schema_id = _id_of(message)
        reader = _READERS.get((self._registry.url, schema_id), f"the schema registry has no schema {schema_id}")
        if isinstance(reader, str):
            return None, reader
        body = io.BytesIO(message)
        body.seek(_HEAD_BYTES)
        try:
            text = json.dumps(reader(body), ensure_ascii=False, default=_plain).encode()
        except _MISMATCHES as mismatch:
            return None, f"the body does not match schema {schema_id}: {_reason(mismatch)}"
        if body.tell() < len(message):
            return None, f"the body goes on at byte {body.tell() + 1}, behind a record of schema {schema_id}"
        return text, None

    def _look_up(self, ids: set[int]) -> None:
        """Request the schemas that are not known yet from the registry."""
        now, url = time.monotonic(), self._registry.url
        missing = {
            each
            for each in ids
            if (url, each) not in _READERS and now - _UNKNOWN.get((url, each), float("-inf")) >= _UNKNOWN_SECONDS
        }
        for attempt in range(_ATTEMPTS if missing else 0):
            if attempt:
                time.sleep(_PAUSE_SECONDS)
            for schema_id in sorted(missing):
                schema = self._registry.schema(schema_id)
                if schema is not None:
                    _READERS[url, schema_id] = reader_of(schema, schema_id)
                    missing.discard(schema_id)
            if not missing:
                break
        _UNKNOWN.update({(url, each): time.monotonic() for each in missing})


def _has_id(message: bytes) -> bool:
    return len(message) >= _HEAD_BYTES and message[0] == _MAGIC


def _id_of(message: bytes) -> int:
    return int.from_bytes(message[1:_HEAD_BYTES], "big")


def reader_of(schema: RegisteredSchema, schema_id: int) -> Callable[[io.BytesIO], Any] | str:
    """A function that reads the body of a message of the schema; or the reason why its messages cannot be read."""
    import fastavro  # noqa: PLC0415 (see AvroDecoder)
    from fastavro import _read_py as slow_reader  # noqa: PLC0415
    from fastavro.read import LOGICAL_READERS  # noqa: PLC0415

    if schema.kind != AVRO:
        return f"schema {schema_id} is one of {schema.kind}, and source.kafka.values.format is avro"
    # fastavro's own reader of decimals rounds to the precision, and it returns a float as the double that equals it.
    LOGICAL_READERS.update({f"{kind}-decimal": _decimal for kind in ("bytes", "fixed")} | {f"float-{_SHORTEST}": _shortest})
    named: dict[str, Any] = {}
    try:
        for text in schema.references:
            fastavro.parse_schema(_with_floats(json.loads(text)), named_schemas=named)
        field = {"name": _VALUE, "type": _with_floats(json.loads(schema.text))}
        parsed = fastavro.parse_schema({"type": "record", "name": _WRAPPED, "fields": [field]}, named_schemas=named)
    except (fastavro.schema.SchemaParseException, *_MISMATCHES) as problem:
        return f"schema {schema_id} cannot be read ({type(problem).__name__}: {problem})"
    # Of a schema that contains itself, a body may be nested so deeply that the fast reader would end the process.
    read: Any = slow_reader.schemaless_reader if _contains_itself(parsed, named, (), set()) else fastavro.schemaless_reader
    return lambda body: read(body, parsed, None)[_VALUE]


def _with_floats(schema: Any) -> Any:
    """A schema whose floats are read by :func:`_shortest`."""
    if isinstance(schema, list):
        return [_with_floats(branch) for branch in schema]
    if not isinstance(schema, dict):
        return {"type": "float", "logicalType": _SHORTEST} if schema == "float" else schema
    if schema.get("type") == "float":
        return {**schema, "logicalType": _SHORTEST}
    inner = {part: _with_floats(schema[part]) for part in ("type", "items", "values") if part in schema}
    if isinstance(schema.get("fields"), list):
        inner["fields"] = [
            {**field, "type": _with_floats(field["type"])} if isinstance(field, dict) and "type" in field else field
            for field in schema["fields"]
        ]
    return {**schema, **inner}


def _contains_itself(schema: Any, named: Mapping[str, Any], within: tuple[str, ...], simple: set[str]) -> bool:
    """Whether a parsed schema contains a type that contains itself.

    :param named: the named types by their names.
    :param within: the names of the types around the schema.
    :param simple: the names of types that are known not to contain themselves; further ones are added.
    """
    if isinstance(schema, list):
        return any(_contains_itself(branch, named, within, simple) for branch in schema)
    if isinstance(schema, str):
        if schema in within or schema in simple or schema not in named:
            return schema in within
        schema = named[schema]
    inner = [schema[part] for part in ("items", "values") if part in schema]
    if "fields" in schema:
        within = (*within, schema["name"])
        inner = [each["type"] for each in schema["fields"]]
    elif isinstance(schema["type"], (dict, list)):
        inner.append(schema["type"])
    if any(_contains_itself(each, named, within, simple) for each in inner):
        return True
    simple.update([schema["name"]] if "fields" in schema else [])
    return False


def _reason(mismatch: Exception) -> str:
    """The reason why a body cannot be decoded, in the same words whenever it is read."""
    if isinstance(mismatch, EOFError):
        return "it ends before the record does"
    if isinstance(mismatch, UnicodeDecodeError):
        return "a text is not valid UTF-8"
    return "it is nested too deeply" if isinstance(mismatch, RecursionError) else "a value is none of those that are possible"


def _decimal(content: bytes, writer_schema: Mapping[str, Any] | None = None, __: object = None) -> Decimal:
    """A decimal with all of its digits."""
    sign, digits, _ = Decimal(int.from_bytes(content, "big", signed=True)).as_tuple()
    return Decimal((sign, digits, -(writer_schema or {}).get("scale", 0)))


def _shortest(number: float, _: object = None, __: object = None) -> float:
    """The double that the writer of a 32-bit float shows: 19.99 instead of 19.989999771118164, as in a file of Parquet."""
    return float(str(np.float32(number)))


def _plain(value: object) -> str:
    """The text of a value that JSON does not have."""
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, (date, time_of_day)):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, UUID):
        return f"{value}"
    raise TypeError(type(value).__name__)


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
