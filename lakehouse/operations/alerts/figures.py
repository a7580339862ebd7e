"""The figures about lateness that alerts compare with a bound, as series by day or hour of arrival and by week.

The share, the percentile, their bounds and the weeks are those of ``signals`` and ``rules``; here they are only taken for more
times than the newest one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Literal
from zoneinfo import ZoneInfo

from lakehouse.calendar.days import end_of_day, start_of_day
from lakehouse.contracts.alerts import Lag
from lakehouse.gold.numbers import served_version
from lakehouse.lateness import recent_lags, rules
from lakehouse.operations.alerts import log, signals
from lakehouse.operations.alerts import rules as alert_rules
from lakehouse.operations.alerts.alert import AlertKind

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date
    from decimal import Decimal

    from lakehouse.contracts import Catalog
    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.lateness.rules import TierLateness
    from lakehouse.operations.alerts.log import AlertRecord

_HOUR = timedelta(hours=1)
_INSTANT = timedelta(microseconds=1)
_MICROSECONDS = 1_000_000
#: Hours are shown for this many days at most.
DAYS_BY_HOUR = 2
#: The alerts whose figures are drawn.
_DRAWN = {AlertKind.LATE_SHARE, AlertKind.TIER_SHARE, AlertKind.LAG, AlertKind.RESTATEMENTS}


@dataclass(frozen=True)
class ArrivalFigure:
    """The rows that arrived on a day, or in an hour, against the bounds of ``late_share``, ``tier_share`` and ``lag``.

    :param unexpected: the share of rows later than the contract expects; None without rows. No alert judges it.
    :param tiers: the rows beyond each tier that has a tolerated share.
    :param share: the share of rows beyond the cutoff; None without rows. ``share_bound`` is the tolerated one; None without one.
    :param p99: the lag of 99 of 100 rows in seconds; ``usual`` is that of the days before, ``p99_bound`` the greatest tolerated
        one, None where it is not judged.
    """

    name: str
    rows: int
    late: int
    share: float | None
    share_bound: float | None
    p99: float | None
    usual: float | None
    p99_bound: float | None
    unexpected: float | None = None
    tiers: Sequence[TierLateness] = ()


@dataclass(frozen=True)
class WeeklyFigure:
    """The restatements of a metric's days per week, oldest week first, against the bound of the alert ``restatements``.

    :param weeks: the last day of each week. ``bound`` judges the newest week; None if there are too few weeks.
    """

    metric: str
    weeks: Sequence[str]
    counts: Sequence[int]
    mean: float | None
    bound: float | None
    sigma: Decimal


def by_arrival(lake: Lake, contract: SourceContract, through: date, days: int, by: Literal["day", "hour"]) -> list[ArrivalFigure]:
    """The figures of each day, or each hour, of ``days`` days through ``through``; hours of the newest days only."""
    zone, terms = ZoneInfo(contract.clocks.timezone), contract.alerts.lag or Lag()
    as_of = lake.with_settings(now=min(lake.now(), end_of_day(through, zone) - _INSTANT))
    days = min(days, DAYS_BY_HOUR) if by == "hour" else days
    arrivals = recent_lags.newest(as_of, contract, days + terms.days + 1)
    if arrivals is None:
        return []
    share_bound, judged = signals.late_bound(contract), list(contract.lateness.judged_tiers.values())
    series = []
    for name, begin, end in _periods(through, days, by, zone):
        after, until = begin - _INSTANT, end - _INSTANT
        rows, late = arrivals.late(after, until)
        newest = arrivals.p99(after, until)
        baseline = arrivals.p99(after - timedelta(days=terms.days), after)
        bound = alert_rules.lag_bound(newest, baseline, terms) if contract.alerts.lag else None
        series.append(
            ArrivalFigure(
                name,
                rows,
                late,
                rules.late_share(late, rows) if rows else None,
                None if share_bound is None else float(share_bound),
                None if newest.lag is None else newest.lag.total_seconds(),
                None if baseline.lag is None else baseline.lag.total_seconds(),
                None if bound is None else float(bound) / _MICROSECONDS,
                rules.late_share(arrivals.unexpected(after, until), rows) if rows else None,
                list(rules.tiers_of(judged, arrivals.seconds(after, until))) if judged else [],
            )
        )
    return series


def by_week(lake: Lake, catalog: Catalog, metric: MetricContract) -> WeeklyFigure | None:
    """The restatements of a metric's days per week; None if the contract watches none, or nothing was published."""
    terms = metric.alerts.restatements
    if terms is None:
        return None
    restated, first = signals.restatements_of_days(lake, served_version.daily(lake, catalog, metric), terms.weeks)
    if first is None:
        return None
    now = lake.now()
    judged = alert_rules.weekly(restated, first, now, terms)
    known = alert_rules.weekly(restated, datetime.min.replace(tzinfo=now.tzinfo), now, terms)
    counts = list(reversed(known.counts)) if known else []
    weeks = [f"{(now - timedelta(weeks=back)).date()}" for back in reversed(range(terms.weeks + 1))]
    mean, bound = (float(judged.mean), judged.bound(terms)) if judged else (None, None)
    return WeeklyFigure(metric.name, weeks, counts, mean, bound, terms.sigma)


def open_alerts(lake: Lake) -> dict[tuple[str, AlertKind, str | None], AlertRecord]:
    """The open alerts about arrivals and restatements by contract, kind and detail, as last recorded."""
    entries = (entry for entry in log.all_of(lake) if entry.resolved_at is None and entry.alert.kind in _DRAWN)
    return {(entry.alert.contract, entry.alert.kind, entry.alert.detail): entry for entry in entries}


def _periods(through: date, days: int, by: Literal["day", "hour"], zone: ZoneInfo) -> list[tuple[str, datetime, datetime]]:
    """The name, the begin and the end of each day or hour, oldest first."""
    dates = [through - timedelta(days=back) for back in reversed(range(days))]
    if by == "day":
        return [(f"{day}", start_of_day(day, zone), end_of_day(day, zone)) for day in dates]
    hours: list[datetime] = []
    for day in dates:
        begin, end = (moment.astimezone(timezone.utc) for moment in (start_of_day(day, zone), end_of_day(day, zone)))
        hours += [begin + number * _HOUR for number in range((end - begin) // _HOUR)]
    names = [f"{hour.astimezone(zone):%m-%d %H}h" for hour in hours]
    return [
        (f"{name} {hour.astimezone(zone):%Z}" if names.count(name) > 1 else name, hour, hour + _HOUR)
        for name, hour in zip(names, hours)
    ]
