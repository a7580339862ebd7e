"""How far each day of the real history may be closed, while some of its files are missing for a while, against a plain model."""

from __future__ import annotations

import random
from collections import defaultdict
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.bronze.ingest import Ingest
from lakehouse.calendar.days import replay_clock, span
from lakehouse.contracts import load_catalog
from lakehouse.contracts.series import Series
from lakehouse.gold.numbers import lifecycle
from lakehouse.gold.restatement import closing
from lakehouse.lake.table_cache import TableCache
from lakehouse.lateness import missing_inputs
from lakehouse_tests.support.earthquakes.history import BATCHES, needs_earthquakes
from lakehouse_tests.support.earthquakes.published import Published, state

if TYPE_CHECKING:
    from pathlib import Path

    from lakehouse.lake import Lake

pytestmark = needs_earthquakes

FIRST, DAYS = date(2018, 1, 1), 90
CATALOG = load_catalog(None)
SOURCE, DAILY = CATALOG.sources["earthquakes"], Series(CATALOG.metrics["earthquakes_daily"])


def due_on(chance: random.Random) -> dict[date, list[date]]:
    """By the day on which it is delivered, the arrival days of the files: one in twelve comes up to six days late."""
    files = defaultdict(list)
    for arrival in span(FIRST, FIRST + timedelta(days=DAYS - 1)):
        delay = chance.randrange(1, 7) if arrival > FIRST and chance.random() < 1 / 12 else 0
        files[arrival + timedelta(days=delay)].append(arrival)
    return files


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_the_state_of_each_day_at_each_time_is_that_of_a_plain_model(lake: Lake, tmp_path: Path) -> None:
    files, model, cache = due_on(random.Random(11)), Published(), TableCache()
    missing: set[date] = set()
    touches: dict[date, set[date]] = {}
    states: dict[tuple[date, date], str] = {}
    every = Published()
    for today in span(FIRST, FIRST + timedelta(days=DAYS - 1)):
        lake.settings.now = replay_clock(today)
        before = {key: day for key, (day, _) in every.rows.items()}
        every.arrive(today)
        after = {key: day for key, (day, _) in every.rows.items()}
        changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)} | every.newest_keys
        touches[today] = {days[key] for days in (before, after) for key in changed if key in days}
        missing.add(today)
        for arrival in files[today]:
            name = f"arrival_date={arrival}.csv.gz"
            (tmp_path / "landing" / name).symlink_to(BATCHES / name)
            Ingest(lake, SOURCE, no_session, "run").day(arrival)
            model.arrive(arrival)
            missing.discard(arrival)
        missing_inputs.record(lake, "earthquakes", "unfinished_day", {day: f"{day} has no marker" for day in missing})
        days = list(span(today - timedelta(days=30), today))
        limits = closing.limits(lake.cached(cache), SOURCE, DAILY, [DAILY.period(day) for day in days])
        for day in days:
            limit = limits.get(day)
            at_most = limit.at_most if limit else lifecycle.State.FINAL
            reached = lifecycle.state_of(None, day, today, DAILY.metric.publication, at_most).value
            expected = state(day, today, model.watermark)
            if expected == "final" and any(day <= arrival for arrival in missing):
                expected = "preliminary"
            assert reached == expected, (today, day, limit)
            states[today, day] = reached
            if reached == "final":
                assert not any(day in touches[arrival] for arrival in missing), (
                    "it would change by a file that is known to be missing"
                )
    counted = {name: sum(reached == name for reached in states.values()) for name in ("live", "preliminary", "final")}
    by_calendar = sum((today - day).days >= 7 for today, day in states)
    assert 0 < counted["final"] < by_calendar, "some days waited"
    assert counted["live"] > DAYS, "some watermarks stood still"


def no_session() -> Any:
    pytest.fail("files of this size start no Spark")
