"""``/page/metrics/{name}/{window}``: the history of a number by revision, and the changed rows of each revision."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from fastapi import Path, Request, Response
from starlette.concurrency import run_in_threadpool

from lakehouse import locations
from lakehouse.calendar.periods import Kind
from lakehouse.contracts.series import source_days, source_read
from lakehouse.contracts.windows.event_window import WINDOW_START
from lakehouse.delta import table_io
from lakehouse.delta.table_cache import with_table_cache
from lakehouse.gold.numbers import history as numbers_history
from lakehouse.gold.numbers import window_history
from lakehouse.gold.numbers.rollup_inputs import RollupInputs
from lakehouse.gold.numbers.version_selector import SelectBy, VersionSelector
from lakehouse.gold.publication import attribute_changes, late_updates, reverted_periods
from lakehouse.impact import row_changes
from lakehouse.impact.row_changes import Behind
from lakehouse.ledger import publications
from lakehouse.reports.formatting import LABELS
from lakehouse.serving.http import parameters
from lakehouse.serving.http.parameters import MetricName, NoParameters, WindowName
from lakehouse.serving.web import number_views
from lakehouse.serving.web.charts import numbers as charts
from lakehouse.serving.web.page import PREFIX, respond
from lakehouse.serving.web.restated import reported

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fastapi import APIRouter

    from lakehouse.calendar.periods import Period
    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.series import Series
    from lakehouse.gold.numbers.comparison import Sides
    from lakehouse.gold.numbers.history import PublishedVersion
    from lakehouse.gold.publication.reverted_periods import RevertedPeriod
    from lakehouse.reports.svg import Chart
    from lakehouse.serving.http.published_cache import PublishedCache, PublishedSeries
    from lakehouse.settings import Settings

#: The numbers of rows shown with a revision, of revisions whose rows are read at once, of rows of one revision, and of versions
#: and measures drawn.
_SAMPLE, _MOVES, _ROWS, _VERSIONS, _DRAWN = 8, 12, 500, 200, 4
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


def add(router: APIRouter, cache: PublishedCache) -> None:
    """Add the pages."""

    @router.get(PREFIX + "/metrics/{name}/{window}")
    async def story(request: Request, name: MetricName, window: WindowName, _: NoParameters) -> Response:
        published, period = await _series_and_period(cache, name, window)
        values = await run_in_threadpool(_steps_and_chart, cache, published, period)
        newest: number_views.Glance = values["newest"]
        values |= await number_views.doubts(cache, published, period, newest.version)
        values["closing"] = number_views.closing(published.series, newest, cache.settings.clock())
        values |= {"source": published.series.metric.source, "deprecation": published.series.metric.deprecation}
        values["reported"] = await run_in_threadpool(reported, cache, {published.series.name})
        values["kept"] = await run_in_threadpool(_kept, cache, published, period)
        values["exhausted"] = await run_in_threadpool(_exhausted, cache, published, period)
        values["precedent"] = await run_in_threadpool(number_views.precedent, published, newest, cache.settings.clock())
        return respond(request, "story", "metrics", _about(name, period) | values)

    @router.get(PREFIX + "/metrics/{name}/{window}/{label}")
    async def version(request: Request, name: MetricName, window: WindowName, label: Label, _: NoParameters) -> Response:
        published, period = await _series_and_period(cache, name, window)
        period_versions = published.versions_of(period)
        summary, _note = parameters.chosen(published, period, period_versions, parameters.version_of(label))
        at = period_versions.summaries.index(summary)
        step = await run_in_threadpool(_step, cache, published, period, at)
        publication = await run_in_threadpool(
            publications.find, cache.settings, published.series.name, step.version.row["publication_id"] or ""
        )
        about: dict[str, Any] = {
            "step": step,
            "publication": publication,
            "grain": published.series.grain,
            "measures": published.series.numbers,
            "most": _ROWS,
            "rows": [window_history.named(row, published.series.metric) for row in step.version.rows[:_ROWS]],
        }
        return respond(request, "version", "metrics", _about(name, period) | about)


async def _series_and_period(cache: PublishedCache, name: str, window: str) -> tuple[PublishedSeries, Period]:
    metric = cache.metric(name)
    period = parameters.period_of(metric, window)
    return await cache.published(metric, period.kind), period


def _kept(cache: PublishedCache, published: PublishedSeries, period: Period) -> list[RevertedPeriod]:
    """The reverted days of the period, which keep an earlier number."""
    settings, name = with_table_cache(cache.settings), published.series.daily.name
    return list(reverted_periods.kept(settings, name, period.days).values())


def _exhausted(cache: PublishedCache, published: PublishedSeries, period: Period) -> bool:
    """Whether late rows of the day wait until it is final, because they have changed a window as often as the contract allows."""
    series = published.series
    if series.metric.late_events is None or period.kind is not Kind.DAY:
        return False
    path, options = locations.gold(cache.settings, series), cache.settings.storage_options
    existing = table_io.read(path, None, {series.by: [period.start]}, options)
    return late_updates.is_exhausted(cache.settings, series, existing, period.start)


def _about(name: str, period: Period) -> dict[str, Any]:
    return {"name": name, "period": period, "by": period.kind.value}


def _steps_and_chart(cache: PublishedCache, published: PublishedSeries, period: Period) -> dict[str, Any]:
    steps = _steps(published, period)
    left = max(len(steps) - _VERSIONS, 0)
    moving = [step for step in steps if step.moves][-_MOVES:]
    cached = with_table_cache(cache.settings)
    steps = [_with_rows(cache, cached, published, period, step, _SAMPLE) if step in moving else step for step in steps[left:]]
    newest = number_views.glance(published, period.start)
    names = number_views.drawn(published.series, _DRAWN)
    return {
        "steps": steps[::-1],
        "windows": _windows(published, [step.version for step in steps]),
        "left": left,
        "newest": newest,
        "measures": list(dict.fromkeys(name for step in steps for name in step.moved)),
        "drawn": names,
        "chart": _chart(steps, names) if names else None,
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
    return _with_rows(cache, cache.settings, published, period, step, _ROWS) if step.moves else step


def _steps(published: PublishedSeries, period: Period) -> list[StoryStep]:
    period_versions = published.versions_of(period)
    versions = period_versions.versions(published.series)
    moved = numbers_history.moved(published.series, versions)
    steps = zip(versions, moved, period_versions.summaries, [None, *versions])
    return [StoryStep(version, sides, summary.restates, before) for version, sides, summary, before in steps]


def _with_rows(
    cache: PublishedCache, settings: Settings, published: PublishedSeries, period: Period, step: StoryStep, most: int
) -> StoryStep:
    """The step with the rows, or the inputs, that it included."""
    series, before = published.series, step.before
    if series.kind is not Kind.DAY or series.metric.is_derived:
        return replace(step, inputs=_inputs(series, before, step.version))
    step = replace(step, because=attribute_changes.because(settings, series, step.version))
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
    return replace(step, changes=row_changes.rows(settings, read, days, first + 1, last, most))


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


def _chart(steps: list[StoryStep], names: list[str]) -> Chart:
    numbers = [tuple(step.moved[name].after if name in step.moved else None for step in steps) for name in names]
    lines = tuple(charts.Line(name, (), now) for name, now in zip(names, numbers))
    times = tuple(step.version.published_at for step in steps)
    return charts.story(times, tuple(step.version.label for step in steps), tuple(step.version.state for step in steps), lines)
