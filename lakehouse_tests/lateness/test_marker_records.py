"""A marker record says "everything before this time is here": it needs nothing else, and no number counts it. No Spark."""

from __future__ import annotations

from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakehouse import locations
from lakehouse.contracts.source import SourceContract
from lakehouse.dispositions import claims
from lakehouse.lateness import measurement, recent_lags
from lakehouse.ledger import key_log
from lakehouse.ledger.row_states import AdmissionStatus
from lakehouse_tests.support.both_readers import assert_same
from lakehouse_tests.support.ingested_files import deliver_text

if TYPE_CHECKING:
    from lakehouse.lake import Lake

DAY = date(2024, 1, 2)
KINDS = [{"name": name, "type": "string", "required": True} for name in ("reading", "kind")]
MARKED: dict[str, Any] = {
    "dataset": "meters",
    "primary_key": ["reading"],
    "model": {"fields": [*KINDS, {"name": "kwh", "type": "decimal(12,2)", "required": True}]},
    "source": {"landing": "arrival_date={arrival_date}*", "start_date": "2024-01-01"},
    "clocks": {
        "event": "read_at",
        "arrival": "received_at",
        "watermark": {"strategy": "punctuated", "marker": {"column": "kind", "value": "end_of_day"}},
    },
    "lateness": {"expected": "PT1H", "watermark": "P1D", "beyond": "quarantine"},
}
HEADER = "reading,kind,kwh,read_at,received_at\n"
FILE = (
    f"{HEADER}a,measured,5.00,2024-01-02T08:00:00Z,2024-01-02T10:00:00Z\n"
    ",end_of_day,,2024-01-02T00:00:00Z,2024-01-02T00:05:00Z\n"
    "x,end_of_day,n/a,2023-12-31T00:00:00Z,2024-01-02T00:05:00Z\n"  # before the first event day
    "y,end_of_day,n/a,2024-01-01T00:00:00Z,2024-01-02T09:00:00Z\n"
    ",end_of_day,,never,2024-01-02T09:00:00Z\n"
    "b,measured,,2024-01-01T09:30:00Z,2024-01-01T10:00:00Z\n"
)


def dispositions(lake: Lake) -> list[tuple[Any, ...]]:
    rows = locations.dispositions(lake, "meters").read(["line_number", "disposition", "because"])
    return [] if rows is None else sorted((row["line_number"], row["disposition"], row["because"]) for row in rows.to_pylist())


def test_a_marker_needs_its_time_alone_and_counts_nowhere(lake: Lake) -> None:
    source = SourceContract.model_validate(MARKED)
    [entry] = deliver_text(lake, source, DAY, FILE).ingested
    assert (entry.rows, entry.malformed) == (6, 3)
    assert entry.newest_marker == datetime(2024, 1, 2, tzinfo=timezone.utc)
    marker = "a marker record: it advances the watermark and counts nowhere"
    assert dispositions(lake) == [
        (2, "applied", "lives"),
        (3, "dropped", marker),
        (4, "malformed", "read_at: 2023-12-31 lies before the first event day, 2024-01-01"),
        (5, "dropped", marker),  # a day and nine hours after its time, and not quarantined
        (6, "malformed", "read_at: 'never' is not a time as YYYY-MM-DDTHH:MM:SS with a zone"),
        (7, "malformed", "kwh: required and empty"),
    ]
    measured = measurement.measure(lake, source, DAY, DAY)
    assert (measured.rows, measured.late, measured.dispositions["dropped"]) == (1, 1, 2)
    recent = recent_lags.newest(lake.with_settings(now=datetime(2024, 1, 3, tzinfo=timezone.utc)), source, 1)
    assert recent is not None
    assert [(count.rows, count.late) for count in recent.by_time()] == [(1, 0)], "the alerts measure the same rows"
    assert claims.not_admitted(lake, "meters", {"arrival_date": [DAY]}) == {(AdmissionStatus.DROPPED, "marker record"): 2}
    keys = key_log.about(lake, "meters", ["standing"], ["a", "x", "y"])
    assert keys is not None
    assert keys["standing"].to_pylist() == ["admitted"]  # a marker makes no claim about the key that it was sent with


def test_both_readers_read_a_marker_alike() -> None:
    for block_bytes in (1, 2**21):
        assert_same(SourceContract.model_validate(MARKED), FILE.encode(), block_bytes)


def test_a_delivery_of_a_marker_alone_replaces_no_day(lake: Lake) -> None:
    source = SourceContract.model_validate(MARKED | {"materialization": {"reprocess_policy": "overwrite_partition_safe"}})
    deliver_text(lake, source, DAY, f"{HEADER}a,measured,5.00,2024-01-01T09:00:00Z,2024-01-01T10:00:00Z\n")
    deliver_text(lake, source, date(2024, 1, 3), f"{HEADER},end_of_day,,2024-01-01T23:00:00Z,2024-01-03T00:05:00Z\n")
    assert [disposition for _, disposition, _ in dispositions(lake)] == ["applied", "dropped"]


@pytest.mark.parametrize("value", ["insert", "correct"])
def test_a_marker_in_the_operation_is_a_change_like_any_other(lake: Lake, value: str) -> None:
    clocks = MARKED["clocks"] | {"watermark": {"strategy": "punctuated", "marker": {"column": "change_op", "value": value}}}
    source = SourceContract.model_validate(MARKED | {"clocks": clocks})
    deliver_text(lake, source, DAY, f"{HEADER}a,measured,5.00,2024-01-01T09:00:00Z,2024-01-01T10:00:00Z\n")
    assert dispositions(lake)[0][1] == "applied"


def test_a_row_without_the_column_of_the_marker_is_none() -> None:
    contract = SourceContract.model_validate(MARKED)
    rows = pa.table({"kind": pa.array(["end_of_day", "measured", None])})
    assert measurement.are_marker_records(contract, rows).to_pylist() == [True, False, False]
