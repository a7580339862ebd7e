"""Messages that name a registered schema, decoded without a broker; the registry is a real HTTP server."""

from __future__ import annotations

import base64
import json
from datetime import date, datetime, time, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from lakehouse.bronze.parquet import plain
from lakehouse.contracts.inputs import RegisteredValues
from lakehouse.lake import Lake
from lakehouse.reparse import read_again
from lakehouse.settings import Settings
from lakehouse.streams import avro
from lakehouse.streams.avro import AVRO, NOT_DECODED, AvroDecoder, RegisteredSchema
from lakehouse_tests.support.kafka_lake import at, contract
from lakehouse_tests.support.laws import law
from lakehouse_tests.support.message_columns import columns, rows
from lakehouse_tests.support.schema_registry import RegistryServer, avro_message, framed

OLD = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "amount", "type": "long"},
        {"name": "event_time", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "op", "type": {"type": "enum", "name": "Op", "symbols": ["insert", "correct", "delete"]}},
    ],
}
NEW = {
    **OLD,
    "fields": [
        {"name": "op", "type": ["null", "string"]},
        {"name": "amount", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 0}]},
        {"name": "channel", "type": "string"},
        {"name": "event_time", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "id", "type": "string"},
    ],
}
NODE = {"type": "record", "name": "Node", "fields": [{"name": "inner", "type": ["null", "Node"]}]}
NOON = datetime(2024, 1, 2, 12, tzinfo=timezone.utc)


def decoder(registry: RegistryServer) -> AvroDecoder:
    return AvroDecoder(Lake(Settings()), RegisteredValues(format="avro", registry=registry.url))


def decoded(registry: RegistryServer, *values: bytes | None) -> tuple[list[bytes | None], dict[int, str]]:
    messages = decoder(registry).decoded(columns(values, [at(2)] * len(values)))
    return messages.values, messages.problems


def value_of(registry: RegistryServer, schema: Any, value: Any) -> Any:
    """What becomes of a value on its way through a message."""
    schema_id = len(registry.schemas) + 1
    registry.register(schema_id, schema)
    [text], problems = decoded(registry, avro_message(schema_id, schema, value))
    assert text is not None
    assert problems == {}
    return json.loads(text)


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        ({"type": "bytes", "logicalType": "decimal", "precision": 18, "scale": 2}, Decimal("-1234567890123456.70"), None),
        ({"type": "bytes", "logicalType": "decimal", "precision": 40, "scale": 10}, Decimal("0.0000000000"), None),
        (
            {"type": "fixed", "name": "F", "size": 8, "logicalType": "decimal", "precision": 18, "scale": 3},
            Decimal("12.340"),
            None,
        ),
        ({"type": "int", "logicalType": "date"}, date(2024, 2, 29), None),
        ({"type": "int", "logicalType": "date"}, date(1, 1, 1), "0001-01-01"),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            datetime(2024, 1, 2, 3, 4, 5, 7000, timezone.utc),
            "2024-01-02T03:04:05.007000Z",
        ),
        (
            {"type": "long", "logicalType": "timestamp-micros"},
            datetime(1969, 12, 31, 23, 59, 59, 999999, timezone.utc),
            "1969-12-31T23:59:59.999999Z",
        ),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, NOON.replace(tzinfo=None), "2024-01-02T12:00:00"),
        ({"type": "int", "logicalType": "time-millis"}, time(23, 59, 59, 1000), "23:59:59.001000"),
        ({"type": "string", "logicalType": "uuid"}, UUID(int=7), None),
        ("bytes", b"\0\xff", base64.b64encode(b"\0\xff").decode()),
        (["null", "string"], "ä\0\n", "ä\0\n"),
    ],
    ids=str,
)
def test_values_arrive_exactly(registry: RegistryServer, schema: Any, value: Any, text: str | None) -> None:
    assert value_of(registry, schema, value) == (f"{value:f}" if isinstance(value, Decimal) else text or f"{value}")


FLOATS = {
    "type": "record",
    "name": "Prices",
    "fields": [
        {"name": "plain", "type": "float", "default": 0.5},
        {"name": "maybe", "type": ["null", "float"]},
        {"name": "many", "type": {"type": "array", "items": {"type": "map", "values": {"type": "float"}}}},
        {"name": "whole", "type": "double"},
        {"name": "again", "type": ["null", "Prices"]},
    ],
}


def test_a_float_is_the_number_that_its_writer_shows(registry: RegistryServer) -> None:
    one = {"plain": 19.99, "maybe": 0.1, "many": [{"a": 1e-7}], "whole": 19.989999771118164, "again": None}
    assert value_of(registry, FLOATS, one | {"again": one}) == one | {"again": one}
    assert value_of(registry, "float", 0.1) == 0.1


@law(100, in_each_run=30)
@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_float_is_the_number_that_a_file_of_parquet_has(number: float) -> None:
    assert avro._shortest(number) == plain(pa.record_batch({"v": pa.array([number], pa.float32())}))["v"][0].as_py()


@examples(max_examples=40)
@given(number=st.integers(-(10**30), 10**30), scale=st.integers(0, 12))
def test_a_decimal_keeps_every_digit_whatever_its_schema_says_of_the_precision(number: int, scale: int) -> None:
    content = number.to_bytes(20, "big", signed=True)
    assert avro._decimal(content, {"scale": scale, "precision": 3}) == Decimal((int(number < 0), _digits(number), -scale))


def _digits(number: int) -> tuple[int, ...]:
    return tuple(map(int, str(abs(number))))


def test_more_digits_than_the_precision_are_not_rounded(registry: RegistryServer) -> None:
    registry.register(1, {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2})
    values, problems = decoded(registry, framed(1, b"\x08" + (123_456_789).to_bytes(4, "big")))
    assert (values, problems) == ([b'"1234567.89"'], {})


def test_each_message_is_read_by_the_schema_that_it_was_written_with(registry: RegistryServer) -> None:
    registry.register(1, OLD)
    registry.register(70_000, NEW)
    sent = [
        avro_message(1, OLD, {"id": "a", "amount": 2**30, "event_time": NOON, "op": "insert"}),
        avro_message(70_000, NEW, {"id": "b", "amount": Decimal(7), "event_time": NOON, "op": None, "channel": "web"}),
        avro_message(1, OLD, {"id": "c", "amount": -1, "event_time": NOON, "op": "correct"}),
    ]
    source = contract("t", "a:1", {"values": {"format": "avro", "registry": registry.url}})
    table = rows(source, decoder(registry).decoded(columns(sent, [at(2)] * 3)))
    assert table["malformed_reason"].to_pylist() == [None] * 3
    assert table["id"].to_pylist() == ["a", "b", "c"]
    assert table["amount"].to_pylist() == [2**30, 7, -1]
    assert table["event_ts"].to_pylist() == [NOON] * 3
    assert table["change_op"].to_pylist() == ["insert", "insert", "correct"]
    assert json.loads(table["raw_payload"][1].as_py())["channel"] == "web"


def test_a_schema_is_asked_for_once(registry: RegistryServer) -> None:
    registry.register(1, "string")
    message = avro_message(1, "string", "x")
    decoded(registry, message, message)
    decoded(registry, message)
    assert registry.paths == ["/schemas/ids/1"]


def test_a_schema_may_refer_to_others(registry: RegistryServer) -> None:
    city = {"type": "record", "name": "a.City", "fields": [{"name": "name", "type": "string"}]}
    place = {"type": "record", "name": "a.Place", "fields": [{"name": "city", "type": "a.City"}]}
    of_city = registry.register_subject("cities", city)
    of_place = registry.register_subject("places", place, references=[of_city])
    registry.register(1, ["a.Place", "a.City"], references=[of_place, of_city])
    written = framed(1, b"\0\x08Rome")
    assert decoded(registry, written) == ([b'{"city": {"name": "Rome"}}'], {})


def test_a_tombstone_stays_one(registry: RegistryServer) -> None:
    assert decoded(registry, None) == ([None], {})
    assert registry.paths == []


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"", "does not begin with a zero byte"),
        (b"\0\0\0\0", "does not begin with a zero byte"),
        (b'{"id": 1}', "does not begin with a zero byte"),
        (framed(1, b""), "the body does not match schema 1: it ends before the record does"),
        (framed(1, b"\x02a\x02"), "the body does not match schema 1: it ends before"),
        (framed(1, b"\x06\xff\xff\xff\0\0\0"), "the body does not match schema 1: a text is not valid UTF-8"),
        (framed(1, b"\x02a\x02\x02\x08"), "the body does not match schema 1: a value is none of those that are possible"),
        (framed(1, b"\x02a\x02\x02\0rest"), "the body goes on at byte 11"),
        (framed(2, b"{}"), "schema 2 is one of JSON"),
        (framed(3, b"x"), "schema 3 cannot be read"),
        (framed(4, b"\x02" * 100_000 + b"\0"), "the body does not match schema 4: it is nested too deeply"),
        (framed(9, b"x"), "the schema registry has no schema 9"),
    ],
    ids=str,
)
def test_a_message_that_cannot_be_decoded_keeps_its_bytes(
    registry: RegistryServer, message: bytes, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(avro, "_PAUSE_SECONDS", 0)
    registry.register(1, OLD)
    registry.register(2, {"type": "object"}, schemaType="JSON")
    registry.register(3, {"type": "record", "name": "R", "fields": [{"name": "x", "type": "nothing"}]})
    registry.register(4, NODE)
    good = avro_message(1, OLD, {"id": "a", "amount": 1, "event_time": NOON, "op": "insert"})
    source = contract("t", "a:1", {"values": {"format": "avro", "registry": registry.url}})
    table = rows(source, decoder(registry).decoded(columns([message, good], [at(2)] * 2)))
    [problem, none] = table["malformed_reason"].to_pylist()
    assert problem.startswith(f"{NOT_DECODED}{reason}")
    assert none is None
    assert base64.b64decode(table["raw_payload"][0].as_py()) == message
    assert read_again._is_kept(source, table).to_pylist() == [True, False]


@pytest.mark.parametrize(
    ("schema", "contains"),
    [
        (OLD, False),
        (NODE, True),
        ({"type": "array", "items": NODE}, True),
        ({**OLD, "fields": [{"name": "x", "type": OLD["fields"][3]["type"]}, {"name": "y", "type": "Op"}]}, False),
        ({**OLD, "fields": [{"name": "x", "type": {"type": "map", "values": {"type": "array", "items": "Event"}}}]}, True),
        ({**OLD, "fields": [{"name": "x", "type": {**NODE, "fields": [{"name": "e", "type": ["null", "Event"]}]}}]}, True),
    ],
)
def test_schemas_that_contain_themselves_are_known(schema: Any, contains: bool) -> None:
    named: dict[str, Any] = {}
    parsed = fastavro.parse_schema(schema, named_schemas=named)
    assert avro._contains_itself(parsed, named, (), set()) is contains


def test_a_nested_record_of_a_schema_that_contains_itself_is_read(registry: RegistryServer) -> None:
    assert value_of(registry, NODE, {"inner": {"inner": {"inner": None}}}) == {"inner": {"inner": {"inner": None}}}


@examples(max_examples=300)
@given(body=st.binary(max_size=40))
def test_any_bytes_are_either_a_record_or_malformed(body: bytes) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(avro, "_READERS", {("http://registry", 1): _READER})
        of_registry = AvroDecoder(Lake(Settings()), RegisteredValues(format="avro", registry="http://registry"))
        messages = of_registry.decoded(columns([framed(1, body)], [at(2)]))
    [value] = messages.values
    assert value is not None
    if 0 in messages.problems:
        assert base64.b64decode(value) == framed(1, body)
    else:
        assert {"id", "event_time"} <= json.loads(value).keys()


_READER = avro.reader_of(RegisteredSchema(json.dumps(NEW), AVRO), 1)
