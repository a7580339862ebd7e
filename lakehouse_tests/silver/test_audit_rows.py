"""The audit rows of a commit: the vectorised form gives what the row-by-row model gives. No Spark, no tables."""

from __future__ import annotations

from datetime import date

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given

from lakehouse.delta.columns import arrow_schema, silver_columns
from lakehouse.lateness import historical_rows
from lakehouse.silver import audit_log, audit_rows
from lakehouse.silver.audit_log import Cause
from lakehouse.silver.audit_rows import AuditedCommit
from lakehouse.silver.row_changes import row_changes
from lakehouse_tests.support import audit_by_row
from lakehouse_tests.support.change_feeds import NO_HISTORY, NOON, SOURCES, AuditCase, audit_cases
from lakehouse_tests.support.laws import law


@law(300, in_each_run=50, shrinks=True)
@given(audit_cases())
def test_audit_rows_are_those_of_the_model(case: AuditCase) -> None:
    assert (
        audit_rows.audit_rows(case.feed, case.commit).to_pylist() == audit_by_row.audit_rows(case.feed, case.commit).to_pylist()
    )


@law(200, in_each_run=25)
@given(audit_cases(NO_HISTORY))
def test_a_feed_may_be_split_by_key_and_formatted_in_parts(case: AuditCase) -> None:
    whole = audit_rows.audit_rows(case.feed, case.commit)
    keys = pc.unique(case.feed["record_key"]).sort()
    by_key = [audit_rows.audit_rows(case.feed.filter(pc.equal(case.feed["record_key"], key)), case.commit) for key in keys]
    assert pa.concat_tables([audit_log.SCHEMA.empty_table(), *by_key]).equals(whole)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(audit_rows, "_AT_ONCE", 2)
        feed = case.feed.combine_chunks()
        parts = list(audit_rows.change_parts(feed, row_changes(feed), case.commit))
    assert pa.concat_tables([audit_log.SCHEMA.empty_table(), *parts]).equals(whole)
    assert sum(len(pc.unique(part["event_id"])) for part in parts) == len(pc.unique(whole["event_id"]))


def test_a_duration_is_told_in_its_two_largest_units() -> None:
    spans = ["1 d 2 h", "2 h 3 min", "3 min 4 s", "4 s", "1 d 3 min"]
    seconds = [93_784, 7_384, 184, 4, 86_584]
    lags = pa.array([second * 1_000_000 + 5 for second in seconds], pa.int64())
    late, early = audit_rows._sentences(lags, ["{} late", "by {}"])
    assert late.to_pylist() == [f"{span} late" for span in spans]
    assert early.to_pylist() == [f"by {span}" for span in spans]


def test_ids_are_those_of_the_audit_log() -> None:
    """They have been stored by other versions: an audit that is written again has the same ids."""
    rows = [("moved", 1, "delete"), ("moved", 2, "insert"), ("twice", 1, "insert"), ("twice", 1, "insert")]
    schema = arrow_schema(silver_columns(SOURCES[0])).append(pa.field("_change_type", pa.string()))
    feed = pa.Table.from_pylist(
        [
            {"record_key": key, "event_date": date(2024, 2, day), "arrival_ts": NOON, "_change_type": kind, "id": f"{number}"}
            for number, (key, day, kind) in enumerate(rows)
        ],
        schema=schema,
    )
    cause = Cause({}, frozenset(), {}, {})
    audited = audit_rows.audit_rows(
        feed, AuditedCommit(SOURCES[0], [], cause, [], 7, NOON, historical_rows.FIRST_ARRIVALS.empty_table())
    )
    first, second = date(2024, 2, 1), date(2024, 2, 2)
    assert audited["audit_id"].to_pylist() == [
        audit_log.id_of("events", 7, "moved", first, second),
        audit_log.id_of("events", 7, "twice", first),
        audit_log.id_of("events", 7, "twice", first, number=2),
    ]
    assert audited["impacted_kpis"].to_pylist() == ["[]"] * 3


def test_the_audit_asks_for_no_column_that_it_does_not_use() -> None:
    existing = [name for name, _ in silver_columns(SOURCES[3])] + ["_change_type", "_commit_version"]
    needed = audit_rows.needed_columns(SOURCES[3], existing)
    assert {"line_number", "change_op", "_commit_version"}.isdisjoint(needed)
    assert {"c_double", "corrected_by", "_change_type"} <= set(needed)
    assert "change_op" in audit_rows.needed_columns(SOURCES[0], existing), "the event type"
