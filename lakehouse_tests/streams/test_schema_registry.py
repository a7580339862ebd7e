"""What a registry answers, and what is not taken for an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakehouse.contracts.inputs import RegisteredValues
from lakehouse.lake import Lake
from lakehouse.settings import Settings
from lakehouse.streams import avro
from lakehouse.streams.avro import AvroDecoder, RegisteredSchema, SchemaRegistry, SchemaRegistryError
from lakehouse_tests.support.free_port import free_port
from lakehouse_tests.support.kafka_lake import at
from lakehouse_tests.support.message_columns import columns
from lakehouse_tests.support.schema_registry import avro_message, framed

if TYPE_CHECKING:
    from lakehouse_tests.support.schema_registry import RegistryServer


@pytest.mark.parametrize("status", [429, 500, 502, 503, 301, 403, 404])
def test_an_answer_that_may_change_is_an_error_and_not_an_unknown_schema(registry: RegistryServer, status: int) -> None:
    registry.register(1, "string")
    registry.failures.append(status)
    client = SchemaRegistry(Lake(Settings()), registry.url)
    with pytest.raises(SchemaRegistryError, match=f"(?s)/schemas/ids/1.*{status}.*LAKEHOUSE_SCHEMA_REGISTRY_OPTIONS"):
        client.schema(1)
    assert client.schema(1) == RegisteredSchema('"string"', "AVRO")


def test_a_registry_that_does_not_answer_stops_the_messages() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    of_nobody = AvroDecoder(Lake(Settings()), RegisteredValues(format="avro", registry=url))
    with pytest.raises(SchemaRegistryError, match="does not answer") as problem:
        of_nobody.decoded(columns([framed(1, b"")], [at(2)]))
    assert problem.value.passes_by_itself


def test_an_address_that_is_no_registry_is_an_error(registry: RegistryServer) -> None:
    with pytest.raises(SchemaRegistryError, match="status 404"):
        SchemaRegistry(Lake(Settings()), f"{registry.url}/elsewhere").schema(1)


def test_a_schema_that_another_refers_to_and_that_is_gone_stops_the_messages(registry: RegistryServer) -> None:
    registry.register(1, "a.City", references=[{"name": "a.City", "subject": "ci/ties", "version": 3}])
    with pytest.raises(SchemaRegistryError, match=r"/subjects/ci%2Fties/versions/3"):
        SchemaRegistry(Lake(Settings()), registry.url).schema(1)


def test_credentials_come_from_settings(registry: RegistryServer) -> None:
    registry.register(1, "string")
    for options in ({"basic.auth.user.info": "anna:se:cret"}, {"bearer.auth.token": "t0ken"}, {"url": f"{registry.url}/"}):
        url = "http://elsewhere.invalid" if "url" in options else registry.url
        SchemaRegistry(Lake(Settings(schema_registry_options=options)), url).schema(1)
    assert registry.authorizations == ["Basic YW5uYTpzZTpjcmV0", "Bearer t0ken", None]


@pytest.mark.parametrize(
    ("options", "says"),
    [({"basic.auth": "x"}, "basic.auth is unknown; known are url, "), ({"url": "http://u:p@r"}, "as basic.auth.user.info")],
)
def test_options_that_are_not_as_documented_are_refused(options: dict[str, str], says: str) -> None:
    with pytest.raises(SchemaRegistryError, match=says) as problem:
        SchemaRegistry(Lake(Settings(schema_registry_options=options)), "http://registry")
    assert "u:p" not in f"{problem.value}"


def test_an_unknown_id_is_asked_for_again_before_its_messages_are_malformed(
    registry: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(avro.time, "sleep", lambda _: registry.register(1, "string") if len(registry.paths) > 2 else None)
    messages = columns([avro_message(1, "string", "x"), framed(2, b"x"), framed(2, b"y")], [at(2)] * 3)
    decoder = AvroDecoder(Lake(Settings()), RegisteredValues(format="avro", registry=registry.url))
    decoded = decoder.decoded(messages)
    assert (decoded.values[0], list(decoded.problems)) == (b'"x"', [1, 2])
    assert [path[-1] for path in registry.paths] == ["1", "2", "1", "2", "1", "2"]
    decoder.decoded(messages)
    assert len(registry.paths) == 6, "an unknown id is not asked for again at once"
    monkeypatch.setattr(avro, "_UNKNOWN_SECONDS", 0)
    registry.register(2, "string")
    assert decoder.decoded(columns([avro_message(2, "string", "z")], [at(2)])).values == [b'"z"']
