"""Ten real days of corrections are held back, staged as one feed, taken in one step, and put back."""

from __future__ import annotations

import gzip
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakehouse.calendar.days import span
from lakehouse.contracts.series import Series
from lakehouse.gold.numbers import history
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.orchestration.execution.replay import Replay
from lakehouse.orchestration.execution.stage_promotion import StagePromotion
from lakehouse.stages import stage_log, staging
from lakehouse.stages.staging import StageRequest
from lakehouse_tests.support.earthquakes.history import (
    BATCHES,
    gold_daily,
    needs_earthquakes,
    silver_digest,
    true_daily,
    true_digests,
)
from lakehouse_tests.support.empty_deployment import _instance, _lake
from lakehouse_tests.support.partner_feed import polled

if TYPE_CHECKING:
    import dagster as dg
    from pyspark.sql import SparkSession

    from lakehouse.lake import Lake

__all__ = ["_instance", "_lake"]
pytestmark = [pytest.mark.proof, needs_earthquakes]

FIRST, HELD_FROM, LAST = date(2018, 1, 1), date(2018, 1, 18), date(2018, 1, 31)


def split(day: date, landing: Path, feed: Path) -> None:
    """The inserts of an arrival day go to landing, its corrections and withdrawals to the feed; earlier days go to landing."""
    name = f"arrival_date={day}.csv.gz"
    with gzip.open(BATCHES / name, "rt", newline="") as file:
        header, *lines = file
    place = header.split(",").index("op")
    is_insert = [line.split(",")[place] == "insert" for line in lines]
    if day < HELD_FROM:
        is_insert = [True] * len(lines)
    for folder, wanted in ((landing, True), (feed, False)):
        some = [line for line, of_landing in zip(lines, is_insert) if of_landing is wanted]
        if some:
            with gzip.open(folder / name, "wt", newline="") as file:
                file.writelines([header, *some])


def test_held_back_corrections_end_as_the_truth_and_go_back(
    lake: Lake, instance: dg.DagsterInstance, spark: SparkSession, tmp_path: Path
) -> None:
    from lakehouse.contracts import load_catalog  # noqa: PLC0415

    catalog = load_catalog(None)
    landing, feed = Path(f"{lake.settings.landing}"), tmp_path / "feed"
    feed.mkdir()
    days = list(span(FIRST, LAST))
    for day in days:
        split(day, landing, feed)
    assert len(list(feed.iterdir())) == 10
    replay = Replay(lake, catalog, "earthquakes", instance)
    list(replay.days(days))
    lake.settings.now = replay._lake.now() + timedelta(hours=1)
    before, rows_before = gold_daily(lake), silver_digest(lake)
    truth = true_daily()[LAST]
    assert before != truth

    request = StageRequest("catalogue_2018w4", "earthquakes", "anna", "the publisher's corrections", files=[feed])
    stage = staging.create(lake, catalog, lambda: spark, request, "run")
    [changed] = stage.report.series
    assert (gold_daily(lake), silver_digest(lake)) == (before, rows_before)
    changed_days = {changed_day.day for changed_day in changed.days}
    assert changed_days == {day for day in {*before, *truth} if before.get(day) != truth.get(day)}

    with polled(lambda: gold_daily(lake)) as states:
        StagePromotion(lake, catalog, instance, lambda: spark).promote(stage.name, "ben", "approved", "the publisher's own")
    assert states == [before, truth]
    assert silver_digest(lake) == true_digests()[LAST]

    series = Series(catalog.metrics["earthquakes_daily"])
    versions = {day: len(known) for day, known in history.history(lake, series, list(truth)).items()}
    run = Run("undo", by="carla")
    done = staging.undo_promotion(lake, catalog, stage_log.find(lake, stage.name), run, "withdrawn")
    assert gold_daily(lake) == before
    put_back = {revision.start for undone in done for revision in undone.result.published}
    assert put_back == changed_days
    after = {day: len(known) for day, known in history.history(lake, series, list(truth)).items()}
    assert all(after[day] == versions[day] + (day in put_back) for day in truth), "as new revisions"
