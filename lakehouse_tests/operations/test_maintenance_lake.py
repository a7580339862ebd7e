"""A whole lake is maintained, and nothing unneeded is left: every query still has the same answer."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from lakehouse import locations
from lakehouse.contracts.series import Series
from lakehouse.delta import commit_log
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.lake.delta_rs_internals import listed_files
from lakehouse.ledger import publications
from lakehouse.operations import maintain as maintenance_maintain
from lakehouse.operations.maintain import maintain
from lakehouse.silver import audit_log
from lakehouse_tests.support.empty_lake import without_retention
from lakehouse_tests.support.quarantine_lake import decide
from lakehouse_tests.support.reproducible_lake import TWO_METRICS, WEEK_WATERMARK, ReproducibleLake, reproducible_lake
from lakehouse_tests.support.stopped_commits import stopped_after_each_commit

if TYPE_CHECKING:
    from lakehouse.operations.maintain import Upkeep

pytestmark = pytest.mark.spark


def a_history(reproducible: ReproducibleLake) -> None:
    """Corrections, a move, a delete, and a late row that a steward lets in."""
    reproducible.deliver(1, "a,1,1,insert,,red", "b,2,1,insert,,blue", "x,7,1,insert,,red")
    reproducible.publish()
    reproducible.deliver(2, "c,3,2,insert,,red", "d,4,1,insert,,red", "a,5,1,correct,,red")
    reproducible.publish()
    reproducible.deliver(3, "b,2,2,correct,,blue", "x,,,delete,,")
    reproducible.publish()
    reproducible.deliver(9, "f,8,1,insert,,red", "g,9,9,insert,,blue")  # f waits: beyond the watermark
    reproducible.publish()
    decide(reproducible.sample, "accept", "f")
    reproducible.at(10)
    reproducible.publish()


def maintained(reproducible: ReproducibleLake, *only: str, **options: bool) -> dict[str, Upkeep]:
    """Everything is compacted that can be, and nothing is kept for readers."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(maintenance_maintain, "_SMALL_FILES", 1)
        patched.setattr(maintenance_maintain, "_CHECKPOINT_AFTER_COMMITS", 2)
        done = {one.table: one for one in maintain(without_retention(reproducible.lake), reproducible.catalog, only, **options)}
    assert [one for one in done.values() if one.problem] == []
    return done


def contents(reproducible: ReproducibleLake) -> dict[str, Any]:
    """Every row of every table, whatever files it is in."""
    rows_by_table = {}
    for table in locations.every_table(reproducible.catalog):
        rows = table.of(reproducible.lake).read()
        if rows is not None:
            rows_by_table[f"{table}"] = sorted(map(repr, rows.to_pylist()))
    return rows_by_table


def contents_in_spark(reproducible: ReproducibleLake) -> dict[str, list[str]]:
    """The same of the tables that Spark reads, as Spark reads them."""
    tables = [locations.silver(reproducible.lake, "events"), locations.bronze(reproducible.lake, "events")]
    spark = reproducible.sample.spark
    return {
        table.name: sorted(map(repr, spark.read.format("delta").load(table.address).toArrow().to_pylist())) for table in tables
    }


def waiting(reproducible: ReproducibleLake) -> list[Any]:
    return [
        (found.causes, found.starts) for found in (find_pending(reproducible.lake, Series(one)) for one in reproducible.metrics)
    ]


@pytest.mark.merge
@pytest.mark.parametrize("file_bytes", [0, 2**18], ids=["partitions", "shared files"])
def test_nothing_that_can_be_queried_is_lost(lake, spark, file_bytes: int) -> None:
    lake.settings.file_bytes = file_bytes
    reproducible = reproducible_lake(lake, spark, TWO_METRICS, **WEEK_WATERMARK)
    a_history(reproducible)
    before, seen_by_spark = contents(reproducible), contents_in_spark(reproducible)
    published = [publications.of(lake, metric.name) for metric in reproducible.metrics]
    tables = {f"{path.parent.parent.name}/{path.parent.name}" for path in Path(lake.root).glob("*/*/_delta_log")}
    done = maintained(reproducible)
    assert set(done) == tables, "every table was maintained"
    assert bool(done["silver/events"].partitions_compacted) == (not file_bytes), "shared files are in shape"
    assert done["silver/events"].files_deleted >= (6 if file_bytes else 8)
    assert not list(Path(locations.silver(lake, "events").address).rglob("cdc-*.parquet")), "everybody has followed"
    assert contents(reproducible) == before
    assert contents_in_spark(reproducible) == seen_by_spark
    assert waiting(reproducible) == [({}, frozenset())] * 2
    assert [publications.of(lake, metric.name) for metric in reproducible.metrics] == published
    table = DeltaTable(locations.silver(lake, "events").address)
    assert audit_log.followed(lake, "events", f"{table.metadata().id}") == table.version() - (not file_bytes), (
        "all but the compaction"
    )
    assert [reproduction.name for reproduction in reproducible.reproduce_all() if not reproduction.equal] == []
    assert all(
        report.files_deleted == 0 and report.files_before == report.files_after for report in maintained(reproducible).values()
    )

    life_goes_on(reproducible)


def life_goes_on(reproducible: ReproducibleLake) -> None:
    lake = reproducible.lake
    reproducible.deliver(11, "z,9,10,insert,,red", "g,6,9,correct,,blue", "c,,,delete,,")
    assert reproducible.sample.pending() == [date(2024, 2, 2), date(2024, 2, 9), date(2024, 2, 10)]
    reproducible.publish()
    assert waiting(reproducible) == [({}, frozenset())] * 2
    assert reproducible.sample.silver() == reproducible.sample.rebuilt([date(2024, 2, day) for day in range(1, 12)])
    audited = audit_log.read(lake, "events").to_pylist()
    newest = [row for row in audited if row["silver_version"] == max(row["silver_version"] for row in audited)]
    assert {row["event_id"] for row in newest} == {"g", "c", "z"}
    assert reproducible.sample.ingest(date(2024, 2, 11)).ingested == []  # transaction ids are remembered


@pytest.mark.merge
@pytest.mark.parametrize("killed", [False, True], ids=["at once", "killed behind each commit"])
def test_days_of_an_earlier_release_share_files_and_nothing_else_is_different(lake, spark, killed: bool) -> None:
    lake.settings.file_bytes = 0
    reproducible = reproducible_lake(lake, spark, TWO_METRICS, **WEEK_WATERMARK)
    a_history(reproducible)
    before, seen_by_spark = contents(reproducible), contents_in_spark(reproducible)
    published = [publications.of(lake, metric.name) for metric in reproducible.metrics]
    versions = {name: version(reproducible, name) for name in before}
    lake.settings.file_bytes = 2**18
    days = {f"{table}" for table in locations.every_table(reproducible.catalog) if table.days and f"{table}" in before}
    assert {"silver/events", "gold/total"} < days

    would = {upkeep.table: upkeep for upkeep in maintain(lake, reproducible.catalog, convert=True, dry_run=True)}
    assert {name for name, upkeep in would.items() if upkeep.converted} == days
    assert would["silver/events"].files_after == 1 < would["silver/events"].files_before
    assert {name: version(reproducible, name) for name in before} == versions, "a plan writes nothing"
    stops = stopped_after_each_commit(lambda: maintained(reproducible, convert=True)) if killed else 0
    done = maintained(reproducible, convert=True)
    assert {name for name, upkeep in done.items() if upkeep.converted} == (set() if killed else days)
    assert stops >= len(days) * killed
    for name in days:
        table = DeltaTable(lake.table(*name.split("/")).address)
        assert table.metadata().partition_columns == []
        assert len(listed_files(table)) == bool(before[name])
    assert contents(reproducible) == before
    assert contents_in_spark(reproducible) == seen_by_spark
    assert waiting(reproducible) == [({}, frozenset())] * 2
    assert [publications.of(lake, metric.name) for metric in reproducible.metrics] == published
    assert [reproduction.name for reproduction in reproducible.reproduce_all() if not reproduction.equal] == []
    assert not any(upkeep.converted for upkeep in maintained(reproducible, convert=True).values())
    life_goes_on(reproducible)


def version(reproducible: ReproducibleLake, name: str) -> int:
    return reproducible.lake.table(*name.split("/")).version()


def fall_behind(reproducible: ReproducibleLake, others: list[Any]) -> None:
    """All metrics follow a first delivery, and only these others a second one."""
    reproducible.deliver(1, "a,1,1,insert,,red", "b,2,1,insert,,blue", "c,3,2,insert,,red")
    reproducible.publish()
    reproducible.metrics = others
    reproducible.deliver(2, "a,5,1,correct,,red", "d,4,3,insert,,red")
    reproducible.publish()


def has_followed(reproducible: ReproducibleLake, metric: Any) -> None:
    """Nothing waits, and the metric tells why its second day was restated."""
    assert waiting(reproducible) == [({}, frozenset())] * 3
    reasons = locations.gold(reproducible.lake, Series(metric)).read(["event_date", "revision", "restatement_reason"]).to_pylist()
    told = {(row["event_date"].day, row["revision"]): row["restatement_reason"] for row in reasons}
    assert told[2, 2] == "correction: 1 moved here from another day, 1 withdrawn"


@pytest.mark.merge
def test_a_metric_that_is_behind_follows_a_table_whose_days_share_files_since(lake, spark) -> None:
    lake.settings.file_bytes = 0
    reproducible = reproducible_lake(lake, spark)
    total, *rest = reproducible.metrics
    fall_behind(reproducible, rest)
    reproducible.metrics = [total, *rest]
    before = waiting(reproducible)
    assert before[0][0]
    lake.settings.file_bytes = 2**18
    assert maintained(reproducible, convert=True)["silver/events"].converted
    assert waiting(reproducible) == before
    reproducible.metrics = rest
    reproducible.deliver(3, "b,2,2,correct,,blue", "c,,,delete,,")
    reproducible.publish()
    reproducible.metrics = [total, *rest]
    reproducible.publish()
    has_followed(reproducible, total)


@pytest.mark.proof
def test_a_metric_that_is_behind_finds_what_it_has_to_follow(lake, spark) -> None:
    reproducible = reproducible_lake(lake, spark)
    total, *rest = reproducible.metrics
    fall_behind(reproducible, rest)
    reproducible.deliver(3, "b,2,2,correct,,blue", "c,,,delete,,")
    reproducible.publish()
    reproducible.metrics = [total, *rest]
    before = waiting(reproducible)
    assert before[0][0]
    done = maintained(reproducible)["silver/events"]
    assert any("gold/total has yet to follow it from version 2 of" in why for why in done.kept)
    assert waiting(reproducible) == before
    reproducible.publish()
    has_followed(reproducible, total)
    assert maintained(reproducible)["silver/events"].files_deleted > 0
    assert [one.name for one in reproducible.reproduce_all() if not one.equal] == []
    operations = [commit["operation"] for commit in commit_log.history(DeltaTable(locations.silver(lake, "events").address), -1)]
    assert operations.count("OPTIMIZE") <= 2
