"""The rules of alerting: each rule takes facts and returns an alert or None. The rules are described in docs/alerts.md.

Lateness and durations are measured by the data's own clocks (rule R5): "for an hour" is an hour of arrivals. The time of a number
is that of its publication. No rule reads the clock: a rule that needs the time has it as a parameter. Here is also the rhythm of
a recurring event: its usual longest pause within a day. ``signals`` reads the facts.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import datetime, time, timedelta, timezone
from decimal import Context, Decimal
from fractions import Fraction
from itertools import pairwise
from math import sqrt
from statistics import mean, variance
from typing import TYPE_CHECKING, Any, Literal

from lakehouse.calendar.days import business_day_of, end_of_day, start_of_day
from lakehouse.gold.numbers.comparison import exact
from lakehouse.gold.numbers.lifecycle import State
from lakehouse.lateness import rules as lateness_rules
from lakehouse.lateness.rules import nearest_rank
from lakehouse.operations.alerts.alert import AlertKind
from lakehouse.text import format_duration, format_moment, join_limited

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import date
    from zoneinfo import ZoneInfo

    from lakehouse.contracts.alerts import Lag, LateDropped, LateShare, Restatements, Rhythm, ValueBound
    from lakehouse.gold.numbers.comparison import Number
    from lakehouse.lateness.rules import ArrivalCount, LagPercentile, TierLateness
    from lakehouse.live.causes import Reconciled
    from lakehouse.operations.alerts.alert import Alert, AlertSubject


#: The share of days whose longest pause is usual: one bad day in ten does not change the rhythm.
_SHARE = "0.9"
_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Pause:
    """A pause that is longer than usual.

    :param since: the time of the last event.
    :param length: the time since then, without the weekdays that do not count.
    :param usual: the usual longest pause of a day.
    :param days: the number of measured days.
    :param weekdays: the weekdays that count, Monday is 0.
    """

    since: datetime
    length: timedelta
    usual: timedelta
    days: int
    weekdays: Collection[int]


def too_long(moments: Iterable[datetime], now: datetime, zone: ZoneInfo, terms: Rhythm) -> Pause | None:
    """The pause since the newest of ``moments``, if it is longer than usual.

    A pause counts for the day on which it ends. With fewer than ``terms.needs`` days, the result is None.

    :param moments: the times of the events, in any order; times after ``now`` are ignored.
    """
    happened = sorted(moment for moment in set(moments) if moment <= now)
    if not happened:
        return None
    since = happened[-1]
    recent = [moment for moment in happened if moment > since - terms.days * _DAY]
    weekdays = {business_day_of(moment, zone).weekday() for moment in recent}
    by_day: dict[date, timedelta] = {}
    for before, after in pairwise(recent):
        day = business_day_of(after, zone)
        by_day[day] = max(by_day.get(day, timedelta(0)), counted(before, after, zone, weekdays))
    if len(by_day) < terms.needs:
        return None
    usual = usually(by_day.values())
    length = counted(since, now, zone, weekdays)
    return Pause(since, length, usual, len(by_day), weekdays) if exceeds(length, usual, terms) else None


def counted(begin: datetime, end: datetime, zone: ZoneInfo, weekdays: Collection[int]) -> timedelta:
    """The part of the time from ``begin`` to ``end`` that lies on ``weekdays``."""
    day, last, total = business_day_of(begin, zone), business_day_of(end, zone), timedelta(0)
    while day <= last:
        if day.weekday() in weekdays:
            # In UTC: Python subtracts times of the same zone by the wall clock, even across a clock change.
            starts, ends = (moment.astimezone(timezone.utc) for moment in (start_of_day(day, zone), end_of_day(day, zone)))
            total += min(end, ends) - max(begin, starts)
        day += _DAY
    return total


def usually(pauses: Iterable[timedelta]) -> timedelta:
    """The pause that nine days out of ten do not exceed.

    :param pauses: the longest pause of each day; at least one.
    """
    ordered = sorted(pauses)
    return ordered[nearest_rank(len(ordered), _SHARE)]


def exceeds(length: timedelta, usual: timedelta, terms: Rhythm) -> bool:
    """Whether ``length`` is longer than ``terms.factor`` times the usual time."""
    return length // timedelta(microseconds=1) > terms.factor * (usual // timedelta(microseconds=1))


_WEEK = timedelta(days=7)
#: The time for which the checks of a candidate without a failed check are assumed to be running.
BEING_CHECKED = timedelta(hours=1)
#: The time after publication for which a final number is evaluated.
JUDGED_FOR = timedelta(days=7)
_SHOWN = 5
#: Enough precision for a bound and its share without rounding.
_EXACT = Context(prec=200)


@dataclass(frozen=True)
class PeriodRestatement:
    """A restated period, with the time of the restatement."""

    at: datetime
    period: str


@dataclass(frozen=True)
class PublishedValues:
    """The newest number of a period: the values of a measure, each with its grain (empty for a metric without grain).

    :param revision: None for the number of the stream, which is not published.
    """

    period: str
    revision: int | None
    state: State
    published_at: datetime
    values: Sequence[tuple[str, Number | None]]


@dataclass(frozen=True, order=True)
class CrossedLimit:
    """The limit of a :class:`ValueBound` that a value exceeds, and the side."""

    side: Literal["below", "above"]
    limit: Decimal

    def __str__(self) -> str:
        return f"{self.side} {self.limit}"


def late_share(about: AlertSubject, arrivals: Iterable[ArrivalCount], terms: LateShare, bound: Decimal) -> Alert | None:
    """Alert if too large a share of the rows has arrived beyond the cutoff for long enough.

    The share at a time of arrival covers the rows of the span ``lasting`` that ends with it, both ends included. The alert
    opens if the share was above the bound at every time of arrival in a span through the newest arrival that is at least as
    long as ``lasting`` and in which ``needs_rows`` rows arrived. Times without arrivals do not count.

    :param arrivals: the newest first, each time once; read only as far back as needed.
    """
    coming = iter(arrivals)
    ahead = next(coming, None)
    window: deque[ArrivalCount] = deque()
    run: list[ArrivalCount] = []
    rows = late = 0
    while newest := window[0] if window else ahead:
        while ahead and ahead.at >= newest.at - terms.lasting:
            window.append(ahead)
            rows, late = rows + ahead.rows, late + ahead.late
            ahead = next(coming, None)
        if not lateness_rules.exceeds(late, rows, bound):
            break
        run.append(window.popleft())
        rows, late = rows - newest.rows, late - newest.late
    rows, late = sum(count.rows for count in run), sum(count.late for count in run)
    if not run or run[0].at - run[-1].at < terms.lasting or rows < terms.needs_rows:
        return None
    since, through, share = run[-1].at, run[0].at, lateness_rules.late_share(late, rows)
    text = (
        f"{share:.2%} of the {rows:,} rows of {about.subject} that arrived from {format_moment(since)} through "
        f"{format_moment(through)} came beyond the cutoff; the contract tolerates {float(bound):.2%}. "
        f"'lakehouse source account {about.subject}' lists what became of them."
    )
    numbers = {"rows": rows, "late": late, "share": round(share, 6), "bound": float(bound), "through": through}
    return about.alert(AlertKind.LATE_SHARE, since, text, numbers)


def tier_share(about: AlertSubject, late: TierLateness, rows: int, through: datetime) -> Alert | None:
    """Alert if the share of a day's arrivals that came later than a tier of the contract exceeds the tolerated share.

    :param rows: the number of rows with a lateness that arrived in the 24 hours through ``through``.
    """
    if not late.is_exceeded:
        return None
    tier = late.tier
    text = (
        f"Of the {rows:,} rows of {about.subject} that arrived in the day through {format_moment(through)} {late.text}. What "
        f"waits for this tier lacks these rows: 'lakehouse lateness report {about.subject}' lists event types and hours; ask "
        "who delivers it, or give the tier another bound."
    )
    numbers: dict[str, Any] = {"rows": rows, "late": late.beyond, "share": round(late.share, 6), "bound": tier.tolerated}
    numbers |= {"within_seconds": tier.within.total_seconds(), "serves": tier.serves, "through": through}
    return about.alert(AlertKind.TIER_SHARE, through, text, numbers, detail=tier.serves)


def late_dropped(
    about: AlertSubject, rows: int, dropped: int, arrival: date, terms: LateDropped, *, at_close: bool
) -> Alert | None:
    """Alert if too many rows of an arrival day came too late to count in a metric.

    :param rows: how many well-formed rows arrived on the day; ``dropped`` of them came too late, and do not count.
    :param at_close: whether they count when their days are final.
    """
    numbers = _beyond_tolerated(rows, dropped, terms)
    if numbers is None:
        return None
    until = "They count when their days are final" if at_close else "They never count"
    text = (
        f"{dropped:,} of the {rows:,} rows of {arrival} came too late to count in {about.subject}: {dropped / rows:.2%}, and "
        f"{float(terms.above):.2%} is tolerated. {until}: 'lakehouse lateness rows {about.contract} --dropped' lists them, and "
        f"'lakehouse lateness admit {about.contract}' lets them count."
    )
    at = datetime.combine(arrival, time(), timezone.utc)
    return about.alert(AlertKind.LATE_DROPPED, at, text, numbers, period=f"{arrival}")


def dropped_by_stream(about: AlertSubject, rows: int, dropped: int, arrival: date, terms: LateDropped) -> Alert | None:
    """Alert if the stream of a metric dropped too many rows of an arrival day, because they came behind its watermark.

    :param rows: how many rows of the day the stream has read; ``dropped`` of them are missing in one of their windows.
    """
    numbers = _beyond_tolerated(rows, dropped, terms)
    if numbers is None:
        return None
    text = (
        f"{dropped:,} of the {rows:,} rows of {arrival} came too late for the stream of {about.contract}: {dropped / rows:.2%}, "
        f"and {float(terms.above):.2%} is tolerated. Live numbers lack them, published numbers do not: 'lakehouse lateness rows "
        f"{about.contract} --live' lists them. A longer 'live.open_for' counts more of them, and takes more memory."
    )
    at = datetime.combine(arrival, time(), timezone.utc)
    return about.alert(AlertKind.LATE_DROPPED, at, text, numbers, period=f"{arrival}", detail="the stream")


def _beyond_tolerated(rows: int, dropped: int, terms: LateDropped) -> dict[str, Any] | None:
    """The numbers of an alert if more of ``rows`` were dropped than ``terms`` tolerate."""
    if rows < terms.needs_rows or dropped <= terms.above * rows:
        return None
    return {"rows": rows, "dropped": dropped, "share": round(dropped / rows, 6), "bound": float(terms.above)}


def lag(about: AlertSubject, newest: LagPercentile, baseline: LagPercentile, through: datetime, terms: Lag) -> Alert | None:
    """Alert if rows take longer to arrive than usual.

    :param newest: the percentile over the 24 hours of arrivals through ``through``.
    :param baseline: the percentile over the preceding days of arrivals.
    """
    bound = lag_bound(newest, baseline, terms)
    if bound is None or newest.lag is None or baseline.lag is None or _microseconds(newest.lag) <= bound:
        return None
    text = (
        f"The p99 lag of {about.subject} is {format_duration(newest.lag)} in the day of arrivals through "
        f"{format_moment(through)}: more than {terms.factor} times the {format_duration(baseline.lag)} of the {terms.days} days "
        "before. Ask who delivers it."
    )
    numbers = {"p99_seconds": newest.lag.total_seconds(), "baseline_seconds": baseline.lag.total_seconds()}
    numbers |= {"rows": newest.rows, "baseline_rows": baseline.rows, "factor": float(terms.factor)}
    return about.alert(AlertKind.LAG, through, text, numbers)


def lag_bound(newest: LagPercentile, baseline: LagPercentile, terms: Lag) -> Decimal | None:
    """The greatest tolerated p99 lag in microseconds; None where it is not judged: too few rows, or a baseline of zero."""
    if min(newest.rows, baseline.rows) < terms.needs_rows or newest.lag is None or baseline.lag is None:
        return None
    return terms.factor * _microseconds(baseline.lag) if baseline.lag > timedelta(0) else None


@dataclass(frozen=True)
class WeeklyRestatements:
    """The restatements of a series per week, the newest week first.

    :param counts: of the newest week, and of the weeks before, from which mean and variance are taken.
    """

    counts: Sequence[int]
    mean: Fraction
    variance: Fraction

    def bound(self, terms: Restatements) -> float:
        """The greatest number of a week that is not too many."""
        return float(self.mean) + float(terms.sigma) * sqrt(self.variance)


def weekly(
    restated: Iterable[PeriodRestatement], first: datetime | None, now: datetime, terms: Restatements
) -> WeeklyRestatements | None:
    """The restatements per week up to ``now``; None for a series that was not published in all of these weeks.

    :param restated: the restatements since the first of these weeks began, in any order.
    :param first: the time of the first publication.
    """
    if first is None or first > now - _WEEK * (terms.weeks + 1):
        return None
    counts = [0] * (terms.weeks + 1)
    for restatement in restated:
        week = (now - restatement.at) // _WEEK
        if 0 <= week < len(counts):
            counts[week] += 1
    before = [Fraction(count) for count in counts[1:]]
    return WeeklyRestatements(counts, mean(before), variance(before))


def restatements(
    about: AlertSubject, restated: Sequence[PeriodRestatement], first: datetime | None, now: datetime, terms: Restatements
) -> Alert | None:
    """Alert if the week before ``now`` has more restatements than mean and sample deviation of the earlier weeks suggest.

    :param restated: the restatements since the first of these weeks began, in any order.
    :param first: the time of the first publication; a series that was not published in all of the weeks is not evaluated.
    """
    by_week = weekly(restated, first, now, terms)
    if by_week is None:
        return None
    counts, usual, spread = by_week.counts, by_week.mean, by_week.variance
    newest = counts[0]
    above = newest - usual
    if newest < terms.needs or above <= 0 or above**2 <= Fraction(terms.sigma) ** 2 * spread:
        return None
    recent = [restatement for restatement in restated if timedelta(0) <= now - restatement.at < _WEEK]
    week_of = sorted(recent, key=lambda restatement: restatement.at)
    bound = by_week.bound(terms)
    crossing = week_of[min(int(bound), newest - 1)].at
    text = (
        f"{about.subject} was restated {newest} times in the week before {format_moment(now)}: {_periods(week_of)}. "
        f"Usual are {float(usual):.1f}, and up to {bound:.1f} (mean + {terms.sigma} sigma of the {terms.weeks} weeks before). "
        f"'lakehouse gold history {about.contract} PERIOD' gives the reasons."
    )
    numbers = {"restatements": newest, "weeks_before": counts[1:], "mean": round(float(usual), 3), "bound": round(bound, 3)}
    return about.alert(AlertKind.RESTATEMENTS, crossing, text, numbers)


def held(
    about: AlertSubject, period: str, revision: int, since: datetime, failed: Mapping[str, str], now: datetime
) -> Alert | None:
    """Alert if a number failed a check and waits for a person, or if its run was stopped during its checks.

    :param failed: the finding of each failed check.
    """
    name = f"{about.subject} {period} r{revision}"
    if failed:
        found = "; ".join(f"{check}: {why}" for check, why in failed.items())
        text = (
            f"{name} is held: {found}. Readers see the previous number until a person runs 'lakehouse gold publish "
            f"{about.contract} {period} --revision r{revision} ...' or 'lakehouse gold drop ...'."
        )
    elif now - since > BEING_CHECKED:
        text = f"{name} was computed, but its run was stopped before its checks had ended; materialize the period again."
    else:
        return None
    return about.alert(AlertKind.HELD, since, text, {"revision": revision, "failed": dict(failed)}, period=period)


def uncomputed(about: AlertSubject, period: str, since: datetime, measure: str | None, explanation: str) -> Alert:
    """The alert about a number that cannot be computed from its rows. It ends when the number can be computed."""
    text = f"{about.subject} {period} is held: {explanation}. Readers see the previous number, if there is one."
    return about.alert(AlertKind.HELD, since, text, {"measure": measure}, period=period)


def overdue(
    about: AlertSubject, period: str, due_on: date, due_at: datetime, state: State | None, waits_for: Sequence[str] = ()
) -> Alert:
    """The alert about a number that was not published in its next state when it was due.

    :param due_at: the beginning of ``due_on`` in the metric's calendar.
    :param state: the due state of the number; None if it was not published at all.
    :param waits_for: the missing inputs, as sentences.
    """
    lacks = "has not been published at all" if state is None else f"is not {state.value} yet"
    text = f"{about.subject} {period} was due on {due_on} and {lacks}"
    if waits_for and state is None:
        text += (
            f", because it waits: {'; '.join(waits_for)}. An input has none for a period without rows: deliver them, or read the "
            "sources in one metric with 'sources'."
        )
    elif waits_for:
        text += (
            f", because it waits: {'; '.join(waits_for)}. Resolve this, or close it on your own responsibility with "
            f"'lakehouse gold close {about.contract} {period} ...'."
        )
    else:
        text += f". Look at the newest runs of gold/{about.subject} and its schedule, and materialize the period."
    numbers = {"due_on": due_on, "state": state.value if state else None, "waiting_for": list(waits_for)}
    return about.alert(AlertKind.OVERDUE, due_at, text, numbers, period=period)


def value(
    about: AlertSubject, number: PublishedValues, bound: ValueBound, live_tolerance: Decimal, now: datetime
) -> Alert | None:
    """Alert if a value is beyond its bound; for a number that is not final, only if by more than ``live_tolerance``.

    A final number is evaluated for a week after its publication; a number of the stream is never final.
    """
    final = number.state is State.FINAL
    if final and now - number.published_at > JUDGED_FOR:
        return None
    tolerance = Decimal(0) if final else live_tolerance
    measured = [(exact(measure), grain) for grain, measure in number.values if measure is not None]
    beyond = [(*row, limit) for row in measured if (limit := _crossed(row[0], bound, tolerance))]
    if not beyond:
        return None
    too_small = [row for row in beyond if row[2].side == "below"]
    worst, where, limit = min(too_small) if too_small else max(beyond)
    clearly = "" if final else f", and clearly so: by more than {float(live_tolerance):.0%}"
    more = f" {len(beyond) - 1} more rows of its grain are beyond, too." if len(beyond) > 1 else ""
    label = None if number.revision is None else f"r{number.revision}"
    origin = (
        f"The number is {number.state.value} ({label})" if label else "It is the number of the stream, which is not published"
    )
    text = (
        f"{bound.measure} of {about.subject} {number.period} is {worst:f}{f' for {where}' if where else ''}: {limit}{clearly}. "
        f"{origin}.{more}"
    )
    numbers = {
        "measure": bound.measure,
        "value": f"{worst:f}",
        "limit": f"{limit}",
        "grain": where or None,
        "rows_beyond": len(beyond),
    }
    numbers |= {"state": number.state.value, "revision": label}
    return about.alert(AlertKind.VALUE, number.published_at, text, numbers, period=number.period, detail=named(bound))


def live_difference(about: AlertSubject, day: date, reconciled: Sequence[Reconciled]) -> Alert | None:
    """Alert if live numbers of a day's closed windows differ from published numbers by more than the threshold.

    :param reconciled: the numbers of the day's last reconciliation.
    """
    beyond = [entry for entry in reconciled if entry.exceeds and entry.is_closed]
    if not beyond:
        return None
    worst = max(beyond, key=lambda entry: abs(entry.gap))
    window = f" at {worst.window_start:%H:%M} UTC" if worst.window_start else ""
    why = join_limited([f"{cause} {value}" for cause, value in worst.causes.items()], _SHOWN)
    text = (
        f"{len(beyond)} live numbers of {about.subject} {day} differ more from the published ones than the contract tolerates. "
        f"The largest difference is {worst.difference}, of {worst.measure}{window}: {why}. "
        f"'lakehouse live reconcile {about.contract} --date {day}' shows all."
    )
    numbers = {"beyond": len(beyond), "measure": worst.measure, "live": worst.live, "books": worst.books}
    numbers |= {"difference": worst.difference, "causes": dict(worst.causes)}
    return about.alert(AlertKind.LIVE_DIFFERENCE, beyond[0].reconciled_at, text, numbers, period=f"{day}")


def named(bound: ValueBound) -> str:
    """The name of a bound, which distinguishes it from other bounds of its metric."""
    limits = [f"{word} {limit}" for word, limit in (("below", bound.below), ("above", bound.above)) if limit is not None]
    where = [f"{name}={wanted}" for name, wanted in sorted(bound.where.items())]
    by = [f"by {bound.by}"] if bound.by != "day" else []
    return " ".join([bound.measure, *limits, *where, *by])


def _crossed(measured: Decimal, bound: ValueBound, tolerance: Decimal) -> CrossedLimit | None:
    """The limit that a value exceeds by more than ``tolerance`` as a share of the limit; None within the limits, and for NaN."""
    if measured.is_nan():
        return None
    if bound.below is not None and measured < _EXACT.subtract(bound.below, _margin(bound.below, tolerance)):
        return CrossedLimit("below", bound.below)
    if bound.above is not None and measured > _EXACT.add(bound.above, _margin(bound.above, tolerance)):
        return CrossedLimit("above", bound.above)
    return None


def _margin(limit: Decimal, tolerance: Decimal) -> Decimal:
    return _EXACT.multiply(_EXACT.abs(limit), tolerance)


def _periods(restated: Sequence[PeriodRestatement]) -> str:
    return join_limited(sorted({restatement.period for restatement in restated}), _SHOWN)


def _microseconds(span: timedelta) -> int:
    return span // timedelta(microseconds=1)
