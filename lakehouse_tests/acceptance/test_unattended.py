"""Real arrival days through a deployment that nobody watches: correct numbers, no superfluous run, also if it is killed."""

from __future__ import annotations

import shutil
from collections import Counter
from datetime import date, timedelta
from random import Random
from typing import TYPE_CHECKING

import pytest

from lakehouse.calendar.days import span
from lakehouse.contracts import load_catalog
from lakehouse.contracts.series import Series
from lakehouse.gold.numbers import served_version
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.lake import Lake
from lakehouse.ledger import applied_inputs, ingestions, publications
from lakehouse.settings import Settings
from lakehouse_tests.support.deployment import Deployment
from lakehouse_tests.support.earthquakes.history import (
    BATCHES,
    gold_daily,
    needs_earthquakes,
    silver_digest,
    true_daily,
    true_digests,
)
from lakehouse_tests.support.noted_commits import uncompared

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark"), pytest.mark.merge, pytest.mark.proof, needs_earthquakes]

FIRST = date(2018, 1, 1)
#: How long a wait may take on a busy machine, in seconds; the first file has 46,000 rows on 732 event days.
_PATIENCE = 2400
DAILY = Series(load_catalog(None).metrics["earthquakes_daily"])


@pytest.mark.timeout(7200)
def test_ten_days_end_in_the_truth_with_no_click_and_no_run_too_many(tmp_path: Path) -> None:
    watched = _Watched(tmp_path)
    deployment, lake, drop, arrived, quiet = watched.deployment, watched.lake, watched.drop, watched.arrived, watched.quiet
    truth, daily = watched.truth, watched.daily
    with deployment.running():
        for day in span(FIRST, FIRST + timedelta(days=4)):
            drop(day)
            deployment.until(lambda day=day: arrived(day), _PATIENCE, f"the numbers after {day}")
            if day in daily:
                assert gold_daily(lake) == daily[day]
        deployment.until(quiet, 120, "quiet")
        _check_runs(lake, deployment)

        drop(FIRST + timedelta(days=5))
        deployment.until(lambda: any(run["status"] == "STARTED" for run in deployment.runs()), 120, "a run at work")
        deployment.kill()
    with deployment.running():
        deployment.until(lambda: arrived(FIRST + timedelta(days=5)), _PATIENCE, "the numbers that the kill held up")
        for number in (6, 7, 8):
            drop(FIRST + timedelta(days=number))
        deployment.until(lambda: arrived(FIRST + timedelta(days=8)), _PATIENCE, "the numbers of three files at once")
        deployment.until(lambda: any(run["status"] == "STARTED" for run in deployment.runs()) or quiet(), 120, "anything")
        deployment.kill()
    with deployment.running():
        drop(FIRST + timedelta(days=9))
        deployment.until(lambda: arrived(FIRST + timedelta(days=9)), _PATIENCE, "the last numbers")
        deployment.until(quiet, 300, "quiet")
    last = max(day for day in daily if day <= FIRST + timedelta(days=9))
    numbers = gold_daily(lake)
    assert {day: numbers[day] for day in daily[last] if day < FIRST} == {
        day: found for day, found in daily[last].items() if day < FIRST
    }
    assert silver_digest(lake) == truth[FIRST + timedelta(days=9)]


@pytest.mark.timeout(7200)
def test_ninety_days_in_groups_end_in_the_truth(tmp_path: Path) -> None:
    """Files of one to five arrival days at a time; after each group silver and the numbers are those of the publisher."""
    watched, chance = _Watched(tmp_path), Random(20180101)
    days = [*span(FIRST, FIRST + timedelta(days=89))]
    with watched.deployment.running():
        while days:
            group, days = days[: (size := chance.randint(1, 5))], days[size:]
            for day in group:
                watched.drop(day)
            watched.deployment.until(lambda group=group: watched.arrived(group[-1]), _PATIENCE, f"the numbers after {group[-1]}")
            if group[-1] in watched.daily:
                assert gold_daily(watched.lake) == watched.daily[group[-1]]
        watched.deployment.until(watched.quiet, 300, "quiet")
        _check_runs(watched.lake, watched.deployment, in_groups=True)


class _Watched:
    """A deployment that takes files of earthquakes, and what is known of its state."""

    def __init__(self, folder: Path) -> None:
        self.deployment = Deployment(folder)
        self.lake = Lake(Settings(root=str(self.deployment.root)))
        self.landing = self.deployment.root / "landing" / "earthquakes"
        self.landing.mkdir(parents=True)
        self.truth, self.daily = true_digests(), true_daily()

    def drop(self, day: date) -> None:
        """Deliver the file of an arrival day."""
        shutil.copyfile(BATCHES / f"arrival_date={day}.csv.gz", self.landing / f"arrival_date={day}.csv.gz")

    def arrived(self, day: date) -> bool:
        """Whether everything of an arrival day is published, and silver is the publisher's state of it."""
        with uncompared():  # the deployment commits meanwhile
            known = {entry.arrival_date for entry in ingestions.all_of(self.lake, "earthquakes")}
            return day in known and not _behind(self.lake) and silver_digest(self.lake) == self.truth[day]

    def quiet(self) -> bool:
        """Whether no run is at work."""
        return all(run["status"] in {"SUCCESS", "FAILURE", "CANCELED"} for run in self.deployment.runs())


def _behind(lake: Lake) -> bool:
    """Whether silver, gold or a roll-up has pending work."""
    if applied_inputs.pending(lake, "earthquakes") or find_pending(lake, DAILY).starts:
        return True
    return any(find_pending(lake, rollup).starts for rollup in DAILY.rollups)


def _check_runs(lake: Lake, deployment: Deployment, *, in_groups: bool = False) -> None:
    """Each arrival day once, each touched day once for each file that touched it, gold on silver's days, weeks on gold's.

    :param in_groups: whether several files came at once: a day that two of them touch may be made once.
    """
    runs = deployment.runs()
    assert {run["status"] for run in runs} == {"SUCCESS"}
    about: dict[str, Counter[date]] = {}
    for run in runs:
        for table, partitions in deployment.written_by(run).items():
            days = Counter({date.fromisoformat(name): count for name, count in partitions.items()})
            about.setdefault(table, Counter()).update(days)
    del about["arrivals/earthquakes"]
    known = ingestions.all_of(lake, "earthquakes")
    assert about.pop("bronze/earthquakes") == Counter(entry.arrival_date for entry in known)
    touched = Counter(day for entry in known for day in entry.touched_days)
    assert about["silver/earthquakes"] <= touched if in_groups else about["silver/earthquakes"] == touched
    assert set(about["silver/earthquakes"]) == set(touched)
    gold = about.pop("gold/earthquakes_daily")
    assert all(gold[day] <= touched[day] for day in gold)
    changed = set(gold) | _published(lake, DAILY)
    assert changed == set(touched)
    del about["silver/earthquakes"]
    for rollup in DAILY.rollups:
        requested, due = set(about.pop(f"gold/{rollup.name}")), {rollup.period(day).start for day in changed}
        assert requested | _published(lake, rollup) == due
    assert not about, "something else ran"


def _published(lake: Lake, series: Series) -> set[date]:
    """The periods that runs published: a run takes all that are pending when it begins, also those requested of none."""
    return {day for run in publications.restatements_of(lake, served_version.follower(series)) for day in run.days}
