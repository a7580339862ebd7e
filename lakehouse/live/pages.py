"""``/page/metrics/{name}/{day}/live``: live and published numbers of a day, by window, and the causes of differences.

The page updates itself: a short script reloads it and replaces its content. A chart shows a measure by window in both layers.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Path as OfPath
from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from lakehouse.calendar import windows
from lakehouse.contracts.windows import WINDOW_START
from lakehouse.live import batches, causes, status, table
from lakehouse.reports.templates import COLOURS, HEIGHT, Chart, chart, frame, label, short, values
from lakehouse.serving.page import HEADERS, PREFIX, STATIC, respond
from lakehouse.serving.parameters import Day, MetricName, NoParameters
from lakehouse.serving.responses import Problem

if TYPE_CHECKING:
    from datetime import date

    from fastapi import APIRouter
    from matplotlib.figure import Figure

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.serving.published_cache import PublishedCache, PublishedSeries


_KEPT = 32
_WIDTH = 0.38


@lru_cache(_KEPT)
def by_window(names: tuple[str, ...], live: tuple[float | None, ...], books: tuple[float | None, ...]) -> Chart:
    """Two bars for each window: hollow for the live number, filled for the published number."""

    def draw(figure: Figure, labels: int) -> None:
        axes = figure.subplots()
        places = range(len(names))
        left, right = ([place + side * _WIDTH / 2 for place in places] for side in (-1, 1))
        axes.bar(left, values(live), _WIDTH, facecolor=COLOURS["card"], edgecolor=COLOURS["before"], linewidth=1.5)
        axes.bar(right, values(books), _WIDTH, color=COLOURS["after"])
        axes.yaxis.set_major_formatter(short)
        frame(axes)
        label(axes, names, labels)

    return chart(draw, HEIGHT)


#: Windows in the table; the API has all windows.
_SHOWN = 500
#: Only this page runs a script, which this server provides.
_WITH_SCRIPT = HEADERS["Content-Security-Policy"] + "; script-src 'self'; connect-src 'self'"


def add(router: APIRouter, cache: PublishedCache) -> None:
    """Add the page and its script."""

    @router.get(PREFIX + "/live.js")
    async def script(_: NoParameters) -> Response:
        return Response((STATIC / "live.js").read_text("utf-8"), media_type="text/javascript")

    @router.get(PREFIX + "/metrics/{name}/{day}/live")
    async def live(request: Request, name: MetricName, day: Annotated[Day, OfPath()], _: NoParameters) -> Response:
        metric = cache.metric(name)
        if metric.live is None:
            raise Problem(404, "not-live", f"{name} has no speed layer")
        published = await cache.published(metric)
        values = await run_in_threadpool(_compared, cache, metric, published, day)
        page = respond(
            request, "live", "metrics", {"name": name, "day": day, "deprecation": published.series.metric.deprecation, **values}
        )
        page.headers["Content-Security-Policy"] = _WITH_SCRIPT
        return page


def _compared(cache: PublishedCache, metric: MetricContract, published: PublishedSeries, day: date) -> dict[str, Any]:
    """Each number of a day in both layers, with the causes from the last reconciliation if its difference is still the same."""
    versions = published.numbers.periods.get(day)
    newest = versions.version(published.series, versions.newest_revision) if versions else None
    live = {_group(metric, row): row for row in table.live_rows(cache.lake, metric, [day])}
    books = {_group(metric, row): row for row in newest.rows if row["row_count"]} if newest else {}
    reconciled = {entry.cell: entry for entry in batches.newest_reconciliation(cache.lake, metric.name, day)}
    measures = [*(measure.name for measure in metric.measures if measure.is_number), "row_count"]
    rows = []
    for group in sorted({**live, **books}, key=causes.in_order):
        for measure in measures:
            streamed, booked = (numbers.get(group, {}).get(measure) for numbers in (live, books))
            gap = causes.difference(streamed, booked)
            entry = reconciled.get((*group, measure))
            explained = entry.causes if entry is not None and entry.gap == gap else {}
            rows.append({"group": _named(metric, group), "measure": measure, "live": streamed, "books": booked, "gap": gap})
            rows[-1]["causes"] = ", ".join(f"{cause} {value}" for cause, value in explained.items())
    drawn = measures[0]
    return {
        "rows": rows[:_SHOWN],
        "more": len(rows) - len(rows[:_SHOWN]),
        "version": newest,
        "stream": status.of(cache.lake, metric.name),
        "updated_at": max((row["updated_at"] for row in live.values()), default=None),
        "reconciled_at": next((entry.reconciled_at for entry in reconciled.values()), None),
        "drawn": drawn,
        "chart": by_window(*_totals(metric, live, books, drawn)) if rows and metric.event_window else None,
    }


def _totals(
    metric: MetricContract, live: dict[Any, Any], books: dict[Any, Any], measure: str
) -> tuple[tuple[str, ...], tuple[float | None, ...], tuple[float | None, ...]]:
    """The names of a day's windows, and their values in both layers, summed over the grain."""
    starts = sorted({group[0] for group in {**live, **books} if group[0] is not None})
    sums: list[tuple[float | None, ...]] = []
    for numbers in (live, books):
        by_start: dict[Any, float] = {}
        for group, row in numbers.items():
            by_start[group[0]] = by_start.get(group[0], 0) + float(causes.number(row[measure]))
        sums.append(tuple(by_start.get(start) for start in starts))
    zone = metric.event_window.zone if metric.event_window else None
    return tuple(windows.name(start, zone)[11:] for start in starts if zone), sums[0], sums[1]


def _group(metric: MetricContract, row: dict[str, Any]) -> tuple[Any, ...]:
    """The window and the grain of a row, in the form of ``Reconciled.cell``."""
    grain = sorted((name, f"{row[name]}") for name in metric.grain if name != WINDOW_START)
    return (row.get(WINDOW_START), *grain)


def _named(metric: MetricContract, group: tuple[Any, ...]) -> str:
    start, *grain = group
    window = metric.event_window
    first = [windows.name(start, window.zone) if start is not None else "no time"] if window else []
    return ", ".join([*first, *(value for _, value in grain)]) or "all"
