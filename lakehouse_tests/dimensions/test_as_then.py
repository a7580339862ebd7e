"""The intervals that a set of inputs gives: what the table held when these were its inputs."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse.dimensions import joins
from lakehouse_tests.support import dimension_model as model
from lakehouse_tests.support.dimension_lake import CORNERS, as_model, deliver, dimension, dimension_files, held_intervals
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import SampleLake
from lakehouse_tests.support.laws import law

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.lake import Lake
    from lakehouse_tests.support.dimension_model import DimensionRecord

ARRIVAL = date(2024, 2, 1)


@pytest.mark.merge
@pytest.mark.spark
@law(25)
@example(files=CORNERS[:3])
@given(files=dimension_files(3))
def test_each_prefix_of_the_inputs_gives_the_intervals_of_then(
    files: list[list[DimensionRecord]], spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    sample = SampleLake(lake_in(tmp_path_factory.mktemp("lake")), dimension(), spark)
    known: list[DimensionRecord] = []
    prefixes = []
    for number, records in enumerate(files):
        known += deliver(sample, ARRIVAL + timedelta(days=number % 2), records, f"{number}")
        prefixes.append((sample.inputs(), model.intervals(known)))
    for inputs, expected in prefixes:
        assert as_model(joins.intervals_as_then(spark, sample.lake, sample.contract, inputs).toArrow()) == expected
    assert as_model(joins.intervals_as_then(spark, sample.lake, sample.contract, None).toArrow()) == held_intervals(sample.lake)
    early = min(record.arrival for record in known)
    by_then = [record for record in known if record.arrival <= early]
    assert as_model(joins.intervals_as_then(spark, sample.lake, sample.contract, None, early).toArrow()) == model.intervals(
        by_then
    )


@pytest.mark.spark
def test_a_dimension_without_a_row_has_no_intervals(lake: Lake, spark: SparkSession) -> None:
    assert joins.intervals_as_then(spark, lake, dimension(), None).count() == 0


@law(200, in_each_run=100)
@given(st.lists(st.sampled_from("abc"), max_size=12), st.integers(1, 5), st.integers(1, 6))
def test_pieces_of_sorted_rows_holdwhole_keys(keys: list[str], batch_rows: int, together: int) -> None:
    rows = pa.table({"_key": pa.array(sorted(keys), pa.string())})
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(joins, "_TOGETHER", together)
        pieces = list(joins.whole_keys(rows.to_batches(batch_rows)))
    assert [key for piece in pieces for key in piece["_key"].to_pylist()] == sorted(keys)
    of_pieces = [set(piece["_key"].to_pylist()) for piece in pieces]
    assert sum(map(len, of_pieces)) == len(set(keys)), "no key is in two pieces"
