"""What a correction touched or would touch: days, numbers through windows and closes, roll-ups; and nothing is written."""

from __future__ import annotations

import gzip
from datetime import date, datetime, time, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.contracts import Catalog
from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.series import Series
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.restatement import days as restatement_days
from lakehouse.gold.restatement import rollups
from lakehouse.gold.restatement.pending import find_due, find_pending
from lakehouse.impact import analysis
from lakehouse.impact.affected_periods import ImpactOutcome
from lakehouse.impact.analysis import UnknownSubjectError
from lakehouse_tests.support.lake import SampleLake, contract, csv_file

if TYPE_CHECKING:
    from lakehouse.impact.analysis import Impact

pytestmark = pytest.mark.spark

TOTAL = {"name": "total", "sql": "sum(amount)", "type": "long", "additive": True}
#: Closed after two days and adjusted from then on, by week too, while the trailing one is always restated.
CLOSED: dict[str, Any] = {"final_after": 2, "after_close": "adjust", "rollups": ["week"]}


def metric(name: str, **changes: Any) -> MetricContract:
    return MetricContract.model_validate({"metric": name, "source": "events", "measures": [TOTAL], **changes})


METRICS = [metric("total", publication=CLOSED, consumers=["board"]), metric("trailing", window=3)]


class ImpactDeployment:
    """A lake whose numbers are published day by day in February 2024."""

    def __init__(self, lake: Any, spark: Any, **changes: Any) -> None:
        self.sample = SampleLake(lake, contract(**changes), spark)
        self.catalog = Catalog({"events": self.sample.contract}, {one.metric: one for one in METRICS})

    def deliver(self, day: int, *lines: str, publish_too: bool = True) -> str:
        """Lines ``key,amount,event day,op`` that arrive on a day; the name of their file."""
        self.at(day)
        name = self.sample.deliver(date(2024, 2, day), content(day, *lines)).name
        self.sample.ingest(date(2024, 2, day))
        if publish_too:
            self.publish()
        return name

    def at(self, day: int) -> None:
        self.sample.lake.settings.now = datetime.combine(date(2024, 2, 1), time(23), timezone.utc) + timedelta(days=day - 1)

    def publish(self) -> None:
        lake, run = self.sample.lake, Run("run")
        if waiting := self.sample.pending():
            self.sample.update(waiting)
        for series in map(Series, METRICS):
            pending = find_pending(lake, series)
            restatement_days.restate(
                lake,
                self.sample.contract,
                series,
                self.session,
                {*pending.starts, *find_due(lake, self.sample.contract, series)},
                run,
                pending,
            )
            for rollup in series.rollups:
                waits = find_pending(lake, rollup)
                starts = {*waits.starts, *find_due(lake, self.sample.contract, rollup)}
                rollups.restate(lake, self.sample.contract, rollup, self.session, starts, run, waits)

    def session(self) -> Any:
        return self.sample.spark

    def file(self, name: str) -> Impact:
        return analysis.of_file(self.sample.lake, self.catalog, "events", name)

    def key(self, key: str) -> Impact:
        return analysis.of_key(self.sample.lake, self.catalog, "events", key)

    def written(self) -> set[str]:
        return {f"{path}" for path in Path(self.sample.lake.root).rglob("*")}


def content(day: int, *lines: str) -> bytes:
    rows = []
    for line in lines:
        key, amount, event, op = line.split(",")
        when = f"2024-02-{int(event):02}T06:00:00Z" if event else ""
        rows.append(f"{key},{amount},{when},2024-02-{day:02}T12:00:00Z,{op},,")
    return csv_file(rows)


def february(*days: int) -> list[date]:
    return [date(2024, 2, day) for day in days]


def outcomes(impact: Impact, series: str) -> dict[str, tuple[str | None, ImpactOutcome]]:
    return {one.period: (one.state, one.outcome) for one in impact.periods if one.series == series}


def versions(impact: Impact) -> list[str]:
    return [one.version for one in impact.moved]


@pytest.fixture(name="deployment")
def _deployment(lake, spark) -> ImpactDeployment:
    """Two days, of which the first is closed: the 1st of February is a Thursday."""
    clocks = {"event": "event_time", "arrival": "arrived_at", "max_ahead": "P3D"}  # a file is looked at before its records arrive
    deployment = ImpactDeployment(lake, spark, clocks=clocks)
    deployment.deliver(1, "a,1,1,insert", "b,2,1,insert")
    deployment.deliver(2, "c,3,2,insert", "b,5,1,correct")
    deployment.at(3)
    deployment.publish()
    return deployment


@pytest.mark.merge
def test_the_impact_of_a_local_file_is_known_before_it_is_ingested(deployment, tmp_path) -> None:
    file = tmp_path / "new.gz"
    file.write_bytes(gzip.compress(content(5, "c,9,5,correct", "d,4,1,insert", "e,x,2,insert", "a,,,delete")))
    before = deployment.written()
    impact = deployment.file(f"{file}")
    assert deployment.written() == before, "nothing is written"
    assert not impact.applied
    assert (impact.rows, impact.out) == ({date(2024, 2, 1): 1, date(2024, 2, 5): 1}, {"malformed": 1, "without an event day": 1})
    assert impact.days == february(1, 2, 5), "the day that c moves away from, and that of the key which is deleted"
    booked = [
        period.booked_to for period in impact.periods if period.series == "total" and period.outcome is ImpactOutcome.ADJUSTED
    ]
    assert booked == february(3)
    assert outcomes(impact, "total") == {
        "2024-02-01": ("final", ImpactOutcome.ADJUSTED),
        "2024-02-02": ("preliminary", ImpactOutcome.RESTATED),
        "2024-02-05": (None, ImpactOutcome.PUBLISHED),
    }
    assert set(outcomes(impact, "trailing")) == {f"2024-02-{day:02}" for day in range(1, 8)}
    assert outcomes(impact, "total_weekly") == {
        "2024-W05": ("live", ImpactOutcome.RESTATED),
        "2024-W06": (None, ImpactOutcome.PUBLISHED),
    }
    assert (impact.readers, impact.models, impact.moved) == ({"total": ["board"], "trailing": []}, [], [])


@pytest.mark.merge
def test_the_predicted_impact_is_what_is_touched_and_published(deployment, tmp_path) -> None:
    lines = ("d,4,1,insert", "e,7,2,insert")
    (tmp_path / "later.csv").write_bytes(content(4, *lines))
    deployment.at(4)
    predicted = deployment.file(f"{tmp_path / 'later.csv'}")
    name = deployment.deliver(4, *lines)
    impact = deployment.file(name)
    assert impact.applied
    assert (impact.days, impact.rows) == (predicted.days, predicted.rows) == (february(1, 2), dict.fromkeys(february(1, 2), 1))
    assert versions(impact) == [
        "total_v2024-02-01.r3.a1",
        "total_v2024-02-02.r3",
        "total_weekly_v2024-W05.r3",
        *(f"trailing_v2024-02-0{day}.r{number}" for day, number in ((1, 3), (2, 4), (3, 3), (4, 2))),
    ]
    assert deployment.file(f"{tmp_path / 'later.csv'}") == impact, "a file is known by its content"
    assert deployment.file(f"some/where/{name}").days == impact.days


@pytest.mark.merge
def test_a_closed_day_moves_the_roll_up_that_it_is_booked_in(deployment) -> None:
    deployment.at(6)  # Tuesday: the week of the 1st is over, and not closed
    deployment.publish()
    found = analysis.of_days(deployment.sample.lake, deployment.catalog, "events", *february(1, 2))
    assert {outcome for _, outcome in outcomes(found, "total").values()} == {ImpactOutcome.ADJUSTED}
    assert outcomes(found, "total_weekly") == {
        "2024-W05": ("final", ImpactOutcome.UNCHANGED),
        "2024-W06": (None, ImpactOutcome.PUBLISHED),
    }
    name = deployment.deliver(7, "d,4,1,insert")
    moved = [version for version in versions(deployment.file(name)) if version.startswith("total")]
    assert moved == ["total_v2024-02-01.r3.a1", "total_weekly_v2024-W06.r1"]


@pytest.mark.merge
def test_a_key_is_followed_through_the_days_that_it_lived_on(deployment) -> None:
    deployment.deliver(3, "b,5,2,correct")
    found = deployment.key("b")
    assert (found.days, found.lives_on) == (february(1, 2), february(2))
    assert [version for version in versions(found) if version.startswith("total_v")] == [
        "total_v2024-02-01.r1",
        "total_v2024-02-01.r2",
        "total_v2024-02-01.r3.a1",
        "total_v2024-02-02.r3",
    ]
    with pytest.raises(UnknownSubjectError, match="no well-formed row of bronze/events has the key 'z'"):
        deployment.key("z")


@pytest.mark.merge
def test_what_silver_has_not_taken_in_yet_waits(deployment) -> None:
    name = deployment.deliver(4, "d,4,1,insert", publish_too=False)
    found = deployment.file(name)
    assert (found.applied, found.waiting, found.moved) == (True, february(1), [])


@pytest.mark.merge
def test_rows_beyond_the_watermark_touch_nothing(lake, spark, tmp_path) -> None:
    deployment = ImpactDeployment(lake, spark, lateness={"watermark": "P7D", "beyond": "quarantine"})
    deployment.deliver(1, "a,1,1,insert")
    deployment.at(20)
    (tmp_path / "late.csv").write_bytes(content(20, "b,1,2,insert", "c,1,19,insert"))
    found = deployment.file(f"{tmp_path / 'late.csv'}")
    assert (found.days, found.out) == (february(19), {"quarantined": 1})


@pytest.mark.merge
def test_a_file_that_cannot_be_read_and_one_that_nobody_knows(deployment, tmp_path) -> None:
    (tmp_path / "odd.csv").write_bytes(b"id,amount\n1,2\n")
    found = deployment.file(f"{tmp_path / 'odd.csv'}")
    assert (found.days, found.periods) == ([], [])
    assert "the file would be held and change nothing: line 1: column event_time, arrived_at, op, corrects" in found.notes[0]
    with pytest.raises(UnknownSubjectError, match=r"nothing.csv is unknown: there is no such local file"):
        deployment.file("nothing.csv")
    lying = deployment.sample.deliver(date(2024, 2, 9), content(9, "z,1,9,insert")).name
    assert deployment.file(lying).days == february(9), "it lies in landing, and has not been taken in"
