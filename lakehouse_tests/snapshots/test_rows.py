"""Rows as they were known at a time are those that silver held then."""

from __future__ import annotations

from datetime import date, datetime, timezone

import pyarrow as pa
import pytest

from lakehouse.lake import Table
from lakehouse.snapshots import local_rows, rows
from lakehouse_tests.support.lake import ROW, Row, rows_once
from lakehouse_tests.support.quarantine_lake import decide
from lakehouse_tests.support.reproducible_lake import WEEK_WATERMARK, ReproducibleLake, reproducible_lake

pytestmark = pytest.mark.spark

#: What arrives on days of February: late rows, a move, corrections, deletes, a day that is emptied, a row that waits.
DELIVERIES = {
    1: ["a,1,1,insert,,red", "b,2,1,insert,,blue", "x,7,1,insert,,red"],
    3: ["c,3,2,insert,,red", "a,5,3,correct,,red", "x,,,delete,,"],
    5: ["d,4,1,insert,,red", "c,3,3,correct,c,", "b,8,1,correct,,blue"],
    12: ["e,9,1,insert,,red", "f,6,12,insert,,red"],
    14: ["f,,,delete,,", "a,2,13,correct,,red"],
}


def known_at(sample: ReproducibleLake, day: int) -> set[Row]:
    when = datetime(2024, 2, day, 23, 30, tzinfo=timezone.utc)
    lake, contract = sample.lake, sample.sample.contract
    days = local_rows.days_of(lake, contract)
    pieces = [piece.select(ROW) for piece in rows.as_known_at(sample.sample.spark, lake, contract, days, when)]
    return rows_once(pa.concat_tables(pieces) if pieces else None)


def current(sample: ReproducibleLake) -> pa.Table:
    days = local_rows.days_of(sample.lake, sample.sample.contract)
    return pa.concat_tables(local_rows.current(sample.lake, sample.sample.contract, days))


def deliver_and_compare(sample: ReproducibleLake, deliveries: dict[int, list[str]]) -> dict[int, set[Row]]:
    """Deliver day by day; afterwards compare what was known at the end of each of these days with what silver held then."""
    held: dict[int, set[Row]] = {}
    for day, lines in deliveries.items():
        sample.deliver(day, *lines)
        sample.publish()
        held[day] = sample.sample.silver()
    assert len(set(map(frozenset, held.values()))) == len(held), "each delivery changes something"
    assert {day: known_at(sample, day) for day in held} == held
    return held


@pytest.mark.merge
def test_rows_known_at_each_time_are_those_that_silver_held_then(lake, spark) -> None:
    sample = reproducible_lake(lake, spark, [], **WEEK_WATERMARK)
    held = deliver_and_compare(sample, DELIVERIES)
    sample.at(15)
    decide(sample.sample, "accept", "e")
    sample.publish()
    assert rows_once(current(sample).select(ROW)) == known_at(sample, 15) == sample.sample.silver() != held[14]
    assert known_at(sample, 14) == held[14]
    assert known_at(sample, 4) == held[3]


@pytest.mark.merge
@pytest.mark.parametrize("policy", ["overwrite_partition_safe", pytest.param("append", marks=pytest.mark.proof)])
def test_the_same_under_policies_that_replace_or_add(lake, spark, policy) -> None:
    sample = reproducible_lake(lake, spark, [], materialization={"reprocess_policy": policy}, changes={})
    deliver_and_compare(
        sample,
        {
            1: ["a,1,1,insert,,red", "b,2,1,insert,,blue"],
            3: ["c,3,2,insert,,red", "a,5,1,insert,,red", "d,4,1,insert,,red"],
            5: ["e,6,3,insert,,red", "c,4,2,insert,,blue"],
        },
    )


def test_days_limit_the_rows_and_a_time_before_all_deliveries_has_none(lake, spark) -> None:
    sample = reproducible_lake(lake, spark, [])
    assert local_rows.days_of(lake, sample.sample.contract) == []
    sample.deliver(3, "a,1,1,insert,,red", "b,2,2,insert,,blue", "c,3,3,insert,,blue")
    sample.publish()
    days = local_rows.days_of(lake, sample.sample.contract, date(2024, 2, 2), date(2024, 2, 2))
    assert days == [date(2024, 2, 2)]
    (of_day,) = local_rows.current(lake, sample.sample.contract, days)
    assert of_day["record_key"].to_pylist() == ["b"]
    before = datetime(2024, 2, 3, 11, 59, tzinfo=timezone.utc)
    assert sum(map(len, rows.as_known_at(spark, lake, sample.sample.contract, days, before))) == 0


@pytest.mark.merge
@pytest.mark.parametrize("ending", rows.ENDINGS)
def test_rows_of_then_are_written_and_read_back(lake, spark, tmp_path, ending) -> None:
    sample = reproducible_lake(lake, spark, [])
    sample.deliver(1, "a,1,1,insert,,red", 'b,2,2,insert,,"light ""blue"""')
    sample.deliver(2, "a,5,1,correct,,red")
    sample.publish()
    days, when = local_rows.days_of(lake, sample.sample.contract), datetime(2024, 2, 1, 23, tzinfo=timezone.utc)
    path = tmp_path / f"rows{ending}"
    assert rows.write_file(rows.as_known_at(spark, lake, sample.sample.contract, days, when), path) == 2
    if ending == ".delta":
        found = Table(str(path)).read()
        read = [] if found is None else found.to_pylist()
    else:
        format_of = spark.read.option("header", True).option("inferSchema", True).option("escape", '"')
        read = [row.asDict() for row in format_of.format(ending[1:]).load(str(path)).collect()]
    values = sorted((row["record_key"], f"{row['event_date']}", row["amount"], row["colour"]) for row in read)
    assert values == [("a", "2024-02-01", 1, "red"), ("b", "2024-02-02", 2, 'light "blue"')]
