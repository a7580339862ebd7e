"""``/page/metrics/{name}/{window}``: how one number came to be, revision by revision, and the rows behind each move."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Path, Request, Response
from starlette.concurrency import run_in_threadpool

from lakehouse.calendar.periods import Kind
from lakehouse.delta.table_cache import with_table_cache
from lakehouse.gold.numbers import history as numbers_history
from lakehouse.gold.numbers.rollup_inputs import RollupInputs
from lakehouse.gold.numbers.version_selector import SelectBy, VersionSelector
from lakehouse.impact import row_changes
from lakehouse.impact.row_changes import Behind
from lakehouse.ledger import publications
from lakehouse.serving.http import parameters
from lakehouse.serving.http.parameters import MetricName, NoParameters, WindowName
from lakehouse.serving.http.published_cache import days_behind
from lakehouse.serving.reports.wording import LABELS
from lakehouse.serving.web import charts, number_views
from lakehouse.serving.web.page import PREFIX, respond

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import APIRouter

    from lakehouse.calendar.periods import Period
    from lakehouse.gold.numbers.comparison import Sides
    from lakehouse.gold.numbers.history import PublishedVersion
    from lakehouse.serving.http.published_cache import Lake, Shown
    from lakehouse.serving.reports.svg import Chart
    from lakehouse.settings import Settings

#: Rows beside a revision, moves whose rows are looked for at once, rows of one move, versions and measures drawn.
_SAMPLE, _MOVES, _ROWS, _VERSIONS, _DRAWN = 8, 12, 500, 200, 4
_LATEST = VersionSelector(SelectBy.LATEST, "latest")
Label = Annotated[str, Path(pattern=r"^r[0-9]{1,9}([.]a[0-9]{1,9})?$")]


@dataclass(frozen=True)
class Step:
    """One version of the story: what it moved, and from what. ``days`` are the daily revisions that a roll-up took in."""

    version: PublishedVersion
    moved: Mapping[str, Sides]
    restates: bool
    before: PublishedVersion | None = None
    behind: Behind | None = None
    days: list[tuple[str, str | None, str]] = field(default_factory=list)

    @property
    def label(self) -> str:
        """How sure it was, in words."""
        return LABELS[self.version.state.value]


def add(router: APIRouter, lake: Lake) -> None:
    """Add the pages."""

    @router.get(PREFIX + "/metrics/{name}/{window}")
    async def story(request: Request, name: MetricName, window: WindowName, _: NoParameters) -> Response:
        shown, period = await _found(lake, name, window)
        told = await run_in_threadpool(_told, lake, shown, period)
        newest: PublishedVersion = told["newest"].version
        told |= await number_views.doubts(lake, shown, period, newest)
        return respond(request, "story", "metrics", _about(name, period) | told)

    @router.get(PREFIX + "/metrics/{name}/{window}/{label}")
    async def version(request: Request, name: MetricName, window: WindowName, label: Label, _: NoParameters) -> Response:
        shown, period = await _found(lake, name, window)
        kept = shown.kept(period)
        head, _note = parameters.chosen(shown, period, kept, parameters.version_of(label))
        at = kept.heads.index(head)
        step = await run_in_threadpool(_one, lake, shown, period, at)
        told = await run_in_threadpool(
            publications.find, lake.settings, shown.series.name, step.version.row["publication_id"] or ""
        )
        about: dict[str, Any] = {
            "step": step,
            "publication": told,
            "grain": shown.series.metric.grain,
            "measures": shown.series.numbers,
            "most": _ROWS,
        }
        return respond(request, "version", "metrics", _about(name, period) | about)


async def _found(lake: Lake, name: str, window: str) -> tuple[Shown, Period]:
    metric = lake.metric(name)
    period = parameters.period_of(metric, window)
    return await lake.shown(metric, period.kind), period


def _about(name: str, period: Period) -> dict[str, Any]:
    return {"name": name, "period": period, "by": period.kind.value}


def _told(lake: Lake, shown: Shown, period: Period) -> dict[str, Any]:
    steps = _steps(shown, period)
    left = max(len(steps) - _VERSIONS, 0)
    restating = [step for step in steps if step.restates][-_MOVES:]
    cached = with_table_cache(lake.settings)
    steps = [_with_rows(lake, cached, shown, period, step, _SAMPLE) if step in restating else step for step in steps[left:]]
    newest = number_views.glance(shown, period.start)
    names = number_views.drawn(shown.series, _DRAWN)
    return {
        "steps": steps[::-1],
        "left": left,
        "newest": newest,
        "measures": list(dict.fromkeys(name for step in steps for name in step.moved)),
        "drawn": names,
        "chart": _chart(steps, names) if names else None,
    }


def _one(lake: Lake, shown: Shown, period: Period, at: int) -> Step:
    step = _steps(shown, period)[at]
    return _with_rows(lake, lake.settings, shown, period, step, _ROWS) if step.restates else step


def _steps(shown: Shown, period: Period) -> list[Step]:
    kept = shown.kept(period)
    versions = kept.versions(shown.series)
    told = zip(versions, numbers_history.moved(shown.series, versions), kept.heads, [None, *versions])
    return [Step(version, moved, head.restates, before) for version, moved, head, before in told]


def _with_rows(lake: Lake, settings: Settings, shown: Shown, period: Period, step: Step, most: int) -> Step:
    """The same, with the rows or the days that it took in."""
    one, before = shown.series, step.before
    if one.kind is not Kind.DAY:
        return replace(step, days=_days(before, step.version))
    first, last = (None if side is None else side.row["silver_version"] for side in (before, step.version))
    contract = lake.source(one.metric.source)
    if first is None or last is None:
        return replace(step, behind=Behind(known=False))
    found = row_changes.rows(settings, contract, set(days_behind(one, period)), first + 1, last, most)
    return replace(step, behind=found)


def _days(before: PublishedVersion | None, after: PublishedVersion) -> list[tuple[str, str | None, str]]:
    """The daily revisions that are others than before: day, from which, to which."""
    changed = after.made_from.changed_since(before.made_from if before else RollupInputs())
    return [(f"{day}", old, new) for day, (old, new) in changed.items()]


def _chart(steps: list[Step], names: list[str]) -> Chart:
    found = [tuple(step.moved[name].after if name in step.moved else None for step in steps) for name in names]
    lines = tuple(charts.Line(name, (), now) for name, now in zip(names, found))
    times = tuple(step.version.published_at for step in steps)
    return charts.story(times, tuple(step.version.label for step in steps), tuple(step.version.state for step in steps), lines)
