"""Longer periods of metrics with windows: they are not divided into windows, and follow from the days that are."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given

from lakehouse import locations
from lakehouse.calendar.periods import Kind
from lakehouse.contracts import derived as derived_contracts
from lakehouse.contracts.series import Series
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.restatement import derived
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.laws import law
from lakehouse_tests.support.united_lake import metric
from lakehouse_tests.support.windowed_lake import CORNERS, SESSIONS, TUMBLING, ZONE, Event, WindowedLake, sendings, sessions_of

if TYPE_CHECKING:
    from datetime import date

    from lakehouse.lake import Lake

pytestmark = pytest.mark.spark

_RULES = {"final_after": 90, "rollups": ["week"]}
#: Users are counted in a week from its rows: they cannot be added up.
HOURLY = {
    **TUMBLING,
    "measures": [*TUMBLING["measures"], {"name": "users", "sql": "count(distinct user)", "type": "bigint"}],
    "publication": _RULES,
}
VISITS = {**SESSIONS, "measures": SESSIONS["measures"][:2], "publication": _RULES}
PER_VISIT = {
    "metric": "per_visit",
    "from": ["sessions"],
    "measures": [{"name": "mean", "sql": "sessions.total / sessions.sessions", "type": "decimal(10,4)"}],
    "publication": {"rollups": ["week"]},
}


def week_of(moment: datetime) -> date:
    """The Monday of the week of a moment."""
    day = moment.astimezone(ZoneInfo(ZONE)).date()
    return day - timedelta(days=day.weekday())


def by_model(events: list[Event]) -> list[dict[date, tuple[int, ...]]]:
    """By the model: per week the total, the users and the rows; and the sessions that begin in it, their total and their rows."""
    weeks, visits = defaultdict(list), defaultdict(list)
    for event in events:
        weeks[week_of(event.moment)].append(event)
    for (_, start), of_it in sessions_of(events, 6 * 60).items():
        visits[week_of(start)].append(of_it)
    return [
        {week: (sum(one.amount for one in own), len({one.user for one in own}), len(own)) for week, own in weeks.items()},
        {week: (len(own), sum(one.amount for of_it in own for one in of_it), sum(map(len, own))) for week, own in visits.items()},
    ]


def published(lake: Lake, series: Series) -> dict[date, tuple[Any, ...]]:
    """What readers see of a series without a grain, without empty periods."""
    numbers = locations.gold(lake, series).read()
    rows = [] if numbers is None else numbers.to_pylist()
    return {row[series.by]: tuple(row[name] for name in series.numbers) for row in rows if row["is_latest"] and row["row_count"]}


@pytest.mark.merge
@law(25)
@example(files=CORNERS)
@given(files=sendings())
def test_weeks_are_those_of_the_model_and_can_be_made_again(tmp_path_factory, spark, files) -> None:
    sample = WindowedLake(lake_in(tmp_path_factory.mktemp("lake")), spark, [metric(HOURLY), metric(VISITS)])
    weekly = [Series(definition, Kind.WEEK) for definition in sample.metrics]
    assert [series.grain for series in weekly] == [[], []]
    for events in files:
        sample.send(*events)
        assert [published(sample.lake, series) for series in weekly] == by_model(sample.living())
    assert sample.unlike_published() == []


@pytest.mark.merge
def test_a_metric_made_of_sessions_has_weeks(lake: Lake, spark: Any) -> None:
    sample = WindowedLake(lake, spark, [metric(VISITS)])
    # 2024-10-28 is a Monday: the last session begins before it.
    sample.send(Event("a", 10), Event("b", 20, 2), Event("c", 72 * 60 + 30), Event("d", 74 * 60, 3), Event("e", 90 * 60, 5))
    definitions, unfit = derived_contracts.resolved({"sessions": sample.metrics[0], "per_visit": metric(PER_VISIT)})
    assert not unfit
    series = Series(definitions["per_visit"], Kind.WEEK)
    first, second = (week_of(Event("", minute).moment) for minute in (0, 90 * 60))
    derived.restate(lake, series, sample.session, [first, second], Run("run"))
    assert {week: f"{mean}" for week, (mean, _) in published(lake, series).items()} == {first: "3.5000", second: "5.0000"}
