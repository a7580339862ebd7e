"""Few rows, computed in the process, are those that Spark computes; what silver holds is read in order, and redacted."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse import locations
from lakehouse.delta import row_writer
from lakehouse.delta.columns import arrow_schema, silver_columns
from lakehouse.snapshots import input_sets, local_rows, rows
from lakehouse.stewardship.redact import redact_fields
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.ingested_files import at, deliver, line
from lakehouse_tests.support.lake import SampleLake, contract, csv_file, csv_line
from lakehouse_tests.support.laws import law
from lakehouse_tests.support.quarantine_lake import decide
from lakehouse_tests.support.reproducible_lake import WEEK_WATERMARK, reproducible_lake
from lakehouse_tests.support.silver_histories import BACKWARD, NOON, History, Step, histories, record_at

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import SparkSession

    from lakehouse.snapshots.input_sets import NamedSnapshot

MANY = 1_000
ARRIVED = [date(2024, 2, day) for day in (1, 2, 3)]
POLICIES = [
    {},
    {"order": {"sequence": "seq"}},
    {"materialization": {"reprocess_policy": "append"}, "changes": {}},
    {"materialization": {"reprocess_policy": "overwrite_partition_safe"}, "changes": {}},
    {"materialization": {"reprocess_policy": "overwrite_all"}, "changes": {}},
]


def in_order(table: pa.Table | None) -> list[dict[str, Any]]:
    found = [] if table is None else table.to_pylist()
    return sorted(found, key=lambda row: (row["event_date"], row["record_key"], row["ingestion_id"], row["line_number"]))


def by_spark(sample: SampleLake, days: Collection[date], as_of: datetime | NamedSnapshot) -> list[dict[str, Any]]:
    of = rows.as_known_at if isinstance(as_of, datetime) else rows.of_snapshot
    by_tasks = sample.lake.with_settings(local_rows=0)
    pieces = list(of(sample.spark, by_tasks, sample.contract, days, as_of))  # type: ignore[operator]
    return in_order(pa.concat_tables(pieces, promote_options="permissive") if pieces else None)


def agree(sample: SampleLake, days: list[date], as_of: datetime | NamedSnapshot) -> list[dict[str, Any]]:
    """The rows of then, which both compute; and those of one key."""
    found = local_rows.computed(sample.lake, sample.contract, days, as_of, MANY)
    assert found is not None
    wanted = by_spark(sample, days, as_of)
    assert found.to_pylist() == wanted
    of_key = local_rows.computed(sample.lake, sample.contract, days, as_of, MANY, ["a"])
    assert in_order(of_key) == [row for row in wanted if row["record_key"] == "a"]
    return wanted


#: Two files before those of ``BACKWARD``, the later one first; one of them comes again on another day.
FIRST_FILES = History(
    [
        [record_at(1, "a", "insert", 0), record_at(4, "b", "insert", 1)],
        [record_at(2, "a", "correct", 1), record_at(3, "b", "delete", None), record_at(3, "a", "correct", 3, corrects="moved")],
    ],
    [Step(1, ARRIVED[0], frozenset()), Step(0, ARRIVED[1], frozenset()), Step(1, ARRIVED[2], frozenset())],
    local_rows=MANY,
    piece_rows=0,
)


@pytest.mark.merge
@pytest.mark.spark
@pytest.mark.parametrize("changes", POLICIES, ids=["by arrival", "by sequence", "append", "overwrite day", "overwrite all"])
@law(25)
@example(history=FIRST_FILES, hour=3, fewer=False)
@given(history=histories(), hour=st.integers(0, 5), fewer=st.booleans())
def test_rows_of_a_time_are_those_that_spark_computes(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    changes: dict[str, Any],
    history: History,
    hour: int,
    fewer: bool,
) -> None:
    sample = SampleLake(lake_in(tmp_path_factory.mktemp("lake")), contract(**changes), spark)
    for number, step in enumerate([*history.steps, *BACKWARD.steps]):
        file = history.files[step.file] if number < len(history.steps) else BACKWARD.files[step.file]
        sample.deliver(step.arrival, csv_file(map(csv_line, file)), f".{number}.csv")
        sample.ingest(step.arrival)
    days = local_rows.days_of(sample.lake, sample.contract)
    assert agree(sample, days[::2] if fewer else days, NOON + timedelta(days=30)), "some row lives"
    agree(sample, days[::2] if fewer else days, NOON + timedelta(hours=hour))


@pytest.mark.proof
@pytest.mark.spark
def test_decisions_and_judgements_of_then_count_and_redactions_of_now(lake, spark) -> None:
    sample = reproducible_lake(lake, spark, [], **WEEK_WATERMARK)
    sample.deliver(1, "a,1,1,insert,,red", "b,2,1,insert,,blue")
    sample.deliver(12, "a,5,12,correct,,red", "w,3,1,insert,,red", "v,4,1,insert,,blue")  # w and v wait
    sample.publish()
    chosen = input_sets.ChosenInputs(input_sets.every_input(lake, "events"), "all")
    input_sets.create_snapshot(lake, sample.sample.contract, "waiting", chosen, by="anna", reason="audit")
    sample.at(13)
    decide(sample.sample, "accept", "w")
    sample.publish()
    sample.at(14)
    sample.rebuild(sample.sample.contract.model_copy(update={"lateness": contract().lateness}))  # v may contend
    days = local_rows.days_of(lake, sample.sample.contract)
    redact_fields(lake, sample.sample.contract, "b", ["colour"], by="dora", reason="asked to")

    def keys(as_of: datetime | NamedSnapshot) -> str:
        found = agree(sample.sample, days, as_of)
        assert {row["colour"] for row in found if row["record_key"] == "b"} == {None}
        return "".join(sorted(row["record_key"] for row in found))

    evenings = {day: datetime(2024, 2, day, 23, 30, tzinfo=timezone.utc) for day in (1, 12, 13, 14)}
    assert {day: keys(when) for day, when in evenings.items()} == {1: "ab", 12: "ab", 13: "abw", 14: "abvw"}
    assert keys(input_sets.find_snapshot(lake, "events", "waiting")) == "ab"
    assert local_rows.computed(lake, sample.sample.contract, days, evenings[14], 3) is None, "four keys are concerned"


EVENTS = contract()


def hold(lake, *held: tuple[str, int]) -> None:
    """Rows of keys on days of January, in silver."""
    schema = arrow_schema(silver_columns(EVENTS))
    for file, (key, day) in enumerate(held):
        row = {"record_key": key, "id": key, "amount": file, "event_date": date(2024, 1, day), "line_number": file}
        table = pa.Table.from_pylist([row], schema=schema)
        row_writer.append(locations.silver(lake, "events"), table, partition_by=["event_date"])


def first(lake, days: list[int], count: int, *keys: str) -> list[tuple[str, int]]:
    found = local_rows.first_rows(lake, EVENTS, [date(2024, 1, day) for day in days], count, keys or None)
    return [(row["record_key"], row["event_date"].day) for row in found.to_pylist()]


def test_the_first_rows_come_by_day_and_key(lake) -> None:
    assert first(lake, [1], 5) == []
    hold(lake, ("b", 1), ("a", 1), ("d", 3), ("c", 3), ("b", 3), ("e", 4))
    assert first(lake, [1, 2, 3, 4], 9) == [("a", 1), ("b", 1), ("b", 3), ("c", 3), ("d", 3), ("e", 4)]
    assert first(lake, [3, 4], 9, "b", "e") == [("b", 3), ("e", 4)]
    assert first(lake, [1, 3, 4], 2) == [("a", 1), ("b", 1)]
    assert [len(first(lake, [1, 3, 4], count)) for count in range(1, 8)] == [1, 2, 3, 4, 5, 6, 6]


def test_rows_that_silver_still_shows_are_redacted(lake) -> None:
    deliver(lake, EVENTS, date(2024, 1, 2), line("a", "2024-01-01T06:00:00Z", at(12)))
    hold(lake, ("a", 1), ("b", 1))
    redact_fields(lake, EVENTS, "a", ["amount"], by="dora", reason="asked to")
    found = local_rows.first_rows(lake, EVENTS, [date(2024, 1, 1)], 5)
    assert found.select(["record_key", "amount"]).to_pylist() == [
        {"record_key": "a", "amount": None},
        {"record_key": "b", "amount": 1},
    ]
    then = local_rows.computed(lake, EVENTS, [date(2024, 1, 1)], at(13), 5)
    assert then is not None
    assert then.select(["record_key", "amount"]).to_pylist() == [{"record_key": "a", "amount": None}]
