"""The figures of the lateness page are those that the alerts compare with their bounds. No Spark."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from lakehouse.contracts import Catalog
from lakehouse.operations.alerts import figures, signals
from lakehouse.operations.alerts.alert import AlertKind
from lakehouse_tests.support.arrivals import append_to_bronze, at, rows_every
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.numbers_without_spark import ScriptedNumbers, metric, without_spark

if TYPE_CHECKING:
    from lakehouse.lake import Lake

TODAY = date(2024, 2, 20)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
LATE: dict[str, Any] = {"lateness": {"cutoff": "PT3H", "alert_above": 0.1}}


def test_a_day_of_slow_arrivals_stands_against_the_days_before_as_in_the_alert(lake: Lake) -> None:
    source = contract(**LATE)
    append_to_bronze(lake, source, rows_every(10, at(TODAY - 7 * DAY), at(TODAY) - MINUTE, HOUR))
    append_to_bronze(lake, source, rows_every(10, at(TODAY), at(TODAY, 23, 50), 4 * HOUR))
    with without_spark():
        days = figures.by_arrival(lake, source, TODAY, 3, "day")
        alerts = {alert.kind: alert.numbers for alert in signals.of_source(lake, source)}
    assert [(one.name, one.rows, one.late, one.share) for one in days] == [
        ("2024-02-18", 144, 0, 0.0),
        ("2024-02-19", 144, 0, 0.0),
        ("2024-02-20", 144, 144, 1.0),
    ]
    newest, lag = days[-1], alerts[AlertKind.LAG]
    assert (newest.p99, newest.usual) == (lag["p99_seconds"], lag["baseline_seconds"]) == (4 * 3600, 3600)
    assert (newest.p99_bound, newest.share_bound) == (2 * 3600, alerts[AlertKind.LATE_SHARE]["bound"])
    assert days[0].p99_bound == 2 * 3600, "the usual lag of an ordinary day is within its bound"


def test_hours_are_those_of_the_newest_days(lake: Lake) -> None:
    source = contract(**LATE)
    append_to_bronze(lake, source, rows_every(10, at(TODAY, 8), at(TODAY, 9, 50), 4 * HOUR))
    with without_spark():
        hours = {one.name: one for one in figures.by_arrival(lake, source, TODAY, 28, "hour")}
    assert len(hours) == 24 * figures.DAYS_BY_HOUR
    assert {name: one.rows for name, one in hours.items() if one.rows} == {"02-20 08h": 6, "02-20 09h": 6}
    assert hours["02-20 09h"].p99_bound is None, "six rows are too few to judge"


def test_the_late_share_and_the_tiers_are_those_of_the_contract_with_or_without_a_cutoff(lake: Lake) -> None:
    tiers = [{"within": "PT6H", "serves": "daily", "tolerated": 0.1}, {"within": "P1D", "serves": "weekly"}]
    source = contract(lateness={"expected": "PT2H", "tiers": tiers})
    append_to_bronze(lake, source, rows_every(60, at(TODAY, 6), at(TODAY, 8), HOUR))
    append_to_bronze(lake, source, rows_every(60, at(TODAY, 9), at(TODAY, 9), 7 * HOUR))
    with without_spark():
        [newest] = figures.by_arrival(lake, source, TODAY, 1, "day")
        alerts = {alert.kind: alert.numbers for alert in signals.of_source(lake, source)}
    assert (newest.rows, newest.unexpected, newest.share, newest.share_bound) == (4, 0.25, 0.0, None)
    [tier] = newest.tiers
    assert (tier.tier.serves, tier.share, tier.tier.tolerated) == ("daily", 0.25, 0.1)
    assert (alerts[AlertKind.TIER_SHARE]["share"], alerts[AlertKind.TIER_SHARE]["bound"]) == (0.25, 0.1)


def test_each_hour_of_a_day_with_25_is_one_hour(lake: Lake) -> None:
    autumn, spring = date(2024, 10, 27), date(2024, 3, 31)
    lake.settings.now = at(autumn + DAY)
    source = contract(clocks={"event": "event_time", "timezone": "Europe/Berlin"})
    append_to_bronze(lake, source, rows_every(30, at(spring), at(spring, 2, 30), HOUR))
    append_to_bronze(lake, source, rows_every(30, at(autumn), at(autumn, 2, 30), HOUR))
    with without_spark():
        hours = [one for one in figures.by_arrival(lake, source, autumn, 1, "hour") if one.rows or "02h" in one.name]
        counted = [len(figures.by_arrival(lake, source, day, 1, "hour")) for day in (autumn, spring)]
    assert counted == [25, 23]
    counts = {one.name: one.rows for one in hours}
    assert counts == {"10-27 02h CEST": 2, "10-27 02h CET": 2, "10-27 03h": 2}


def test_the_weeks_of_a_metric_have_the_bound_of_the_alert(lake: Lake) -> None:
    numbers = ScriptedNumbers(lake, metric(alerts={"restatements": {"needs": 1}}))
    catalog = Catalog({"events": contract()}, {"total": numbers.metric})
    with without_spark():
        numbers.at(1)
        numbers.set(1, 1)
        numbers.publish()
        too_few = figures.by_week(lake, catalog, numbers.metric)
        for week, moment in enumerate((3, 10, 17, 24, 31, 32, 33), start=2):
            numbers.at(moment)
            numbers.set(1, week)
            numbers.publish()
        numbers.at(37)
        shown = figures.by_week(lake, catalog, numbers.metric)
        [alert] = [one for one in signals.of_metric(lake, catalog, numbers.metric) if one.kind is AlertKind.RESTATEMENTS]
    assert too_few is not None
    assert (too_few.bound, sum(too_few.counts)) == (None, 0)
    assert shown is not None
    assert [*reversed(shown.counts)] == [alert.numbers["restatements"], *alert.numbers["weeks_before"]]
    assert (round(shown.mean or 0, 3), round(shown.bound or 0, 3)) == (alert.numbers["mean"], alert.numbers["bound"])
    assert shown.weeks[-1] == f"{lake.now().date()}"
