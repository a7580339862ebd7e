"""Replacing the claims of arrival days: other days and the claims of other writers stay."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakehouse import locations
from lakehouse.delta import row_writer
from lakehouse.lake import table_io
from lakehouse.ledger import key_log

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deltalake import DeltaTable

    from lakehouse.lake import Lake

FIRST, SECOND = date(2024, 2, 1), date(2024, 2, 2)


def claims(file: str, arrival: date, *keys: str) -> pa.Table:
    plain = dict.fromkeys(key_log.SCHEMA.names) | {"ingestion_id": file, "arrival_date": arrival, "kind": "insert"}
    rows: list[dict[str, Any]] = [plain | {"record_key": key, "line_number": line} for line, key in enumerate(keys)]
    return pa.Table.from_pylist(rows, schema=key_log.SCHEMA)


def append(lake: Lake, rows: pa.Table) -> None:
    ids, days = rows["ingestion_id"].to_pylist(), rows["arrival_date"].to_pylist()
    key_log.append(lake, "events", set(ids), set(days), lambda: [rows])


def keys(lake: Lake) -> list[str]:
    log = locations.key_log(lake, "events").read(["record_key"])
    assert log is not None
    return sorted(log["record_key"].to_pylist())


def test_claims_of_other_days_stay_and_a_replacement_counts_once(lake: Lake) -> None:
    for rows in (claims("one", FIRST, "a", "b"), claims("two", SECOND, "c")):
        append(lake, rows)
    for replacing in (claims("one", FIRST, "d", "e"), claims("one", FIRST, "f")):
        key_log.replace(lake, "events", [FIRST], lambda _, rows=replacing: [rows.slice(0, 1), rows.slice(1)], "reading:1")
    assert keys(lake) == ["c", "d", "e"], "repeated, it changes nothing"
    key_log.replace(lake, "events", [FIRST], lambda _: [], "reading:2")
    assert keys(lake) == ["c"]


def test_claims_that_another_writer_appends_meanwhile_are_kept(lake: Lake) -> None:
    append(lake, claims("one", FIRST, "a"))
    versions = []

    def replacing(log: DeltaTable) -> Iterator[pa.Table]:
        versions.append(log.version())
        if len(versions) == 1:
            append(replace(lake, cache=None), claims("two", FIRST, "b"))  # another process shares no open table
        held = table_io.read_version(log, key_log.SCHEMA.names, {"arrival_date": [FIRST]})
        yield claims("one", FIRST, "c")
        yield held.filter(pa.array([name != "one" for name in held["ingestion_id"].to_pylist()], pa.bool_()))

    key_log.replace(lake, "events", [FIRST], replacing, "reading:1")
    assert keys(lake) == ["b", "c"]
    assert len(versions) == 2, "the first attempt was in conflict"


def test_a_column_that_is_newer_than_the_log_is_empty_until_claims_with_it_are_written(lake: Lake) -> None:
    earlier = claims("one", FIRST, "a", "b").drop_columns(["source_order"])
    row_writer.append(locations.key_log(lake, "events"), earlier)
    names = ["record_key", "source_order"]
    read = key_log.about(lake, "events", names, ["a"])
    assert read is not None
    assert (read.schema.field("source_order").type, read["source_order"].to_pylist()) == (pa.string(), [None])
    [piece] = key_log.about_keys_with(lake, "events", names, {"arrival_date": [FIRST]})
    assert piece.schema == read.schema
    ordered = claims("two", SECOND, "c").set_column(4, "source_order", pa.array(["x"]))
    key_log.replace(lake, "events", [SECOND], lambda _: [ordered], "reading:1")
    now = key_log.about(lake, "events", names, ["a", "c"])
    assert now is not None
    assert sorted(now.to_pylist(), key=str) == [
        {"record_key": "a", "source_order": None},
        {"record_key": "c", "source_order": "x"},
    ]


def test_a_file_with_claims_of_several_days_keeps_those_of_the_others(lake: Lake) -> None:
    append(lake, pa.concat_tables([claims("one", FIRST, "a", "b"), claims("two", SECOND, "c", "d")]))
    key_log.replace(lake, "events", [FIRST], lambda _: [claims("one", FIRST, "e")], "reading:1")
    assert keys(lake) == ["c", "d", "e"]
