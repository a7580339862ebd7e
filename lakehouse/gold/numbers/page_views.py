"""Views of published numbers for the pages: the summary of a period, its completeness in words, and charts.

A chart shows a series with its states, or the versions of one number. States differ by marks, not by colour alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from importlib import import_module
from math import isnan
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
from lakehouse.reports.templates import COLOURS, DOTTED, HEIGHT, Chart, chart, cut_svg, frame, label, short, values

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lakehouse.calendar.periods import Period
    from lakehouse.contracts.series import Series
    from lakehouse.gold.numbers.comparison import Number
    from lakehouse.gold.numbers.history import PublishedVersion
    from lakehouse.serving.published_cache import PublishedCache, PublishedSeries
    from lakehouse.serving.snapshot import PeriodVersions


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


_KEPT = 32
#: The marker of each state, filled or hollow.
_MARKS = {State.FINAL: ("o", True), State.PRELIMINARY: ("o", False), State.LIVE: ("D", False)}
#: The greatest number of labelled revisions.
_LABELLED = 14
#: Day spans of an axis: above the first, labels have no time of day; above the second (per label), they have a year.
_CLOCK, _YEARS = 3, 30


class Line(NamedTuple):
    """A measure over many periods: the numbers first published, and the current numbers."""

    name: str
    first: tuple[Number | None, ...]
    now: tuple[Number | None, ...]


@lru_cache(_KEPT)
def series_chart(periods: tuple[str, ...], states: tuple[State, ...], lines: tuple[Line, ...]) -> Chart:
    """For each measure, the current numbers marked by state, each with a line from the number first published."""

    def draw(figure: Figure, labels: int) -> None:
        plots = figure.subplots(len(lines), 1, sharex=True, squeeze=False)[:, 0]
        for axes, measure in zip(plots, lines):
            first, now = values(measure.first), values(measure.now)
            axes.plot(range(len(now)), now, color=COLOURS["after"], linewidth=1.4, alpha=0.6)
            axes.vlines(range(len(now)), first, now, color=COLOURS["down"], linewidth=2.2)
            axes.plot(range(len(first)), first, color=COLOURS["down"], linestyle="", marker="_", markersize=7)
            _marked(axes, list(range(len(now))), now, states, 5.5 if len(now) <= DOTTED else 3)
            axes.yaxis.set_major_formatter(short)
            axes.margins(y=0.12)
            frame(axes)
            if len(lines) > 1:
                axes.set_title(cut_svg(measure.name, 60), loc="left", fontsize=9, color=COLOURS["ink"])
        label(plots[-1], periods, labels)

    return chart(draw, HEIGHT * (1 + 0.6 * (len(lines) - 1)))


@lru_cache(_KEPT)
def sparkline(states: tuple[State, ...], now: tuple[Number | None, ...]) -> Chart:
    """The last numbers of a measure, without axes."""

    def draw(figure: Figure, _labels: int) -> None:
        axes, numbers = figure.subplots(), values(now)
        axes.plot(range(len(numbers)), numbers, color=COLOURS["after"], linewidth=1.4, alpha=0.6)
        _marked(axes, list(range(len(numbers))), numbers, states, 5)
        axes.margins(0.03, 0.25)
        axes.set_axis_off()

    return chart(draw, 0.9)


@lru_cache(_KEPT)
def story_chart(times: tuple[datetime, ...], names: tuple[str, ...], states: tuple[State, ...], lines: tuple[Line, ...]) -> Chart:
    """The changes of a period's numbers from revision to revision."""

    def draw(figure: Figure, labels: int) -> None:
        dates: Any = import_module("matplotlib.dates")  # imported when a chart is drawn, as in svg; it has no types
        plots = figure.subplots(len(lines), 1, sharex=True, squeeze=False)[:, 0]
        at = [float(dates.date2num(when)) for when in times]
        for axes, measure in zip(plots, lines):
            now = values(measure.now)
            axes.step(at, now, where="post", color=COLOURS["after"], linewidth=1.6)
            _marked(axes, at, now, states, 6)
            for place, value, name in zip(at, now, names) if len(at) <= _LABELLED else ():
                if not isnan(value):
                    point, colour = (place, value), COLOURS["ink"]
                    axes.annotate(name, point, (0, 7), textcoords="offset points", ha="center", fontsize=8, color=colour)
            axes.yaxis.set_major_formatter(short)
            axes.margins(0.05, 0.25)
            frame(axes)
            if len(lines) > 1:
                axes.set_title(cut_svg(measure.name, 60), loc="left", fontsize=9, color=COLOURS["ink"])
        locator = dates.AutoDateLocator(minticks=2, maxticks=max(labels - 2, 3))
        plots[-1].xaxis.set_major_locator(locator)
        days = max(at) - min(at)
        written = "%Y-%m-%d" if days > _YEARS * labels else "%m-%d" if days > _CLOCK else "%m-%d %H:%M"
        plots[-1].xaxis.set_major_formatter(dates.DateFormatter(written))
        if not days:
            plots[-1].set_xlim(at[0] - 0.5, at[0] + 0.5)

    return chart(draw, HEIGHT * (0.85 + 0.5 * (len(lines) - 1)))


def _marked(axes: Axes, at: list[int] | list[float], numbers: list[float], states: tuple[State, ...], size: float) -> None:
    """Mark the states on a line."""
    for state, (mark, filled) in _MARKS.items():
        points = [(place, value) for place, value, is_ in zip(at, numbers, states) if is_ is state and not isnan(value)]
        if points:
            face = COLOURS["after"] if filled else COLOURS["card"]
            axes.plot(
                *zip(*points),
                linestyle="",
                marker=mark,
                markersize=size,
                color=COLOURS["after"],
                markerfacecolor=face,
                markeredgewidth=1.5,
            )
