"""A table that is restored from a copy, or whose newest log entry is lost or emptied: the numbers end as if it had not been."""

from __future__ import annotations

import shutil
from contextlib import nullcontext, suppress
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse.lake import Lake, table_io
from lakehouse.ledger import ingestions
from lakehouse.settings import Settings
from lakehouse.silver import update
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.laws import law
from lakehouse_tests.support.lossy_lake import (
    METRIC,
    arrive,
    copies,
    expected_state,
    four_arrivals,
    in_one_folder,
    prepared,
    publish,
    state,
    three_arrivals,
)
from lakehouse_tests.support.prepared_lake import prepare
from lakehouse_tests.support.reproducible_lake import ReproducibleLake, reproducible_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TABLES = ("bronze/events", "silver/events", "gold/total", "gold/total_weekly", "ops/events_keys")


@pytest.fixture
def sample(lake: Lake, spark: SparkSession) -> ReproducibleLake:
    return prepared(lake, spark)


@pytest.fixture
def expected(tmp_path: Path, spark: SparkSession) -> dict[str, Any]:
    return expected_state(tmp_path, spark)


def damage(lake: Lake, table: str, how: str) -> None:
    """Take away what the newest run has committed to a table, or all that the two newest have."""
    folder = Path(lake.root, table)
    newest = max(folder.glob("_delta_log/*.json"))
    if how == "deleted":
        newest.unlink()
    elif how == "emptied":
        newest.write_text("")
    else:
        shutil.rmtree(folder)
        shutil.copytree(copies(lake, 2 if how == "a run older" else 1) / table, folder)


HOW = ["a run older", "two runs older", "deleted", "emptied"]
#: In each run one case of a kind; two of each table are in the merge tier, the others in the proofs.
FEW = {("bronze/events", "deleted"), ("silver/events", "a run older"), ("gold/total", "emptied"), ("ops/events_keys", "deleted")}


@pytest.mark.parametrize(
    ("table", "how"),
    [
        pytest.param(
            table,
            how,
            marks=() if (table, how) in FEW else pytest.mark.merge if how in HOW[:2] else pytest.mark.proof,
            id=f"{table}, {how}",
        )
        for table in TABLES
        for how in HOW
    ],
)
def test_the_next_file_makes_up_for_what_a_table_has_lost(
    sample: ReproducibleLake, expected: dict[str, Any], table: str, how: str
) -> None:
    damage(sample.lake, table, how)
    arrive(sample, 4)
    assert state(sample) == expected
    publish(sample)
    assert state(sample) == expected


@pytest.mark.merge
@pytest.mark.parametrize("table", ["bronze/events", "ops/events_keys"])
def test_a_rebuild_afterwards_gives_the_same_rows(sample: ReproducibleLake, expected: dict[str, Any], table: str) -> None:
    damage(sample.lake, table, "two runs older")
    with pytest.raises(ingestions.LostRowsError, match=r"has lost the . rows of 2 ingested files \(arrival_date=2024-02-02"):
        sample.sample.update([date(2024, 2, 1)])
    arrive(sample, 4)
    sample.sample.update([date(2024, 2, day) for day in (1, 2, 3, 4)])
    publish(sample)
    assert state(sample) == expected


@pytest.mark.merge
@pytest.mark.parametrize("how", [pytest.param(each, marks=() if each == "deleted" else pytest.mark.proof) for each in HOW])
def test_a_ledger_that_has_lost_files_is_named_until_they_are_recorded_again(
    sample: ReproducibleLake, expected: dict[str, Any], how: str
) -> None:
    damage(sample.lake, "ops/ingestions", how)
    before = state(sample)
    with pytest.raises(
        update.LostRecordsError, match=r"ops/ingestions has lost the entries of . files .*'lakehouse replay events'"
    ):
        arrive(sample, 4)
    assert state(sample) == before
    for day in {*update.lost_files(sample.lake, "events").values()}:
        sample.sample.ingest(day)
    publish(sample)
    assert state(sample) == expected
    sample.sample.update([date(2024, 2, day) for day in (1, 2, 3, 4)])
    publish(sample)
    assert state(sample) == expected


def test_rows_that_are_nowhere_any_more_are_named(sample: ReproducibleLake) -> None:
    damage(sample.lake, "bronze/events", "a run older")
    gone = next(Path(str(sample.lake.settings.landing)).glob("arrival_date=2024-02-03*"))
    gone.unlink()
    before = state(sample)
    with pytest.raises(
        ingestions.LostRowsError, match=r"has lost the 2 rows of 1 ingested files \(arrival_date=2024-02-03.*put them"
    ):
        arrive(sample, 4)
    assert state(sample) == before


@pytest.mark.parametrize("table", ["silver/events", "gold/total"])
def test_a_log_entry_that_is_cut_off_is_said_and_can_be_moved_away(
    sample: ReproducibleLake, expected: dict[str, Any], table: str
) -> None:
    newest = max(Path(sample.lake.root, table).glob("_delta_log/*.json"))
    newest.write_bytes(newest.read_bytes()[:-80])
    with pytest.raises(table_io.DamagedLogError, match=r"move the newest file of .*_delta_log away, and run the same command"):
        publish(sample)
    newest.unlink()
    arrive(sample, 4)
    assert state(sample) == expected


@law(25)
@example(table="gold/total", cuts=["deleted", "deleted"], steps=["publish"])
@example(table="silver/events", cuts=["deleted", "emptied"], steps=["rebuild"])
@given(
    table=st.sampled_from(TABLES),
    cuts=st.lists(st.sampled_from(HOW), min_size=1, max_size=3),
    steps=st.lists(st.sampled_from(["publish", "rebuild"]), max_size=2),
)
def test_whatever_a_table_loses_the_numbers_end_the_same(
    spark: SparkSession, table: str, cuts: list[str], steps: list[str]
) -> None:
    with TemporaryDirectory() as folder:
        lake, whole = lake_in(Path(folder)), Lake(Settings(root=f"{folder}/whole", spark_profile="large"))
        expected = prepare(whole, "four arrivals", lambda template: four_arrivals(template, spark))
        prepare(lake, "three arrivals with copies", lambda template: three_arrivals(template, spark))
        sample = reproducible_lake(in_one_folder(lake), spark, [METRIC])
        for how in cuts:
            damage(sample.lake, table, how)
        for step in steps:
            # What has lost rows is said, and nothing wrong is published.
            with suppress(ingestions.LostRowsError) if table in ("bronze/events", "ops/events_keys") else nullcontext():
                if step == "publish":
                    publish(sample)
                else:
                    sample.sample.update([date(2024, 2, day) for day in (1, 2, 3)])
        arrive(sample, 4)
        publish(sample)
        assert state(sample) == expected
