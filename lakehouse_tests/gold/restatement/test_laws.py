"""The laws of published numbers on generated histories of files, people and days that pass; a plain model is the reference.

The model is fed with the records and knows neither tables nor Spark: per day what was published when, in which state, and what
was booked; per week and month what that adds up to. Each step is judged as a whole: values, states, revisions, times, sources.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given

from lakehouse import locations
from lakehouse.calendar.periods import Kind
from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.series import Series
from lakehouse.gold.numbers import history as numbers_history
from lakehouse.gold.numbers.version_selector import parse
from lakehouse.gold.publication import candidates, held_numbers
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.restatement import days as restatement_days
from lakehouse.gold.restatement import rollups
from lakehouse.gold.restatement.pending import find_due, find_pending
from lakehouse.ledger import publications
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import SampleLake, content_id, contract, csv_file, csv_line
from lakehouse_tests.support.laws import law
from lakehouse_tests.support.numbers_without_spark import lawful_versions, published_rows
from lakehouse_tests.support.published_histories import DAYS, HISTORIES, START, Decide, Deliver, Follow, Roll
from lakehouse_tests.support.reference_model import Record, live_rows
from lakehouse_tests.support.reference_publication import BOUND, FINAL_AFTER, Model, number_of, rank, state_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

MEASURES = [
    {"name": "total", "sql": "sum(amount)", "type": "decimal(18,2)", "additive": True},
    {"name": "biggest", "sql": "max(amount)", "type": "long"},
]


def metric_of(name: str, **changes: Any) -> MetricContract:
    return MetricContract.model_validate({"metric": name, "source": "events", "measures": MEASURES, **changes})


@dataclass
class World:
    """A lake, and its model."""

    sample: SampleLake
    adjusts: bool
    known: list[Record] = field(default_factory=list)
    following: list[Record] = field(default_factory=list)  # what silver knows

    def __post_init__(self) -> None:
        close = {"preliminary_after": 1, "final_after": FINAL_AFTER, "after_close": "adjust" if self.adjusts else "restate"}
        checks = {"change": [{"measure": "total", "absolute": BOUND}]}
        self.daily = Series(metric_of("daily", publication={**close, "rollups": ["week", "month"]}, checks=checks))
        self.trailing = Series(metric_of("trailing", window=3, publication=close))
        self.models = {"daily": Model(self.adjusts), "trailing": Model(self.adjusts, checked=False)}
        self.sample.lake.settings.now = START
        self.rolled: dict[Kind, int] = {}

    @property
    def now(self) -> datetime:
        return self.sample.lake.now()

    def session(self) -> SparkSession:
        return self.sample.spark

    def rows_of(self, day: date, window: int = 1) -> list[Record]:
        alive = live_rows(self.following, by_sequence=False).values()
        return [
            record for record in alive if record.day is not None and timedelta(0) <= day - record.day < timedelta(days=window)
        ]

    def deliver(self, lines: tuple[Record, ...]) -> None:
        arrived = [replace(record, arrival=self.now + timedelta(seconds=place)) for place, record in enumerate(lines)]
        data = csv_file(map(csv_line, arrived))
        self.sample.deliver(self.now.date(), data, f".{len(self.known)}.csv")
        self.sample.ingest(self.now.date())
        self.known += [replace(record, file=content_id(data), line=line) for line, record in enumerate(arrived, 2)]

    def follow(self) -> None:
        lake = self.sample.lake
        if self.sample.pending():
            self.sample.update()
        before = {
            name: {day: number_of(self.rows_of(day, window)) for day in span()}
            for name, window in (("daily", 1), ("trailing", 3))
        }
        self.following = list(self.known)
        for series in (self.daily, self.trailing):
            window, model = series.metric.window, self.models[series.name]
            pending, due = find_pending(lake, series), set(find_due(lake, self.sample.contract, series))
            expected_due = {
                day
                for day, period in model.days.items()
                if period.revisions and rank(state_of(day, self.now.date())) > rank(period.newest[1])
            }
            assert due == expected_due, "due is what is to change its state"
            changed = {day for day in span() if before[series.name][day] != number_of(self.rows_of(day, window))}
            assert pending.starts >= changed, "no change of silver is missed"
            restatement_days.restate(
                lake, self.sample.contract, series, self.session, {*pending.starts, *due}, Run("follow"), pending
            )
            for day in sorted({*pending.starts, *due}):
                model.recompute(day, self.rows_of(day, window), self.now)
            assert find_pending(lake, series).starts == frozenset()

    def decide(self, *, publish: bool) -> None:
        lake, model = self.sample.lake, self.models["daily"]
        for held in candidates.held(lake, self.daily)[:1]:
            period = self.daily.period(held.start)
            if publish:
                held_numbers.sign_off(lake, self.daily, period, held.revision, Run("signed", by="anna"), "seen")
            else:
                held_numbers.drop(lake, self.daily, period, held.revision, "anna", "no")
            model.decide(held.start, self.now, publish=publish)

    def roll(self, kind: Kind) -> None:
        lake, rollup = self.sample.lake, Series(self.daily.metric, kind)
        pending = find_pending(lake, rollup)
        starts = {*pending.starts, *find_due(lake, self.sample.contract, rollup)}
        rollups.restate(lake, self.sample.contract, rollup, self.session, starts, Run("roll"), pending)
        assert find_pending(lake, rollup).starts == frozenset()
        self._check_rolled(rollup)

    def check(self) -> None:
        for series in (self.daily, self.trailing):
            model, rows_by_version = self.models[series.name], defaultdict(list)
            for row in published_rows(self.sample.lake, series):
                rows_by_version[row["event_date"], row["revision"], row["adjustment"] or 0].append(row)
            assert all(len(rows) == 1 for rows in rows_by_version.values())
            lawful_versions(self.sample.lake, series)
            expected: dict[Any, Any] = {}
            for day, period in model.days.items():
                for number, (value, state, at) in enumerate(period.revisions, 1):
                    expected[day, number, 0] = (value, state, at, None)
                for number, (value, booked) in enumerate(period.adjustments, 1):
                    expected[day, len(period.revisions), number] = (value, "final", None, booked)
            actual = {
                key: (shown(row), row["state"], None if key[2] else row["published_at"], row["booked_on"])
                for key, [row] in rows_by_version.items()
            }
            assert actual == expected, "each revision and adjustment as the rules say"
            held = {one.start: number_in(one.draft.rows) for one in candidates.held(self.sample.lake, series)}
            assert held == {day: period.held[0] for day, period in model.days.items() if period.held}
            self._check_as_of(series, model)
            publications.follow(self.sample.lake, series.name, locations.gold(self.sample.lake, series))
            named = sorted(name for entry in publications.of(self.sample.lake, series.name) for name in entry.published.values())
            assert named == sorted({row["version_name"] for [row] in rows_by_version.values()})

    def _check_as_of(self, series: Series, model: Model) -> None:
        for moment in {at for period in model.days.values() for _, _, at in period.revisions}:
            answers = numbers_history.versions(
                numbers_history.history_between(self.sample.lake, series, span()[0], span()[-1]) or {}, parse(moment.isoformat())
            )
            seen = {
                day: [value for value, _, at in period.revisions if at <= moment][-1]
                for day, period in model.days.items()
                if any(at <= moment for _, _, at in period.revisions)
            }
            assert {day: shown(version.rows[0]) for day, version in answers.items()} == seen, (
                "as of a time, what was published then"
            )

    def _check_rolled(self, rollup: Series) -> None:
        """After a roll-up open periods are the sums of the published days, and so are closed ones with their adjustments."""
        lake = self.sample.lake
        lawful_versions(lake, rollup)
        days = self.models["daily"].days
        versions = {row["version_name"] for row in published_rows(lake, self.daily)}
        rows_by_start: dict[date, list[dict[str, Any]]] = defaultdict(list)
        for row in published_rows(lake, rollup):
            rows_by_start[row["period_start"]].append(row)
        booked: dict[date, int] = defaultdict(int)
        for period in days.values():
            for value, on in period.adjustments:
                booked[rollup.period(on).start] += value[0] or 0
        for rows in rows_by_start.values():
            for row in rows:
                if row["adjustment"] is not None and rollup.period(row["booked_on"]).start != row["period_start"]:
                    booked[rollup.period(row["booked_on"]).start] += row["total"]
        starts = {rollup.period(day).start for day, period in days.items() if period.revisions} | set(booked)
        assert set(rows_by_start) == starts
        for start, rows in rows_by_start.items():
            [newest] = [row for row in rows if row["is_latest"]]
            published = {day: period for day, period in days.items() if period.revisions and rollup.period(day).start == start}
            total = sum(period.newest[0][0] or 0 for period in published.values()) + booked[start]
            assert (newest["total"] or 0) + sum(row["total"] for row in rows if row["adjustment"] is not None) == total
            named = json.loads(newest["made_from"])
            assert all(f"{self.daily.name}_v{day}.{label}" in versions for day, label in named.items() if day != "adjustments")
            assert set(named.get("adjustments", ())) <= versions | {
                row["version_name"] for rows in rows_by_start.values() for row in rows
            }
            if not any(row["adjustment"] is not None for row in rows):
                records = [record for period in published.values() for record in period.rows]
                assert newest["biggest"] == number_of(records)[1], "computed from the rows behind the published days"
            if "adjustments" not in named:
                made = [days[date.fromisoformat(day)].revisions[int(label[1:]) - 1][0][0] for day, label in named.items()]
                assert sum(value or 0 for value in made) == (newest["total"] or 0), "made from the revisions that it names"


def span() -> list[date]:
    """The days that may have a number: a trailing one is published for days after its last row, too."""
    return [DAYS[0] + timedelta(days=offset) for offset in range((DAYS[-1] - DAYS[0]).days + 3)]


def shown(row: dict[str, Any]) -> tuple[int | None, int | None, int]:
    return None if row["total"] is None else int(row["total"]), row["biggest"], row["row_count"]


def number_in(table: Any) -> tuple[int | None, int | None, int]:
    [row] = table.to_pylist()
    return shown(row)


def run(sample: SampleLake, history: tuple[tuple[Record, ...], list[Any]], *, adjusts: bool) -> None:
    first, actions = history
    world = World(sample, adjusts)
    for action in [Deliver(first), Follow(0), *actions, Follow(0), Roll(Kind.WEEK), Roll(Kind.MONTH)]:
        world.sample.lake.settings.now = world.now + timedelta(hours=1)
        if isinstance(action, Deliver):
            world.deliver(action.lines)
            continue
        if isinstance(action, Follow):
            world.sample.lake.settings.now = world.now + timedelta(days=action.on)
            world.follow()
        elif isinstance(action, Decide):
            world.decide(publish=action.publish)
        else:
            world.roll(action.kind)
        world.check()


def record_of(key: str, amount: int, day: int, op: Any = "correct") -> Record:
    return Record(key, op, DAYS[day], amount, START)


#: Held and dropped, held and signed, closed and changed, moved off a closed day, a closed day that was never there.
CORNERS = (
    (record_of("a", 1, 0), record_of("b", 2, 1), record_of("c", 9, 3)),
    [
        Deliver((record_of("a", 9, 0), record_of("b", 1, 1))),
        Follow(0),
        Roll(Kind.WEEK),
        Decide(publish=False),
        Roll(Kind.WEEK),
        Follow(4),
        Roll(Kind.WEEK),
        Deliver((record_of("b", 3, 1), record_of("d", 2, 2), record_of("c", 9, 4))),
        Follow(1),
        Roll(Kind.MONTH),
        Decide(publish=True),
        Follow(2),
    ],
)
BOTH = pytest.mark.parametrize("adjusts", [pytest.param(False, marks=pytest.mark.merge), True], ids=["restate", "adjust"])


def lake_of(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SampleLake:
    return SampleLake(lake_in(tmp_path_factory.mktemp("lake")), contract(), spark)


@pytest.mark.merge
@pytest.mark.timeout(2400)
@BOTH
@law(25)
@example(history=CORNERS)
@given(history=HISTORIES)
def test_published_numbers_follow_the_rules(spark, tmp_path_factory, history: Any, adjusts: bool) -> None:
    run(lake_of(spark, tmp_path_factory), history, adjusts=adjusts)
