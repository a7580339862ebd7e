"""Rows on time and late ones are told apart by their own clocks, whatever was published when they came."""

from __future__ import annotations

from collections import Counter
from datetime import date, datetime, timedelta, timezone
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from lakehouse.gold.numbers.lifecycle import PublishAction, PublishedState, RevisionReason, State, reason_for
from lakehouse.gold.restatement import silver_tables
from lakehouse.gold.restatement.days import explain
from lakehouse.lake import Table
from lakehouse_tests.support.lake import contract

NOON = datetime(2024, 11, 7, 12, tzinfo=timezone.utc)
SCHEMA = pa.schema(
    [
        ("record_key", pa.string()),
        ("event_date", pa.date32()),
        ("event_ts", pa.timestamp("us", "UTC")),
        ("arrival_ts", pa.timestamp("us", "UTC")),
        ("change_op", pa.string()),
        ("source_file", pa.string()),
        ("amount", pa.int64()),
    ]
)
#: By event type: how many hours after the event a row may come.
EXPECTED = {"insert": 24, "correct": 2}
SOURCE = contract(
    lateness={"expected": "P1D", "by": {"column": "change_op", "values": {"correct": {"expected": "PT2H"}}}},
)


def rows(*keys: tuple[str, int, str], file: str = "sent.csv") -> pa.Table:
    """Rows of one event day: key, hours from event to arrival, event type."""
    values = [
        {
            "record_key": key,
            "event_date": NOON.date(),
            "event_ts": NOON,
            "arrival_ts": NOON + timedelta(hours=hours),
            "change_op": kind,
            "source_file": file,
            "amount": 1,
        }
        for key, hours, kind in keys
    ]
    return pa.Table.from_pylist(values, schema=SCHEMA)


def causes_after(folder: str, first: int) -> dict[date, Counter[str]]:
    return dict(silver_tables.since(Table(folder), DeltaTable(folder), first, SOURCE).causes)


@examples(max_examples=30, deadline=None)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 60), st.sampled_from(sorted(EXPECTED))), min_size=1, max_size=5),
        min_size=1,
        max_size=4,
    )
)
def test_a_row_is_late_by_its_own_clocks(deliveries: list[list[tuple[int, str]]]) -> None:
    """However the rows are grouped into deliveries, each is on time exactly if it came within what its event type expects."""
    with TemporaryDirectory() as folder:
        options = {"delta.enableChangeDataFeed": "true"}
        write_deltalake(folder, SCHEMA.empty_table(), partition_by=["event_date"], configuration=options)
        numbered = [[(f"{place}-{number}", *row) for number, row in enumerate(rows_)] for place, rows_ in enumerate(deliveries)]
        for delivery in numbered:
            write_deltalake(folder, rows(*delivery), mode="append")
        for first in range(len(numbered)):
            late = [hours > EXPECTED[kind] for delivery in numbered[first:] for _, hours, kind in delivery]
            wanted = +Counter({"inserted": sum(late), "on_time": len(late) - sum(late)})
            assert causes_after(folder, first + 1) == {NOON.date(): wanted}


def test_a_day_that_is_written_again_brings_only_its_new_rows() -> None:
    with TemporaryDirectory() as folder:
        write_deltalake(
            folder, rows(("a", 1, "insert")), partition_by=["event_date"], configuration={"delta.enableChangeDataFeed": "true"}
        )
        again = rows(("a", 1, "insert"), ("b", 2, "insert"), ("c", 30, "insert"))
        write_deltalake(folder, again, mode="overwrite", predicate="event_date = '2024-11-07'")
        assert causes_after(folder, 1) == {NOON.date(): Counter({"on_time": 1, "inserted": 1})}


@pytest.mark.parametrize("hours", [1, 300])
def test_a_record_that_a_person_enters_is_a_correction_and_neither_late_nor_new(hours: int) -> None:
    with TemporaryDirectory() as folder:
        options = {"delta.enableChangeDataFeed": "true"}
        write_deltalake(folder, rows(("a", 1, "insert")), partition_by=["event_date"], configuration=options)
        entered = rows(("b", hours, "insert"), file="arrival_date=2024-11-20.correction-0123456789ab.csv")
        write_deltalake(folder, entered, mode="append")
        assert causes_after(folder, 1) == {NOON.date(): Counter({"corrected": 1})}


@pytest.mark.parametrize(
    ("causes", "state", "reason", "text"),
    [
        ({"on_time": 40}, State.LIVE, RevisionReason.NEW_DATA, "new_data: 40 on time"),
        ({"on_time": 40}, State.PRELIMINARY, RevisionReason.NEW_DATA, "new_data: 40 on time"),
        ({"on_time": 38, "inserted": 2}, State.LIVE, RevisionReason.LATE_DATA, "late_data: 38 on time, 2 late"),
        ({"inserted": 2}, State.LIVE, RevisionReason.LATE_DATA, "late_data: 2 arrived late"),
        ({"on_time": 3}, State.FINAL, RevisionReason.LATE_DATA, "late_data: 3 on time, taken in later"),
        ({"on_time": 3, "corrected": 1}, State.LIVE, RevisionReason.CORRECTION, "correction: 3 on time, 1 corrected"),
    ],
)
def test_the_growth_of_a_running_day_is_no_restatement(
    causes: dict[str, int], state: State, reason: RevisionReason, text: str
) -> None:
    action = PublishAction.ADJUSTMENT if state is State.FINAL else PublishAction.REVISION
    assert reason_for(action, PublishedState(1, state, "a"), None, causes) is reason
    if reason is RevisionReason.NEW_DATA:  # of a day that is over, rows that a steward lets in are news
        assert reason_for(action, PublishedState(1, state, "a"), None, causes, is_running=False) is RevisionReason.LATE_DATA
    assert explain(reason, causes) == text
