"""Silver of a source whose corrections carry only what they change: merged, rebuilt by Spark, as of earlier inputs, by hand."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse import locations
from lakehouse.dispositions.living_rows import Slice
from lakehouse.silver import checks
from lakehouse.silver import merge as silver_merge
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import SampleLake, contract

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FIELDS = [{"name": name, "type": kind} for name, kind in (("id", "string"), ("amount", "int"), ("shop", "string"))]
SOURCE = contract(
    model={"fields": [FIELDS[0], {**FIELDS[1], "required": True}, FIELDS[2]]},
    changes={"op": "op", "corrected_field": "field", "corrections": "partial"},
)
DAYS = [date(2024, 1, 1), date(2024, 1, 2), date(2024, 1, 3)]
HEADER = "id,amount,shop,op,field,event_time,arrived_at"
#: By arrival day; what silver holds when all have arrived. Each key is a corner of the rule.
FILES = {
    1: ["a,5,north,insert,,1", "b,1,north,insert,,1", "c,1,north,insert,,1", "e,1,north,insert,,1", "f,1,north,insert,,1"],
    2: ["a,7,,correct,,1", "b,,south,correct,,2", "c,,,delete,,1", "d,8,,correct,,1", "e,,,correct,Shop,1", "f,2,,insert,,1"],
    3: ["a,,east,correct,,1", "b,3,,correct,,2", "c,9,,correct,,1", "f,,west,correct,,3"],
}
EXPECTED = {
    ("a", 1, 7, "east"),
    ("b", 2, 3, "south"),
    ("c", 1, 9, None),
    ("d", 1, 8, None),
    ("e", 1, 1, None),
    ("f", 3, 2, "west"),
}
OF_TWO = {("a", 1, 7, "north"), ("b", 2, 1, "south"), ("d", 1, 8, None), ("e", 1, 1, None), ("f", 1, 2, None)}


def content(arrival: int) -> bytes:
    lines = [HEADER]
    for line in FILES[arrival]:
        values, day = line.rsplit(",", 1)
        lines.append(f"{values},2024-01-0{day}T12:00:00Z,2024-02-0{arrival}T12:00:00Z")
    return "\n".join(lines).encode()


def rows(table: Any) -> set[tuple[Any, ...]]:
    return {(row["record_key"], row["event_date"].day, row["amount"], row["shop"]) for row in table.to_pylist()}


def in_silver(sample: SampleLake) -> set[tuple[Any, ...]]:
    return rows(locations.silver(sample.lake, "events").read(["record_key", "event_date", "amount", "shop"]))


def rebuilt(sample: SampleLake, ids: Collection[str] | None = None) -> list[set[tuple[Any, ...]]]:
    """By this process and by Spark."""
    by_spark = sample.lake.with_settings(local_rows=0)
    states = (silver_merge.state(sample.spark, each, SOURCE, Slice(DAYS, ids)) for each in (sample.lake, by_spark))
    return [rows(state.toArrow()) for state in states]


@pytest.mark.parametrize("order", [(1, 2, 3), pytest.param((3, 1, 2), marks=pytest.mark.merge)])
def test_a_partial_correction_changes_what_it_carries(tmp_path: Path, spark: SparkSession, order: tuple[int, ...]) -> None:
    sample = SampleLake(lake_in(tmp_path), SOURCE, spark)
    inputs: dict[int, set[str]] = {}
    for arrival in order:
        day = date(2024, 2, arrival)
        sample.deliver(day, content(arrival))
        sample.ingest(day)
        sample.update()
        inputs[arrival] = sample.inputs() - set().union(*inputs.values())
    assert in_silver(sample) == EXPECTED
    assert rebuilt(sample) == [EXPECTED, EXPECTED]
    assert rebuilt(sample, inputs[1] | inputs[2]) == [OF_TWO, OF_TWO]
    failed = {one.check for one in checks.check_silver(sample.lake, SOURCE, DAYS) if not one.passed}
    assert failed == set(), "rows of the account are those of silver, no required field is empty"


def test_a_correction_without_an_original_fails_the_check_of_required_fields(tmp_path: Path, spark: SparkSession) -> None:
    sample = SampleLake(lake_in(tmp_path), SOURCE, spark)
    text = f"{HEADER}\na,,south,correct,,2024-01-01T12:00:00Z,2024-02-01T12:00:00Z"
    sample.deliver(date(2024, 2, 1), text.encode())
    sample.ingest(date(2024, 2, 1))
    sample.update()
    failed = {one.check for one in checks.check_silver(sample.lake, SOURCE, DAYS) if not one.passed}
    assert failed == {"required_fields"}
