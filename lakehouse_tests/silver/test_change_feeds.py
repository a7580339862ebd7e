"""Change feeds through Bronze and silver: whatever the order and grouping of files, silver holds the rows of the table."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse.contracts.source import SourceContract
from lakehouse.dispositions import account as dispositions_account
from lakehouse.ledger import contract_archive
from lakehouse_tests.support.earlier_columns import without_source_order
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import SampleLake, contract, csv_file
from lakehouse_tests.support.laws import law
from lakehouse_tests.support.row_histories import (
    BACKWARD,
    DAYS,
    FEEDS,
    MOST_FILES,
    Feed,
    SentHistory,
    sent_histories,
    table_after,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from lakehouse.lake import Lake
    from lakehouse_tests.support.row_histories import RowChange

pytestmark = pytest.mark.spark
BY_SPARK_OR_NOT = pytest.mark.parametrize(
    "local_rows", [pytest.param(0, marks=pytest.mark.proof), 20_000], ids=["by Spark", "in the process"]
)
ARRIVALS = [date(2024, 2, day) for day in (1, 2, 3)]
Held = set[tuple[str, date, int]]


def expected_of(history: Sequence[RowChange]) -> Held:
    return {(f"{row.id}", row.day, row.amount) for row in table_after(history).values()}


def held_by(sample: SampleLake) -> Held:
    return {row[:3] for row in sample.silver()}


def deliver_lines(sample: SampleLake, lines: Sequence[str], name: str) -> None:
    sample.deliver(ARRIVALS[0], "".join(f"{line}\n" for line in lines).encode(), f".{name}.json")
    assert len(sample.ingest(ARRIVALS[0]).ingested) == 1


def deliver(sample: SampleLake, feed: Feed, content: bytes, number: int, arrival: date) -> None:
    sample.deliver(arrival, content, f".{number}.{feed.format}")
    assert len(sample.ingest(arrival).ingested) == 1


@pytest.mark.merge
@pytest.mark.parametrize(
    "name",
    [
        "debezium of postgresql",
        *(pytest.param(name, marks=pytest.mark.proof) for name in ("debezium of sql server", "sql server, csv")),
        "delta feed, parquet",
    ],
)
@law(25)
@example(sent=BACKWARD, arrivals=[(ARRIVALS[0], True), (ARRIVALS[1], False)], local_rows=20_000)
@example(sent=replace(BACKWARD, cuts=[]), arrivals=[(ARRIVALS[0], False)], local_rows=0)  # one file, by Spark
@given(
    sent=sent_histories(),
    # Of each file the day, and whether silver follows at once.
    arrivals=st.lists(st.tuples(st.sampled_from(ARRIVALS), st.booleans()), min_size=MOST_FILES, max_size=MOST_FILES),
    local_rows=st.sampled_from([0, 20_000]),
)
def test_silver_holds_the_rows_of_the_table_whatever_comes_when(
    name: str,
    sent: SentHistory,
    arrivals: list[tuple[date, bool]],
    local_rows: int,
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    feed = FEEDS[name]
    sample = SampleLake(lake_in(tmp_path_factory.mktemp("lake")), feed.contract, spark)
    sample.lake.settings.local_rows = local_rows
    for number, (content, (arrival, is_followed)) in enumerate(zip(sent.files(feed), arrivals)):
        deliver(sample, feed, content, number, arrival)
        if is_followed:
            sample.update()
    sample.update()
    expected = expected_of(sent.history)
    assert held_by(sample) == expected, "merged"
    assert {row[:3] for row in sample.rebuilt(DAYS)} == expected, "rebuilt (R3)"
    rows = dispositions_account.rows(sample.lake, sample.contract)
    assert len(rows) == len(sample.bronze()), "every record has one disposition (R4)"
    assert {row.record_key for row in rows if row.lives} == {row[0] for row in expected}


BY_TEXT = {"order": {"sequence": {"column": "seq", "type": "text"}}}


def line(key: str, amount: int, op: str, seq: str) -> str:
    return f"{key},{amount},2024-01-01T12:00:00Z,2024-02-01T06:00:00Z,{op},,{seq}"


@BY_SPARK_OR_NOT
def test_text_orders_the_changes_of_a_plain_source(lake: Lake, spark: SparkSession, local_rows: int) -> None:
    sample = SampleLake(lake, contract(**BY_TEXT), spark)
    lake.settings.local_rows = local_rows
    files = [
        [line("a", 1, "insert", "0a"), line("b", 1, "insert", "\U0001f600"), line("c", 1, "insert", "b")],
        [line("a", 2, "correct", "09"), line("b", 2, "correct", "\uffee"), line("c", 1, "delete", "ab")],
        [line("a", 3, "correct", "0A"), line("b", 3, "correct", "z"), line("c", 3, "correct", "ba")],
    ]
    for number, (arrival, lines) in enumerate(zip(ARRIVALS, files)):
        sample.deliver(arrival, csv_file(lines), f".{number}.csv")
        sample.ingest(arrival)
        sample.update()
    day = date(2024, 1, 1)
    assert held_by(sample) == {("a", day, 1), ("b", day, 1), ("c", day, 3)}
    assert sample.rebuilt([day]) == sample.silver()


@pytest.mark.merge
@BY_SPARK_OR_NOT
def test_tables_of_an_earlier_release_get_the_column_of_the_order(lake: Lake, spark: SparkSession, local_rows: int) -> None:
    lake.settings.file_bytes = 0  # of an earlier release
    sample = SampleLake(lake, contract(), spark)
    lake.settings.local_rows = local_rows
    day = date(2024, 1, 1)
    sample.deliver(ARRIVALS[0], csv_file([line("a", 1, "insert", ""), line("b", 1, "insert", ""), line("c", 1, "insert", "")]))
    sample.ingest(ARRIVALS[0])
    sample.update()
    without_source_order(lake, "events")
    assert sample.rebuilt([day]) == sample.silver(), "read as it is"
    assert len(dispositions_account.rows(lake, sample.contract)) == 3
    sample.contract = contract(**BY_TEXT)
    contract_archive.accept(lake, sample.contract)  # the order of a source with rows changes by a whole reading only
    sample.deliver(ARRIVALS[1], csv_file([line("a", 2, "correct", "x"), line("b", 2, "delete", "x")]))
    sample.ingest(ARRIVALS[1])
    sample.update()
    assert held_by(sample) == {("a", day, 2), ("c", day, 1)}, "a row without an order comes before those with one"
    assert sample.rebuilt([day]) == sample.silver()
    sample.deliver(ARRIVALS[2], csv_file([line("a", 3, "correct", "w"), line("c", 3, "correct", "w")]))
    sample.ingest(ARRIVALS[2])
    sample.update()
    assert held_by(sample) == {("a", day, 2), ("c", day, 3)}
    assert [row["source_order"] for row in sample.bronze("source_order")] == [None, None, None, "x", "x", "w", "w"]


def event(op: str, lsn: Any, before: dict[str, Any] | None, after: dict[str, Any] | None) -> str:
    source = {"connector": "postgresql", "lsn": lsn, "snapshot": "true" if op == "r" else "false"}
    return json.dumps({"before": before, "after": after, "source": source, "op": op, "ts_ms": 1_705_744_800_000})


def row(key: int, amount: int | None, **more: Any) -> dict[str, Any]:
    return {"id": key, "amount": amount, "ordered_at": "2024-01-01T12:00:00Z", **more}


SNAPSHOT = [event("r", 100, None, row(key, 10)) for key in (1, 2, 3, 5)]
CHANGES = [
    event("u", 110, {"id": 1}, row(1, 11)),
    event("d", 120, {"id": 2}, None),
    "null",
    event("d", 130, row(3, 10), None),  # an update of the key
    "null",
    event("c", 130, None, row(4, 10)),
    event("u", 140, row(5, 10), row(6, 10)),  # one that is told as an update
    event("t", 150, None, None),
    event("m", 151, None, None),
    event("u", "0/9F", None, row(1, 0)),
    event("u", 152, None, None),
    '{"status": "BEGIN", "id": "571"}',
    "[]",
]
LATE = [
    event("u", 105, {"id": 1}, row(1, 7)),  # older than what came before it
    event("u", 110, {"id": 1}, row(1, 11)),  # sent again
    event("u", 160, None, row(4, None, note="a new column")),  # and one that is gone
    event("c", 170, None, row(3, 33)),  # the key begins again
    event("r", 99, None, row(2, 10)),  # of an earlier snapshot
]
REASONS = {
    ("b", 8): "op: 't' is a truncation of the whole table, which names no row; delete its rows, or have the table sent again",
    ("b", 9): "op: 'm' is a message of the database's log, which is about no row; leave it out of the topic",
    ("b", 10): "source.lsn: '0/9F' is not an integer",
    ("b", 11): "after: missing from the envelope",
    ("b", 12): "op: missing from the envelope",
    ("b", 13): "a JSON list where an object is expected",
}


@pytest.mark.merge
@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0]], ids=["in order", "backwards"])
def test_the_corner_cases_of_debezium_end_as_the_table_does(lake: Lake, spark: SparkSession, order: list[int]) -> None:
    feed = FEEDS["debezium of postgresql"]
    sample = SampleLake(lake, feed.contract, spark)
    files = [SNAPSHOT, CHANGES, LATE]
    for number, place in enumerate(order):
        if number == 1:  # the contract learns of the new column
            described = feed.contract.model_dump(mode="json", exclude_unset=True)
            described["model"]["fields"].append({"name": "note", "type": "string"})
            sample.contract = SourceContract.model_validate(described)
        deliver_lines(sample, files[place], "abc"[place])
        sample.update()
    day = date(2024, 1, 1)
    assert held_by(sample) == {("1", day, 11), ("3", day, 33), ("4", day, None), ("6", day, 10)}
    assert sample.rebuilt([day]) == sample.silver()
    malformed = {
        (entry["source_file"].split(".")[1], entry["line_number"]): entry["malformed_reason"]
        for entry in sample.bronze("malformed_reason")
    }
    assert {place: reason for place, reason in malformed.items() if reason} == REASONS
    lines = {"a": range(1, 5), "b": [1, 2, 4, *range(6, 14)], "c": range(1, 6)}
    assert malformed.keys() == {(file, number) for file, numbers in lines.items() for number in numbers}, (
        "a tombstone is no record"
    )
    dispositions = Counter(entry.disposition.value for entry in dispositions_account.rows(lake, sample.contract))
    assert dispositions == {"applied": 5, "superseded": 7, "duplicate": 2, "malformed": 6}
