"""Views of published numbers for the pages: the summary of a period, and its completeness in words."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple
from zoneinfo import ZoneInfo

from lakehouse.calendar.days import same_time_before
from lakehouse.calendar.periods import Kind
from lakehouse.contracts.windows import WINDOW_START
from lakehouse.gold.numbers import history as numbers_history
from lakehouse.gold.numbers import lifecycle, window_history
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


_LATEST = VersionSelector(SelectBy.LATEST, "latest")
#: The days after which a day of the week comes again.
_WEEK = 7


@dataclass(frozen=True)
class Glance:
    """A period's newest number. ``sides`` are the totals as first published and as they are now.

    A closed number does not change: ``adjusted`` is its total with the adjustments that were booked to other days since.
    ``grew`` is set if rows, or days, were added that were still to come, which restates nothing. ``update_count`` is how many
    revisions have changed the number since its first one.
    """

    period: Period
    version: PublishedVersion
    sides: Mapping[str, Sides]
    restated: int
    restated_on: datetime | None
    grew: bool
    adjustments: int
    adjusted: Mapping[str, Number | None]
    update_count: int = 0

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
    reasons = [RevisionReason(summary.reason) for summary in summaries if summary.adjustment is None]
    return Glance(
        period=series.period(start),
        version=version,
        sides={name: Sides(first.get(name), value) for name, value in now.items()},
        restated=len(restating),
        restated_on=restating[-1].published_at if restating else None,
        grew=any(RevisionReason(summary.reason).is_growth for summary in summaries[1:]),
        adjustments=adjustments,
        adjusted={name: sides.after for name, sides in _last_change(series, period_versions).items()} if adjustments else {},
        update_count=lifecycle.update_count(reasons),
    )


def window_glance(published: PublishedSeries, period: Period, window: datetime) -> Glance | None:
    """The summary of the newest number of a window of a day; None if the window never had revision.

    :param window: the first moment of the window.
    """
    series, known = published.series, published.versions_of(period).versions(published.series)
    of_window = [revision for revision in window_history.history(known, window) if revision.adjustment is None]
    if not of_window:
        return None
    selected = numbers_history.selected(series, period, known, _LATEST, window)
    (standing,) = window_history.standings(known, {window})
    first, now = totals(series, of_window[0]), totals(series, selected.version)
    return Glance(
        period=period,
        version=selected.version,
        sides={name: Sides(first.get(name), value) for name, value in now.items()},
        restated=standing.restated,
        restated_on=selected.version.restated_on,
        grew=any(revision.reason.is_growth for revision in of_window[1:]),
        adjustments=len(selected.adjustments),
        adjusted=selected.adjusted,
        update_count=standing.update_count,
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
    """An earlier period as readers saw it at the same age: for a day, at this time yesterday, and on the same weekday.

    :param name: of the period, or of the window of a day.
    :param sides: the totals: before, of the earlier period; after, of the current period.
    """

    name: str
    day: date
    version: PublishedVersion
    days: int
    sides: Mapping[str, Sides]

    @property
    def label(self) -> str:
        """The state in words."""
        return LABELS[self.version.state.value]

    @property
    def when(self) -> str:
        """The time of the comparison, in words."""
        words = {1: "yesterday", _WEEK: "a week ago"}
        return f"At this time {words.get(self.days, f'{self.days} days ago')}"


def precedents(published: PublishedSeries, newest: Glance, now: datetime, window: datetime | None = None) -> list[Precedent]:
    """The numbers to compare with a number that is not final: of the period before, and of the same weekday for a day.

    Empty for a final number; earlier periods without a published number are left out.

    :param window: the first moment of a window of the day: then the same hours of the earlier days.
    """
    start, series = newest.period.start, published.series
    if newest.version.state is State.FINAL or start <= date.min + timedelta(days=_WEEK):
        return []
    before = series.period(start - timedelta(days=1))
    earlier = [before, series.period(start - timedelta(days=_WEEK))] if series.kind is Kind.DAY else [before]
    listed = []
    for period in earlier:
        days = (start - period.start).days
        at = None if window is None else same_time_before(window, days, _zone(series))
        version = _seen(published, period.start, days, now, at)
        if version is not None:
            then = totals(series, version)
            name = period.name if at is None else window_history.text(WINDOW_START, at, series.metric)
            sides = {name: Sides(then.get(name), sides.after) for name, sides in newest.sides.items()}
            listed.append(Precedent(name, period.start, version, days, sides))
    return listed


def day_before(published: PublishedSeries, shown: Glance, now: datetime) -> dict[str, Number | None]:
    """The totals of a number that is not final, as readers saw them at this time yesterday, where they differ from now."""
    version = None if shown.version.state is State.FINAL else _seen(published, shown.period.start, 1, now)
    if version is None:
        return {}
    then = totals(published.series, version)
    return {name: then[name] for name, sides in shown.sides.items() if name in then and then[name] != sides.after}


def _seen(
    published: PublishedSeries, start: date, days: int, now: datetime, window: datetime | None = None
) -> PublishedVersion | None:
    """The version of a period, or of a window of a day, that readers saw ``days`` days ago at the same time of day."""
    seen = published.seen_at(start, same_time_before(now, days, _zone(published.series)), window=window)
    return None if seen is None else seen[0]


def _zone(series: Series) -> ZoneInfo:
    return ZoneInfo(series.metric.publication.timezone or "UTC")


async def doubts(
    cache: PublishedCache, published: PublishedSeries, period: Period, version: PublishedVersion, window: datetime | None = None
) -> dict[str, Any]:
    """The caveats of a number: known newer data, failed checks of a newer number, completeness, and closing conditions."""
    stale = await cache.is_stale(published, version, period)
    complete = await cache.completeness(published.series, period, version, stale=stale, window=window)
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
