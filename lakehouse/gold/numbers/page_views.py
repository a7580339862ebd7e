"""Views of published numbers for the pages: the summary of a period, and its completeness in words."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple
from zoneinfo import ZoneInfo

from lakehouse.calendar.days import same_time_before
from lakehouse.gold.numbers import history as numbers_history
from lakehouse.gold.numbers import lifecycle
from lakehouse.gold.numbers.comparison import Sides
from lakehouse.gold.numbers.lifecycle import RevisionReason, State
from lakehouse.gold.numbers.version_selector import SelectBy, VersionSelector, adjustments_of, choose
from lakehouse.lateness.completeness import Estimate, Unknown
from lakehouse.reports.formatting import LABELS, counted, plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from lakehouse.calendar.periods import Period
    from lakehouse.contracts.series import Series
    from lakehouse.gold.numbers.comparison import Number
    from lakehouse.gold.numbers.history import PublishedVersion
    from lakehouse.serving.http.published_cache import PublishedCache, PublishedSeries
    from lakehouse.serving.http.snapshot import PeriodVersions


_LATEST, _FIRST = VersionSelector(SelectBy.LATEST, "latest"), VersionSelector(SelectBy.FIRST, "first")


@dataclass(frozen=True)
class Glance:
    """A period's newest number. ``sides`` are the totals as first published and as they are now.

    A closed number does not change: ``adjusted`` is its total with the adjustments that were booked to other days since.
    ``grew`` is set if rows, or days, were added that were still to come, which restates nothing.
    """

    period: Period
    version: PublishedVersion
    sides: Mapping[str, Sides]
    restated: int
    restated_on: datetime | None
    grew: bool
    adjustments: int
    adjusted: Mapping[str, Number | None]

    @property
    def label(self) -> str:
        """The state in words."""
        return LABELS[self.version.state.value]

    @property
    def events(self) -> int:
        """The number of silver rows from which the number was computed."""
        return sum(row["row_count"] or 0 for row in self.version.rows)


def glance(published: PublishedSeries, start: date) -> Glance | None:
    """The summary of a period's newest number; None without a number."""
    period_versions = published.numbers.periods.get(start)
    chosen = None if period_versions is None else choose(period_versions.summaries, _LATEST)
    if period_versions is None or chosen is None:
        return None
    series, summaries = published.series, period_versions.summaries
    version = period_versions.version(series, chosen[0])
    first, now = totals(series, period_versions.version(series, summaries[0])), totals(series, version)
    adjustments = len(adjustments_of(summaries, chosen[0]))
    restating = [summary for summary in summaries if summary.restates and summary.adjustment is None]
    return Glance(
        period=series.period(start),
        version=version,
        sides={name: Sides(first.get(name), value) for name, value in now.items()},
        restated=len(restating),
        restated_on=restating[-1].published_at if restating else None,
        grew=any(RevisionReason(summary.reason).is_growth for summary in summaries[1:]),
        adjustments=adjustments,
        adjusted={name: sides.after for name, sides in _last_change(series, period_versions).items()} if adjustments else {},
    )


def _last_change(series: Series, period_versions: PeriodVersions) -> Mapping[str, Sides]:
    return numbers_history.moved(series, period_versions.versions(series))[-1]


def glances(published: PublishedSeries, starts: Sequence[date]) -> list[Glance]:
    """The summaries of the periods ``starts``; periods without a number are left out."""
    return [newest for start in starts if (newest := glance(published, start)) is not None]


def totals(series: Series, version: PublishedVersion) -> dict[str, Number | None]:
    """The totals of a version over its grain, for measures that add up or have no grain."""
    return {name: sides.after for name, sides in numbers_history.moved(series, [version])[0].items()}


def drawn(series: Series, most: int) -> list[str]:
    """The measures that charts show: the first ``most`` numeric ones; with a grain, only additive ones."""
    metric = series.metric
    fit = [measure for measure in metric.measures if measure.is_number and (measure.name in metric.additive or not metric.grain)]
    return [measure.name for measure in fit][:most]


@dataclass(frozen=True)
class Precedent:
    """The preceding period as readers saw it at the same age: for a day, at this time yesterday.

    :param sides: the totals: before, of the preceding period; after, of the current period.
    """

    period: Period
    version: PublishedVersion
    days: int
    sides: Mapping[str, Sides]

    @property
    def label(self) -> str:
        """The state in words."""
        return LABELS[self.version.state.value]


def precedent(published: PublishedSeries, newest: Glance, now: datetime) -> Precedent | None:
    """The number to compare with a number that is not final; None for a final number, and without a published one."""
    start, series = newest.period.start, published.series
    if newest.version.state is State.FINAL or start == date.min:
        return None
    before = series.period(start - timedelta(days=1))
    days = (start - before.start).days
    version = _seen(published, before.start, days, now)
    if version is None:
        return None
    then = totals(series, version)
    return Precedent(before, version, days, {name: Sides(then.get(name), sides.after) for name, sides in newest.sides.items()})


def day_before(published: PublishedSeries, shown: Glance, now: datetime) -> dict[str, Number | None]:
    """The totals of a number that is not final, as readers saw them at this time yesterday, where they differ from now."""
    version = None if shown.version.state is State.FINAL else _seen(published, shown.period.start, 1, now)
    if version is None:
        return {}
    then = totals(published.series, version)
    return {name: then[name] for name, sides in shown.sides.items() if name in then and then[name] != sides.after}


def _seen(published: PublishedSeries, start: date, days: int, now: datetime) -> PublishedVersion | None:
    """The version of a period that readers saw ``days`` days ago at the same time of day."""
    versions = published.numbers.periods.get(start)
    at = same_time_before(now, days, ZoneInfo(published.series.metric.publication.timezone or "UTC"))
    chosen = None if versions is None else choose(versions.summaries, VersionSelector(SelectBy.AS_OF, f"{at}", at=at))
    return None if versions is None or chosen is None else versions.version(published.series, chosen[0])


async def doubts(cache: PublishedCache, published: PublishedSeries, period: Period, version: PublishedVersion) -> dict[str, Any]:
    """The caveats of a number: known newer data, failed checks of a newer number, completeness, and closing conditions."""
    stale = await cache.is_stale(published, version, period)
    complete = await cache.completeness(published.series, period, version, stale=stale)
    held, waiting_for = await cache.failing_checks(published, period), await cache.waiting_for(published.series, period, version)
    is_own = held and await cache.held(published.series, period)
    whose = "A newer number" if is_own else "A newer number of one of its days"
    return {"behind": stale, "held": held, "whose": whose, "complete": completeness(complete), "waiting_for": waiting_for}


class Closing(NamedTuple):
    """The first day on which a number may become final, and whether that day has come."""

    day: date
    overdue: bool


def closing(series: Series, shown: Glance, now: datetime) -> Closing | None:
    """The day on which a number becomes final by the calendar; None for a final number."""
    if shown.version.state is State.FINAL:
        return None
    terms = series.metric.publication
    day = lifecycle.closes_on(shown.period.last, terms)
    return Closing(day, day <= lifecycle.today(now, terms))


def completeness(estimate: Estimate | Unknown) -> str:
    """The share of a period's rows that has arrived, as a sentence."""
    if isinstance(estimate, Unknown):
        return f"Its completeness is unknown: {plain(estimate.because)}."
    share = "All" if estimate.share == 1 else f"About {estimate.share:.1%}"
    within = counted(estimate.horizon_hours // 24, "day")
    judged = f"{estimate.low:.1%} to {estimate.high:.1%} in {estimate.coverage:.0%} of cases"
    judged += f", estimated from {counted(estimate.periods, 'earlier period')}"
    return f"{share} of the rows that arrive within {within} of the period's end are known ({judged})."
