"""A lake of three arrival days with copies of itself, and what four days give: for tests of tables that lose something."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakehouse import locations
from lakehouse.calendar.periods import Kind
from lakehouse.contracts.series import Series
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.reproduction import repair as gold_repair
from lakehouse.gold.restatement import days as restatement_days
from lakehouse.gold.restatement import rollups
from lakehouse.gold.restatement.pending import find_due, find_pending
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.prepared_lake import prepare
from lakehouse_tests.support.reproducible_lake import TOTAL, ReproducibleLake, metric, reproducible_lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.lake import Lake

#: What arrives on each day of February: a late row, a correction, a move, a deletion, a new row.
ARRIVALS = {
    1: ["a,1,1,,,0", "b,2,1,,,0"],
    2: ["c,4,1,,,0", "d,8,2,,,0"],
    3: ["a,16,1,,,0", "d,8,3,,,0"],
    4: ["e,32,2,,,0", "b,,1,delete,,0"],
}
METRIC = metric("total", TOTAL, publication={"rollups": ["week"]})


def arrive(sample: ReproducibleLake, day: int) -> None:
    """Bring a day's file up to the published numbers, as a run of all layers does."""
    sample.deliver(day, *ARRIVALS[day])
    publish(sample)


def publish(sample: ReproducibleLake) -> None:
    lake, source = sample.lake, sample.sample.contract
    for kind in (Kind.DAY, Kind.WEEK):
        gold_repair.restore(lake, sample.catalog, Series(METRIC, kind), lambda: sample.sample.spark, "run")
    if waiting := sample.sample.pending():
        sample.sample.update(waiting)
    daily, weekly = Series(METRIC), Series(METRIC, Kind.WEEK)
    pending = find_pending(lake, daily)
    starts = {*pending.starts, *find_due(lake, source, daily)}
    restatement_days.restate(lake, source, daily, lambda: sample.sample.spark, starts, Run("run"), pending)
    pending = find_pending(lake, weekly)
    starts = {*pending.starts, *find_due(lake, source, weekly)}
    if starts:
        rollups.restate(lake, source, weekly, lambda: sample.sample.spark, starts, Run("roll"), pending)


def state(sample: ReproducibleLake) -> dict[str, Any]:
    """The rows of silver, and the numbers that readers see."""
    layers: dict[str, Any] = {"silver": sample.sample.silver()}
    for kind in (Kind.DAY, Kind.WEEK):
        series = Series(METRIC, kind)
        rows = locations.gold(sample.lake, series).read([series.by, "total", "row_count"], {"is_latest": [True]})
        layers[series.name] = sorted(tuple(row.values()) for row in rows.to_pylist()) if rows is not None else []
    return layers


def in_one_folder(lake: Lake) -> Lake:
    """The settings with landing inside the lake, so that it is copied with it."""
    landing = Path(lake.root, "landing")
    landing.mkdir(parents=True, exist_ok=True)
    return lake.with_settings(landing=str(landing))


def copies(lake: Lake, day: int) -> Path:
    return Path(lake.root, "copies", f"{day}")


def prepared(lake: Lake, spark: SparkSession) -> ReproducibleLake:
    """Three arrival days, with a copy of the lake as each of them left it."""
    prepare(lake, "three arrivals with copies", lambda template: three_arrivals(template, spark))
    return reproducible_lake(in_one_folder(lake), spark, [METRIC])


def expected_state(folder: Path, spark: SparkSession) -> dict[str, Any]:
    """What all four days give where nothing was lost."""
    (folder / "whole").mkdir()
    whole: dict[str, Any] = prepare(lake_in(folder / "whole"), "four arrivals", lambda template: four_arrivals(template, spark))
    return whole


def three_arrivals(template: Lake, spark: SparkSession) -> None:
    built = reproducible_lake(in_one_folder(template), spark, [METRIC])
    for day in (1, 2, 3):
        arrive(built, day)
        for layer in ("bronze", "silver", "gold", "ops"):
            shutil.copytree(Path(template.root, layer), copies(template, day) / layer)


def four_arrivals(template: Lake, spark: SparkSession) -> dict[str, Any]:
    built = reproducible_lake(in_one_folder(template), spark, [METRIC])
    for day in ARRIVALS:
        arrive(built, day)
    return state(built)
