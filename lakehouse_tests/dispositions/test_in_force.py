"""The rows in force are those of the newest reading among the inputs, else of Bronze: compared with a dictionary."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse import locations
from lakehouse.delta import row_writer
from lakehouse.delta.columns import arrow_schema
from lakehouse.dispositions import readings as bronze_readings
from lakehouse.ledger import rebuild_requests
from lakehouse.ledger.rebuild_requests import RebuildRequest
from lakehouse_tests.support.arrivals import append_claims
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.laws import law

if TYPE_CHECKING:
    from pathlib import Path

    from lakehouse.lake import Lake

DAY, AT = date(2024, 1, 1), datetime(2024, 1, 1, tzinfo=timezone.utc)
SCHEMA = arrow_schema(bronze_readings.columns(contract()))
LINES = st.integers(1, 6)
KEYS = st.sampled_from(["a", "b", "c", None])
COLUMNS = ["ingestion_id", "line_number", "record_key"]


def rows(keys: dict[int, str | None], **more: Any) -> pa.Table:
    """Rows of one file by line; one without a key is malformed."""
    plain = {"ingestion_id": "file", "arrival_date": DAY, "arrival_ts": AT, **more}
    return pa.Table.from_pylist([plain | {"line_number": line, "record_key": key} for line, key in keys.items()], schema=SCHEMA)


def request(lake: Lake, reading_id: str) -> None:
    versions = {"code_before": None, "code_after": "1", "contract_before": None, "contract_after": "2"}
    entry = RebuildRequest("events", rebuild_requests.REPARSE, DAY, DAY, "why", "anna", **versions, recorded_at=AT)
    rebuild_requests.record(lake, replace(entry, operation_id=reading_id), reading_id)


@dataclass(frozen=True)
class Readings:
    """A file's keys by line, and readings of it in their order: which were requested, and what is asked of them.

    :param asked: inputs (None: all there are), and keys that are wanted (None: all).
    """

    first: dict[int, str | None]
    later: dict[str, dict[int, str | None]]
    requested: set[str]
    asked: list[tuple[set[str] | None, list[str] | None]]


@st.composite
def files_read_again(draw: st.DrawFn) -> Readings:
    keys = st.dictionaries(LINES, KEYS, min_size=1)
    later = draw(st.lists(keys, max_size=4))
    names = [f"operation:{number}" for number in draw(st.permutations(range(len(later))))]
    requested = draw(st.sets(st.sampled_from(names))) if names else set()
    wanted = st.sampled_from([None, ["a"], ["a", "c"]])
    asked = [(None, draw(wanted)), (draw(st.sets(st.sampled_from([*names, "file"]))), draw(wanted))]
    return Readings(draw(keys), dict(zip(names, later)), requested, asked)


@pytest.mark.merge
@law(200, in_each_run=15)
@given(files_read_again())
def test_the_newest_reading_among_the_inputs_has_the_row(tmp_path_factory: Any, readings: Readings) -> None:
    first, requested = readings.first, readings.requested
    lake = lake_in(tmp_path_factory.mktemp("lake"))
    row_writer.append(
        locations.bronze(lake, "events"), rows(first).drop_columns(["_received_at", "_reading_id", "_reading_number"])
    )
    for number, (reading_id, keys) in enumerate(readings.later.items(), start=1):
        read = rows({line: key for line, key in keys.items() if line in first}, _reading_id=reading_id, _reading_number=number)
        row_writer.append(locations.readings(lake, "events"), read, partition_by=["arrival_date"])
    for reading_id in requested:
        request(lake, reading_id)
    for ids, wanted in readings.asked:
        counting = requested if ids is None else requested & ids
        expected = dict(first)
        for reading_id, keys in readings.later.items():
            if reading_id in counting:
                expected |= {line: key for line, key in keys.items() if line in first}
        where = {} if wanted is None else {"record_key": wanted}
        read = bronze_readings.read(lake, "events", COLUMNS, where, ids)
        assert read is not None
        assert sorted(map(str, read.to_pylist())) == sorted(
            str({"ingestion_id": "file", "line_number": line, "record_key": key})
            for line, key in expected.items()
            if wanted is None or key in wanted
        )


def test_without_a_table_of_readings_bronze_is_read(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    assert bronze_readings.read(lake, "events", COLUMNS) is None
    row_writer.append(locations.bronze(lake, "events"), rows({1: "a"}))
    assert bronze_readings.readings_of(lake, "events") is None
    read = bronze_readings.read(lake, "events", COLUMNS)
    assert read is not None
    assert read["record_key"].to_pylist() == ["a"]


def test_a_row_names_the_reading_that_is_in_force_for_it(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    row_writer.append(locations.bronze(lake, "events"), rows({1: "a", 2: "b"}))
    for number, reading_id in enumerate(["operation:z", "operation:a", "operation:stopped"], start=1):
        row_writer.append(
            locations.readings(lake, "events"),
            rows({1: "c"}, _reading_id=reading_id, _reading_number=number),
            partition_by=["arrival_date"],
        )
    for reading_id in ("operation:z", "operation:a"):
        request(lake, reading_id)
    named = bronze_readings.requests_of(lake, "events", [("file", 1), ("file", 2)])
    assert {row: entry.operation_id for row, entry in named.items()} == {("file", 1): "operation:a"}
    read = bronze_readings.read(lake, "events", COLUMNS)
    assert read is not None
    assert sorted(zip(read["line_number"].to_pylist(), read["record_key"].to_pylist())) == [(1, "c"), (2, "b")]
    assert bronze_readings.next_number(lake, "events") == 4, "a stopped reading has a number, too"


def test_the_keys_that_a_row_had_before_it_was_read_again_are_known(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    assert bronze_readings.next_number(lake, "events") == 1
    row_writer.append(locations.readings(lake, "events"), SCHEMA.empty_table(), partition_by=["arrival_date"])
    assert bronze_readings.next_number(lake, "events") == 1, "a table without a reading"
    row_writer.append(locations.bronze(lake, "events"), rows({1: "a", 2: "b"}))
    row_writer.append(
        locations.readings(lake, "events"),
        rows({1: "c"}, _reading_id="operation:a", _reading_number=1),
        partition_by=["arrival_date"],
    )
    claim = {"ingestion_id": "file", "arrival_date": DAY, "arrival_ts": AT, "event_date": DAY, "source_sequence": 0}
    claim |= {"kind": "insert", "standing": "admitted", "beyond": False, "failed_rules": []}
    append_claims(lake, "events", [claim | {"line_number": line, "record_key": key} for line, key in ((1, "c"), (2, "b"))])
    assert bronze_readings.former_keys(lake, "events", "c") == set(), "its rebuild was not requested yet"
    request(lake, "operation:a")
    assert {key: bronze_readings.former_keys(lake, "events", key) for key in "bcd"} == {"b": set(), "c": {"a"}, "d": set()}


def test_a_source_may_have_fields_of_any_name() -> None:
    fields = [{"name": name, "type": "string"} for name in ("reading_id", "reading_number", "received_at")]
    named = contract(model={"fields": fields}, primary_key=["reading_id"])
    names = [name for name, _ in bronze_readings.columns(named)]
    assert len(names) == len(set(names))
