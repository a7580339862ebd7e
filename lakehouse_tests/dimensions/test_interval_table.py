"""The table of intervals beside silver: it follows every arrival, and gives what a rebuild and the model give."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from shutil import copytree, rmtree
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse import locations
from lakehouse.delta import change_feed, commit_log
from lakehouse.dimensions import buckets, interval_table, tables
from lakehouse_tests.support import dimension_model as model
from lakehouse_tests.support.dimension_lake import CORNERS, csv_file, deliver, dimension, dimension_files, held_intervals, in_file
from lakehouse_tests.support.dimension_model import DimensionRecord, day
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import SampleLake
from lakehouse_tests.support.laws import law
from lakehouse_tests.support.stopped_commits import after_each_commit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.lake import Lake

pytestmark = pytest.mark.spark
ARRIVAL = date(2024, 2, 1)


def record(key: str, at: float, tier: str, op: str = "", email: str = "a") -> DimensionRecord:
    return DimensionRecord(key, day(at), op, tier, "north", email, None, day(31))


@pytest.mark.merge
def test_a_file_becomes_intervals(lake: Lake, spark: SparkSession) -> None:
    sample = SampleLake(lake, dimension(), spark)
    known = deliver(sample, ARRIVAL, [record("1", 0, "gold"), record("1", 4, "silver"), record("2", 1, "gold")], "a")
    assert held_intervals(lake) == model.intervals(known)
    assert len(held_intervals(lake)) == 3
    known += deliver(sample, ARRIVAL, [record("1", 2, "bronze"), record("2", 3, "", "delete")], "b")
    assert held_intervals(lake) == model.intervals(known)


@pytest.mark.merge
@law(25)
@example(files=CORNERS, local_rows=100_000)
@example(files=CORNERS[:2], local_rows=0)
@given(files=dimension_files(), local_rows=st.sampled_from([0, 100_000]))
def test_the_intervals_follow_every_arrival(
    files: list[list[DimensionRecord]], local_rows: int, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    sample = SampleLake(lake_in(tmp_path_factory.mktemp("lake")), dimension(), spark)
    sample.lake.settings.local_rows = local_rows
    known: list[DimensionRecord] = []
    for number, records in enumerate(files):
        known += deliver(sample, ARRIVAL + timedelta(days=number % 2), records, f"{number}")
        assert held_intervals(sample.lake) == model.intervals(known)
    assert every_row(sample.lake) == every_row(rebuilt(sample))


@pytest.mark.proof
@pytest.mark.parametrize("local_rows", [0, 100_000])
def test_a_stop_after_any_commit_changes_nothing(
    local_rows: int, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        ARRIVAL: [record("1", 0, "gold"), record("1", 4, "silver"), record("2", 1, "gold")],
        ARRIVAL + timedelta(days=1): [record("1", 2, "bronze"), record("2", 3, "", "delete"), record("1", 4, "", "retract")],
    }

    def steps(sample: SampleLake) -> None:
        for arrival in files:
            sample.ingest(arrival)
            if sample.pending():
                sample.update()

    def delivered() -> SampleLake:
        sample = SampleLake(lake_in(tmp_path_factory.mktemp("lake")), dimension(), spark)
        sample.lake.settings.local_rows = local_rows
        for arrival, records in files.items():
            sample.deliver(arrival, csv_file(records))
        return sample

    undisturbed = delivered()
    steps(undisturbed)
    expected = held_intervals(undisturbed.lake)
    assert expected == model.intervals(one for arrival, records in files.items() for one in in_file(records, (arrival, "")))
    # What a killed process leaves are the files as they were after a commit: the same steps on a copy of each.
    sample, stops = delivered(), list[str]()

    def copy() -> None:
        stops.append(f"{tmp_path_factory.mktemp('stopped') / 'lake'}")
        copytree(sample.lake.root, stops[-1])

    with monkeypatch.context() as patched:
        after_each_commit(patched, copy)
        steps(sample)
    assert len(stops) > 15
    for root in stops:
        again = SampleLake(sample.lake.with_settings(root=root), dimension(), spark)
        steps(again)
        assert held_intervals(again.lake) == expected
        assert again.pending() == []


@pytest.mark.merge
def test_one_key_costs_the_files_of_its_bucket(lake: Lake, spark: SparkSession) -> None:
    sample = SampleLake(lake, dimension(), spark)
    known = deliver(sample, ARRIVAL, [record(f"{key}", at, "gold") for key in range(20) for at in (0, 4)], "a")
    bucket = tables.key_buckets(pa.array(["7"]), 3)[0].as_py()
    away = []
    for path in (locations.intervals(lake, "customers"), locations.changes_by_key(lake, "customers")):
        away += [file for file in Path(path.address).glob("bucket=*/*.parquet") if file.parent.name != f"bucket={bucket}"]
    assert len(away) == 4
    for file in away:
        file.rename(file.with_suffix(".away"))
    known += deliver(sample, ARRIVAL, [record("7", 2, "silver")], "b")
    for file in away:
        file.with_suffix(".away").rename(file)
    assert held_intervals(lake) == model.intervals(known)


@pytest.mark.merge
def test_the_feed_names_only_intervals_that_differ(lake: Lake, spark: SparkSession) -> None:
    sample = SampleLake(lake, dimension(), spark)
    deliver(sample, ARRIVAL, [record("1", 0, "gold"), record("1", 4, "silver"), record("2", 0, "gold")], "a")
    before = version(lake)
    sample.update([date(2024, 1, 1), date(2024, 1, 5)])  # a rebuild, with the same result
    assert version(lake) == before
    deliver(sample, ARRIVAL, [record("1", 2, "bronze")], "b")
    table = locations.intervals(lake, "customers").snapshot()
    assert table is not None
    feed = change_feed.feed_of(table, before + 1, table.version()).to_pylist()
    named = sorted((row["_change_type"], (row["valid_from"] - model.START).days, row["tier"]) for row in feed)
    assert named == [("insert", 2, "bronze"), ("update_postimage", 0, "gold"), ("update_preimage", 0, "gold")]
    metadata = commit_log.commit_metadata(commit_log.history(table, table.version() - 1)[0])
    assert metadata["silver_version"] == sample.silver_version() == interval_table.followed_version(lake, sample.contract)


@pytest.mark.merge
def test_another_contract_has_all_intervals_computed_again(lake: Lake, spark: SparkSession) -> None:
    sample = SampleLake(lake, dimension(), spark)
    records = [record("1", 0, "gold", email="a"), record("1", 4, "gold", email="b"), record("2", 1, "silver")]
    deliver(sample, ARRIVAL, records, "a")
    assert len(held_intervals(lake)) == 2
    sample.contract = dimension(dimension={"untracked": [], "valid_to": "until", "buckets": 5})
    sample.update([date(2024, 1, 1)])
    assert len(held_intervals(lake)) == 3
    rows = every_row(lake)
    assert [row["bucket"] for row in rows] == tables.key_buckets(pa.array([row["dimension_key"] for row in rows]), 5).to_pylist()
    named = [{"name": name, "type": "string"} for name in ("customer_id", "tier", "region", "email", "note")]
    sample.contract = dimension(model={"fields": named})
    sample.deliver(ARRIVAL, b"customer_id,tier,region,email,changed_at,until,arrived_at,op,note\n3,,,,2024-01-02,,never,,x\n")
    sample.ingest(ARRIVAL)
    assert sample.pending() == []
    sample.update([date(2024, 1, 1)])
    assert [row["note"] for row in every_row(lake)] == [None, None]


def test_a_feed_that_is_gone_has_all_intervals_compared(lake: Lake, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = SampleLake(lake, dimension(), spark)
    known = deliver(sample, ARRIVAL, [record("1", 0, "gold"), record("2", 0, "gold")], "a")

    def gone(*_: object) -> None:
        raise change_feed.ForgottenFeedError

    monkeypatch.setattr(change_feed, "feed_at_most", gone)
    before = version(lake)
    known += deliver(sample, ARRIVAL, [record("1", 2, "bronze")], "b")
    assert held_intervals(lake) == model.intervals(known)
    table = locations.intervals(lake, "customers").snapshot()
    assert table is not None
    assert {row["dimension_key"] for row in change_feed.feed_of(table, before + 1, table.version()).to_pylist()} == {"1"}


@pytest.mark.merge
def test_buckets_with_many_rows_are_written_one_after_the_other(
    lake: Lake, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = SampleLake(lake, dimension(), spark)
    known = deliver(sample, ARRIVAL, [record(f"{key}", 0, "gold") for key in range(20)], "a")
    monkeypatch.setattr(buckets, "_HELD_ROWS", 1)
    before = version(lake)
    known += deliver(sample, ARRIVAL, [record(f"{key}", 2, "silver") for key in range(20)], "b")
    assert version(lake) == before + 3
    table = locations.intervals(lake, "customers").snapshot()
    assert table is not None
    completed = [commit_log.commit_metadata(commit).get("silver_version") for commit in commit_log.history(table, before)]
    assert completed == [sample.silver_version(), None, None], "the newest commit comes first"
    assert held_intervals(lake) == model.intervals(known)


@pytest.mark.merge
def test_two_processes_at_once_leave_the_intervals_of_the_later_one(
    lake: Lake, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = SampleLake(lake, dimension(), spark)
    known = deliver(sample, ARRIVAL, [record("1", 0, "gold"), record("2", 0, "gold")], "a")
    follow, rule = interval_table.follow, interval_table.intervals
    with monkeypatch.context() as without:
        without.setattr(interval_table, "follow", lambda *_: None)
        known += deliver(sample, ARRIVAL, [record("1", 2, "bronze")], "b")
    calls = []

    def interrupted(*arguments: Any) -> pa.Table:
        result = rule(*arguments)
        calls.append(len(result))
        if len(calls) == 1:
            nonlocal known
            known += deliver(sample, ARRIVAL, [record("1", 3, "silver")], "c")
        return result

    monkeypatch.setattr(interval_table, "intervals", interrupted)
    follow(lake, sample.contract)
    assert len(calls) > 1
    assert held_intervals(lake) == model.intervals(known)


def version(lake: Lake) -> int:
    return locations.intervals(lake, "customers").version()


def every_row(lake: Lake) -> list[dict[str, Any]]:
    """The rows of the table with all columns."""
    rows = locations.intervals(lake, "customers").read()
    assert rows is not None
    return rows.sort_by([("dimension_key", "ascending"), ("valid_from", "ascending")]).to_pylist()


def rebuilt(sample: SampleLake) -> Lake:
    """A copy of a lake whose intervals are computed from silver as a whole."""
    copy = sample.lake.with_settings(root=f"{sample.lake.root}_rebuilt")
    copytree(sample.lake.root, copy.root)
    for path in (locations.intervals(copy, "customers"), locations.changes_by_key(copy, "customers")):
        rmtree(path.address)
    interval_table.follow(copy, sample.contract)
    return copy
