"""The pages of published numbers: those that changed in a week, the periods of a metric, and the history of one number.

``/page/restated`` has values before and after, and reasons; ``/page/restated/{name}/{publication_id}`` is the stored report of
one publication. ``/page/metrics/{name}`` distinguishes final, preliminary and live numbers of consecutive periods.
``/page/metrics/{name}/{window}`` has the history of a number by revision, and the changed rows of each revision. For a window of
a day it is the window's own.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from fastapi import Path, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from lakehouse.calendar.periods import Kind
from lakehouse.contracts.series import source_days, source_read
from lakehouse.contracts.windows import WINDOW_START
from lakehouse.gold.numbers import history as numbers_history
from lakehouse.gold.numbers import page_views, served_version, window_history
from lakehouse.gold.numbers.comparison_routes import PublicationId, report_of
from lakehouse.gold.numbers.published_table import RollupInputs
from lakehouse.gold.numbers.version_selector import SelectBy, VersionSelector
from lakehouse.gold.publication import held_numbers, late_at_close, restatement_reports
from lakehouse.impact import row_changes
from lakehouse.impact.row_changes import Behind
from lakehouse.lateness.routes import restatements
from lakehouse.ledger import publications
from lakehouse.reports.formatting import LABELS
from lakehouse.serving import parameters
from lakehouse.serving.page import PREFIX, respond
from lakehouse.serving.parameters import Day, MetricName, NoParameters, Parameters, PeriodOrWindowName, WindowName
from lakehouse.serving.responses import Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fastapi import APIRouter

    from lakehouse.calendar.periods import Period
    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.series import Series
    from lakehouse.gold.numbers.comparison import Sides
    from lakehouse.gold.numbers.history import PublishedVersion
    from lakehouse.gold.publication.held_numbers import RevertedPeriod
    from lakehouse.gold.publication.restatement_reports import RestatementReport
    from lakehouse.lake import Lake
    from lakehouse.late_events.counters import LateCounts
    from lakehouse.reports.templates import Chart
    from lakehouse.serving.published_cache import PublishedCache, PublishedSeries
    from lakehouse.serving.snapshot import VersionSummary


#: The number of periods on a page, and the number of measures drawn.
_SHOWN, _DRAWN = 60, 4


class MetricPageParameters(Parameters):
    """The periods: those ``through`` a day, by default the newest."""

    by: Kind = Kind.DAY
    through: Day | None = None


def add_metric_page(router: APIRouter, cache: PublishedCache) -> None:
    """Add the page."""

    @router.get(PREFIX + "/metrics/{name}")
    async def metric(request: Request, name: MetricName, wanted: Annotated[MetricPageParameters, Query()]) -> Response:
        contract = cache.metric(name)
        published = await cache.published(contract, wanted.by)
        now = cache.lake.now()
        points = await run_in_threadpool(_points, published, wanted.through, now)
        kinds = ["day", *contract.publication.rollups]
        about: dict[str, Any] = {"name": name, "contract": published.series.metric, "by": wanted.by.value, "kinds": kinds}
        about["late"] = await run_in_threadpool(_late, cache, contract) if contract.late_events else None
        about["last_restated_at"] = published.numbers.last_restated_at
        about["newest"] = newest = points["points"][-1] if points["points"] and points["newer"] is None else None
        if newest is not None:
            about["waiting_for"] = await cache.waiting_for(published.series, newest.period, newest.version)
            about["precedents"] = await run_in_threadpool(page_views.precedents, published, newest, now)
        return respond(request, "metric", "metrics", about | points)


def _late(cache: PublishedCache, contract: MetricContract) -> LateCounts:
    return late_at_close.counts(cache.lake, served_version.daily(cache.lake, cache.catalog, contract), contract)


def _points(published: PublishedSeries, through: date | None, now: datetime) -> dict[str, Any]:
    starts = published.numbers.starts
    within = [start for start in starts if through is None or start <= through]
    later = [start for start in starts if through is not None and start > through]
    glances = page_views.glances(published, within[-_SHOWN:])
    names = page_views.drawn(published.series, _DRAWN)
    measures = list(dict.fromkeys(name for glance in glances for name in glance.sides))
    return {
        "points": glances,
        "day_before": {glance.period.start: page_views.day_before(published, glance, now) for glance in glances},
        "closing": {glance.period.start: page_views.closing(published.series, glance, now) for glance in glances},
        "measures": measures,
        "drawn": names,
        "chart": _chart(glances, names) if glances and names else None,
        "older": within[-_SHOWN - 1] if len(within) > _SHOWN else None,
        "newer": later[min(_SHOWN, len(later)) - 1] if later else None,
    }


def _chart(glances: list[page_views.Glance], names: list[str]) -> Chart:
    lines = tuple(
        page_views.Line(
            name,
            tuple(glance.sides[name].before if name in glance.sides else None for glance in glances),
            tuple(glance.sides[name].after if name in glance.sides else None for glance in glances),
        )
        for name in names
    )
    names_of_periods = tuple(glance.period.name for glance in glances)
    return page_views.series_chart(names_of_periods, tuple(glance.version.state for glance in glances), lines)


_WEEK, _MOST = timedelta(days=7), 200


class RestatedPageParameters(Parameters):
    """The week that ends with the day ``through``, by default today."""

    through: Day | None = None


def add_restated_page(router: APIRouter, cache: PublishedCache) -> None:
    """Add the page."""

    @router.get(PREFIX + "/restated")
    async def restated(request: Request, wanted: Annotated[RestatedPageParameters, Query()]) -> Response:
        today = cache.lake.now().date()
        _, end = parameters.span(wanted.through or today, wanted.through or today)
        published, unreadable = await cache.readable(sorted(cache.catalog.metrics))
        changes = await run_in_threadpool(_changes, published, end - _WEEK + timedelta(days=1), end)
        changes["reported"] = await run_in_threadpool(reported, cache, {one.series.name for one in published})
        changes["unreadable"] = unreadable
        around = {"older": end - _WEEK, "newer": end + _WEEK if end < today else None, "today": today}
        return respond(request, "restated", "restated", changes | around)

    @router.get(PREFIX + "/restated/{name}/{publication_id}")
    async def report(request: Request, name: MetricName, publication_id: PublicationId, _: NoParameters) -> Response:
        published, stored = await report_of(cache, name, publication_id)
        because = await run_in_threadpool(_because, cache, published, stored)
        return respond(request, "restatement_report", "restated", {"name": name, "because": because} | _report(published, stored))


def reported(cache: PublishedCache, series: set[str]) -> set[str]:
    """The ids of publications of ``series`` that have a report."""
    return restatement_reports.reported(cache.lake, series)


def _because(cache: PublishedCache, published: PublishedSeries, stored: RestatementReport) -> str | None:
    """The dimension changes that restated the periods of a report, in words."""
    publication = publications.find(cache.lake, stored.series, stored.publication_id)
    starts = [date.fromisoformat(entry["start"]) for entry in stored.periods.values()]
    if publication is None:
        return None
    return restatement_reports.attribute_words(
        restatement_reports.recorded_changes(cache.lake, publication), published.series.metric, starts
    )


def _report(published: PublishedSeries, stored: RestatementReport) -> dict[str, Any]:
    """The report with its numbers in the form of the templates."""
    periods = [
        {
            "name": name,
            "entry": entry,
            "label": LABELS[entry["state"]],
            "told": (entry["explanation"] or "").partition(": ")[2],
            "moved": _changed(stored, entry["moved"]),
            "rows": [{"grain": row["grain"], "moved": _changed(stored, row["moved"])} for row in entry["rows"]],
        }
        for name, entry in sorted(stored.periods.items(), key=lambda item: str(item[1]["start"]))
    ]
    return {
        "report": stored,
        "by": published.series.kind.value,
        "periods": periods,
        "totals": _changed(stored, stored.totals),
    }


def _changed(stored: RestatementReport, moved: Mapping[str, Any]) -> dict[str, Sides]:
    """The measures that changed, in the order of the contract at that time."""
    every = {name: restatement_reports.sides_of(moved[name]) for name in stored.measures if name in moved}
    return {name: sides for name, sides in every.items() if sides.changed}


def _changes(published: list[PublishedSeries], start: date, end: date) -> dict[str, Any]:
    restated = restatements(published, start, end)
    return {
        "start": start,
        "end": end,
        "changes": [_change(*entry) for entry in restated[:_MOST]],
        "left": max(len(restated) - _MOST, 0),
        "periods": len({(series.series.name, day) for series, day, _ in restated}),
        "reasons": Counter(summary.reason for *_, summary in restated).most_common(),
        "last": None if restated else _last(published),
    }


def _change(published: PublishedSeries, day: date, summary: VersionSummary) -> dict[str, Any]:
    period_versions = published.numbers.periods[day]
    at = period_versions.summaries.index(summary)
    ((version, moved),) = period_versions.moved(published.series, at, at + 1)
    return {
        "metric": published.series.metric.name if published.series.called is None else published.series.called,
        "publication": version.row["publication_id"],
        "period": published.series.period(day),
        "version": version,
        "label": LABELS[summary.state.value],
        "moved": {name: sides for name, sides in moved.items() if sides.changed},
    }


def _last(published: list[PublishedSeries]) -> datetime | None:
    """The time of the last restatement."""
    every = (
        summary.published_at
        for one in published
        for period_versions in one.numbers.periods.values()
        for summary in period_versions.summaries
        if summary.restates
    )
    return max(every, default=None)


#: The numbers of rows shown with a revision, of revisions whose rows are read at once, of rows of one revision, and of versions
#: and measures drawn.
_SAMPLE, _MOVES, _ROWS, _VERSIONS, _STORY_DRAWN = 8, 12, 500, 200, 4
_LATEST = VersionSelector(SelectBy.LATEST, "latest")
Label = Annotated[str, Path(pattern=r"^r[0-9]{1,9}([.]a[0-9]{1,9})?$")]


class IncludedNumber(NamedTuple):
    """A published number used as an input: its metric and period, the revision used before, and the revision used now."""

    metric: str
    period: str
    before: str | None
    after: str


@dataclass(frozen=True)
class StoryStep:
    """A version of a period: its changes and its reason.

    ``inputs`` are the numbers that a roll-up or a derived number included; ``because`` names the dimension changes that restated
    it.
    """

    version: PublishedVersion
    moved: Mapping[str, Sides]
    restates: bool
    before: PublishedVersion | None = None
    changes: Behind | None = None
    inputs: list[IncludedNumber] = field(default_factory=list)
    because: str | None = None

    @property
    def moves(self) -> bool:
        """Whether the version is more than a change of state: a restatement or growth."""
        return self.version.has_new_content

    @property
    def label(self) -> str:
        """The state in words."""
        return LABELS[self.version.state.value]


def add_story_page(router: APIRouter, cache: PublishedCache) -> None:
    """Add the pages."""

    @router.get(PREFIX + "/metrics/{name}/{window}")
    async def story(request: Request, name: MetricName, window: PeriodOrWindowName, _: NoParameters) -> Response:
        published, period, start = await _series_and_period(cache, name, window)
        values = await run_in_threadpool(_steps_and_chart, cache, published, period, start)
        newest, now = values["newest"], cache.lake.now()
        values |= await page_views.doubts(cache, published, period, newest.version, start)
        values["end"] = await cache.end_of(published.series, period, start)
        values["closing"] = page_views.closing(published.series, newest, now)
        values |= {"source": published.series.metric.source}
        values["reported"] = await run_in_threadpool(reported, cache, {published.series.name})
        values["kept"] = await run_in_threadpool(_kept, cache, published, period)
        values["exhausted"] = await run_in_threadpool(_exhausted, cache, published, period)
        values["precedents"] = await run_in_threadpool(page_views.precedents, published, newest, now, start)
        return respond(request, "story", "metrics", _about(name, period, published, start) | values)

    @router.get(PREFIX + "/metrics/{name}/{window}/{label}")
    async def version(request: Request, name: MetricName, window: WindowName, label: Label, _: NoParameters) -> Response:
        published, period, _start = await _series_and_period(cache, name, window)
        period_versions = published.versions_of(period)
        summary, _note = parameters.chosen(published, period, period_versions, parameters.version_of(label))
        at = period_versions.summaries.index(summary)
        step = await run_in_threadpool(_step, cache, published, period, at)
        publication = await run_in_threadpool(
            publications.find, cache.lake, published.series.name, step.version.row["publication_id"] or ""
        )
        about: dict[str, Any] = {
            "step": step,
            "publication": publication,
            "grain": published.series.grain,
            "measures": published.series.numbers,
            "most": _ROWS,
            "rows": [window_history.named(row, published.series.metric) for row in step.version.rows[:_ROWS]],
        }
        return respond(request, "version", "metrics", _about(name, period, published) | about)


async def _series_and_period(cache: PublishedCache, name: str, window: str) -> tuple[PublishedSeries, Period, datetime | None]:
    """The series, the period, and the first moment of the window if ``window`` names one of a day."""
    metric = cache.metric(name)
    period, start = parameters.period_or_window(metric, window)
    return await cache.published(metric, period.kind), period, start


def _kept(cache: PublishedCache, published: PublishedSeries, period: Period) -> list[RevertedPeriod]:
    """The reverted days of the period, which keep an earlier number."""
    lake, name = cache.lake.cached(), published.series.daily.name
    return list(held_numbers.kept_periods(lake, name, period.days).values())


def _exhausted(cache: PublishedCache, published: PublishedSeries, period: Period) -> bool:
    """Whether late rows of the day wait until it is final, because they have changed a window as often as the contract allows."""
    series = published.series
    if series.metric.late_events is None or period.kind is not Kind.DAY:
        return False
    return late_at_close.waits_for_close(cache.lake, series, period.start)


def _about(name: str, period: Period, published: PublishedSeries, start: datetime | None = None) -> dict[str, Any]:
    title = period.name if start is None else window_history.text(WINDOW_START, start, published.series.metric)
    about = {"name": name, "period": period, "by": period.kind.value, "title": title, "is_window": start is not None}
    return about | {"deprecation": published.series.metric.deprecation}


def _steps_and_chart(
    cache: PublishedCache, published: PublishedSeries, period: Period, start: datetime | None = None
) -> dict[str, Any]:
    """The history of a number for its page.

    :param start: the first moment of a window of the day, if only the window's number is meant.
    :raises Problem: if the window never had a number.
    """
    newest = page_views.glance(published, period.start) if start is None else page_views.window_glance(published, period, start)
    steps = _steps(published, period, start)
    if newest is None or not steps:
        raise Problem(404, "not-published", f"nothing has been published for this window of {period.name}")
    left = max(len(steps) - _VERSIONS, 0)
    moving = [step for step in steps if step.moves][-_MOVES:] if start is None else []  # rows are known by day
    cached = cache.lake.cached()
    steps = [_with_rows(cache, cached, published, period, step, _SAMPLE) if step in moving else step for step in steps[left:]]
    names = page_views.drawn(published.series, _STORY_DRAWN)
    return {
        "steps": steps[::-1],
        "windows": _windows(published, [step.version for step in steps]) if start is None else None,
        "left": left,
        "newest": newest,
        "measures": list(dict.fromkeys(name for step in steps for name in step.moved)),
        "drawn": names,
        "chart": _story_chart(steps, names) if names else None,
    }


def _windows(published: PublishedSeries, versions: Sequence[PublishedVersion]) -> dict[str, Any] | None:
    """The rows of a day's windows as visible to readers, each with the last version that changed its window."""
    metric, newest = published.series.metric, next((one for one in reversed(versions) if one.is_latest), None)
    if metric.event_window is None or newest is None or published.series.kind is not Kind.DAY:
        return None  # longer periods add the windows up
    changed = window_history.last_changes(versions)
    rows = [
        {"row": window_history.named(row, metric), "changed_by": changed.get(row[WINDOW_START])} for row in newest.rows[:_ROWS]
    ]
    columns = [name for name in metric.grain if name != WINDOW_START]
    return {
        "of": metric.event_window,
        "rows": rows,
        "grain": columns,
        "numbers": published.series.numbers,
        "first": versions[0].label,
    }


def _step(cache: PublishedCache, published: PublishedSeries, period: Period, at: int) -> StoryStep:
    step = _steps(published, period)[at]
    return _with_rows(cache, cache.lake, published, period, step, _ROWS) if step.moves else step


def _steps(published: PublishedSeries, period: Period, start: datetime | None = None) -> list[StoryStep]:
    """Every version of a period, or of a window of it, oldest first."""
    versions = published.versions_of(period).versions(published.series)
    if start is not None:
        versions = window_history.history(versions, start)
    moved = numbers_history.moved(published.series, versions)
    return [
        StoryStep(version, sides, version.adjustment is not None or (before is not None and version.restates), before)
        for version, sides, before in zip(versions, moved, [None, *versions])
    ]


def _with_rows(
    cache: PublishedCache, lake: Lake, published: PublishedSeries, period: Period, step: StoryStep, most: int
) -> StoryStep:
    """The step with the rows, or the inputs, that it included."""
    series, before = published.series, step.before
    if series.kind is not Kind.DAY or series.metric.is_derived:
        return replace(step, inputs=_inputs(series, before, step.version))
    step = replace(step, because=restatement_reports.because(lake, series, step.version))
    first, last = (None if side is None else side.row["silver_version"] for side in (before, step.version))
    contract = cache.source(series.metric.source)
    if (
        first is None
        or last is None
        or (step.before is not None and _reads_another_table(series.metric, step.before, step.version))
    ):
        return replace(step, changes=Behind(known=False))
    days = set(source_days(series.metric, period.days))
    read = source_read(series.metric, contract)
    return replace(step, changes=row_changes.rows(lake, read, days, first + 1, last, most))


def _reads_another_table(metric: MetricContract, before: PublishedVersion, after: PublishedVersion) -> bool:
    """Whether the number may have been computed from a different silver table than its predecessor, under another contract."""
    return metric.reads_newest and before.row["contract_version"] != after.row["contract_version"]


def _inputs(series: Series, before: PublishedVersion | None, after: PublishedVersion) -> list[IncludedNumber]:
    """The inputs that a version used and its predecessor did not: numbers of its days, or of a derived metric's inputs."""
    made_from = after.made_from
    earlier = before.made_from if before else RollupInputs()
    days = [IncludedNumber(series.daily.name, f"{day}", old, new) for day, (old, new) in made_from.changed_since(earlier).items()]
    of_metrics = [
        IncludedNumber(name, series.period(start).name, old, new)
        for name, inputs in made_from.of_metrics.items()
        for start, (old, new) in inputs.changed_since(earlier.of_metrics.get(name, RollupInputs())).items()
    ]
    return days + of_metrics


def _story_chart(steps: list[StoryStep], names: list[str]) -> Chart:
    numbers = [tuple(step.moved[name].after if name in step.moved else None for step in steps) for name in names]
    lines = tuple(page_views.Line(name, (), now) for name, now in zip(names, numbers))
    times = tuple(step.version.published_at for step in steps)
    return page_views.story_chart(
        times, tuple(step.version.label for step in steps), tuple(step.version.state for step in steps), lines
    )
