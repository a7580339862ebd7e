"""The charts of lateness: its distribution with the bounds of the contract, its trend by arrival day, and the watermark.

The event-time watermark is drawn against the arrivals of a source's deliveries; which deliveries are shown is chosen here.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from lakehouse.reports.templates import COLOURS, HEIGHT, Chart, chart, frame, label, values

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure


_KEPT = 32
_MIN, _HOUR, _DAY = 60, 3600, 86_400
#: The upper ends of a distribution's bars in seconds, with their labels.
_EDGES = {
    _MIN: "1 min",
    5 * _MIN: "",
    15 * _MIN: "15 min",
    _HOUR: "1 h",
    3 * _HOUR: "",
    6 * _HOUR: "6 h",
    12 * _HOUR: "",
    _DAY: "1 d",
    2 * _DAY: "",
    3 * _DAY: "3 d",
    5 * _DAY: "",
    7 * _DAY: "7 d",
    14 * _DAY: "14 d",
    30 * _DAY: "30 d",
    90 * _DAY: "90 d",
    365 * _DAY: "1 y",
}
#: The labels that fit into a narrow drawing.
_FEW = {_MIN, _HOUR, _DAY, 7 * _DAY, 90 * _DAY}
_TICKS = {1: "1 s", 10: "10 s", _MIN: "1 min", 10 * _MIN: "10 min", _HOUR: "1 h", 6 * _HOUR: "6 h", _DAY: "1 d"}
_TICKS |= {3 * _DAY: "3 d", 7 * _DAY: "7 d", 30 * _DAY: "30 d", 365 * _DAY: "1 y"}
#: A bound to the right of this share of the width is labelled on its left side.
_RIGHT = 0.62
#: The background of text that a line may cross.
_BEHIND: dict[str, Any] = {"facecolor": COLOURS["card"], "edgecolor": "none", "pad": 0.8}
#: A drawing with at most this many labels is narrow.
_PHONE = 6


class Bound(NamedTuple):
    """A bound drawn into a distribution; ``kind`` is expected, watermark or asked."""

    kind: str
    name: str
    seconds: int


def distribution(seconds: tuple[int, ...], bounds: tuple[Bound, ...]) -> Chart:
    """The numbers of rows by lateness, with the bounds; the scale is logarithmic."""
    edges = list(_EDGES)
    counts = [0] * (len(edges) + 1)
    for lateness in seconds:
        counts[min(bisect_right(edges, max(lateness - 1, 0)), len(edges))] += 1
    return _distribution(tuple(counts), bounds)


@lru_cache(_KEPT)
def _distribution(counts: tuple[int, ...], bounds: tuple[Bound, ...]) -> Chart:
    edges = list(_EDGES)
    places = [_place(bound.seconds) for bound in bounds]
    last = max([at for at, count in enumerate(counts) if count] + [int(place) for place in places], default=0)
    published = counts[: last + 1]

    def draw(figure: Figure, labels: int) -> None:
        axes = figure.subplots()
        middles = [at + 0.5 for at in range(len(published))]
        axes.bar(middles, [max(count, 0.01) for count in published], width=0.92, color=COLOURS["after"])
        most = max(published, default=1)
        axes.set_yscale("log")
        axes.set_ylim(0.6, max(most, 2) * 12)
        for at, count in enumerate(published):
            if count:
                point, ink = (at + 0.5, count), COLOURS["ink"]
                size = 8 if labels > _PHONE else 7
                axes.annotate(
                    f"{count:,}",
                    point,
                    (0, 3),
                    textcoords="offset points",
                    ha="center",
                    va="bottom",
                    fontsize=size,
                    color=ink,
                    bbox=_BEHIND,
                )
        frame(axes)
        axes.grid(visible=False)
        axes.set_yticks([])
        axes.minorticks_off()
        named = [edge for edge in edges[: len(published)] if (_EDGES[edge] if labels > _PHONE else edge in _FEW)]
        ticks = [edges.index(edge) for edge in named]
        axes.set_xticks([at + 1 for at in ticks], [_EDGES[edges[at]] for at in ticks])
        axes.set_xlim(0, len(published))
        for row, (bound, place) in enumerate(zip(bounds, places)):
            _bound(axes, bound, place / len(published), place, 0.97 - 0.085 * row)

    return chart(draw, HEIGHT)


@lru_cache(_KEPT)
def trend(days: tuple[str, ...], p50: tuple[int | None, ...], p95: tuple[int | None, ...], p99: tuple[int | None, ...]) -> Chart:
    """The percentiles of lateness by arrival day; the scale is logarithmic."""

    def draw(figure: Figure, labels: int) -> None:
        axes = figure.subplots()
        looks = ((p50, "-", "s", "before"), (p95, (0, (4, 2)), "^", "after"), (p99, "-", "o", "down"))
        for percentiles, line, mark, colour in looks:
            drawn = values([None if seconds is None else max(seconds, 1) for seconds in percentiles])
            axes.plot(range(len(days)), drawn, color=COLOURS[colour], linewidth=1.6, linestyle=line, marker=mark, markersize=4)
        axes.set_yscale("log")
        latenesses = [max(seconds, 1) for line in (p50, p95, p99) for seconds in line if seconds is not None]
        low, high = min(latenesses, default=1) / 2, max(latenesses, default=1) * 2
        axes.set_ylim(low, high)
        ticks = [at for at in _TICKS if low <= at <= high]
        axes.set_yticks(ticks, [_TICKS[at] for at in ticks])
        axes.minorticks_off()
        frame(axes)
        label(axes, days, labels)

    return chart(draw, HEIGHT)


@lru_cache(_KEPT)
def against_bound(
    names: tuple[str, ...], numbers: tuple[float | None, ...], bounds: tuple[float | None, ...], *, in_percent: bool = False
) -> Chart:
    """A figure by period, with the bound of its alert as a dashed line."""

    def draw(figure: Figure, labels: int) -> None:
        axes, factor = figure.subplots(), 100 if in_percent else 1
        drawn, limits = ([None if one is None else one * factor for one in line] for line in (numbers, bounds))
        axes.plot(range(len(names)), values(drawn), color=COLOURS["before"], linewidth=1.6, marker="o", markersize=4)
        axes.plot(range(len(names)), values(limits), color=COLOURS["down"], linewidth=1.4, linestyle=(0, (4, 2)))
        axes.set_ylim(bottom=0)
        if in_percent:
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:g} %")
        frame(axes)
        label(axes, names, labels)

    return chart(draw, HEIGHT)


def _place(seconds: int) -> float:
    """The position of a lateness among the bars."""
    edges = [0, *_EDGES]
    at = min(bisect_right(edges, seconds - 1) - 1, len(edges) - 2) if seconds > 0 else 0
    return at + min(max((seconds - edges[at]) / (edges[at + 1] - edges[at]), 0), 1)


def _bound(axes: Axes, bound: Bound, share: float, place: float, height: float) -> None:
    looks = {"watermark": ("down", "-"), "asked": ("down", (0, (1, 1.5))), "expected": ("muted", (0, (4, 2)))}
    colour, line = looks[bound.kind]
    axes.axvline(place, ymax=height + 0.02, color=COLOURS[colour], linewidth=1.8, linestyle=line)
    right = share > _RIGHT
    axes.annotate(
        bound.name,
        (place, height),
        (-5 if right else 5, 0),
        xycoords=axes.get_xaxis_transform(),
        textcoords="offset points",
        ha="right" if right else "left",
        va="center",
        fontsize=8.5,
        color=COLOURS["ink"],
        bbox=_BEHIND,
    )


#: The points kept of each span of a chart: the first, the last, and the one with the oldest event.
_OF_A_SPAN = 3
#: The greatest number of labels on the vertical axis.
_ROWS = 7
#: Day spans of an axis: above the first, labels have no time of day; above the second, they have a year.
_CLOCK, _YEARS = 3, 300


class DeliveryPoint(NamedTuple):
    """A delivery: its arrival, its newest event, and the watermark after it; None for missing values."""

    arrived: datetime
    newest_event: datetime | None
    watermark: datetime | None


def thinned(points: Sequence[DeliveryPoint], most: int) -> list[DeliveryPoint]:
    """A selection of at most ``most`` points, in order of arrival.

    The covered time is divided into equal spans. For each span, the first and the last point are kept, so that a line through the
    kept watermarks is never ahead of the watermark and less than one span behind, as is the point with the oldest event.

    :param most: at least 3.
    """
    if len(points) <= most:
        return list(points)
    spans = most // _OF_A_SPAN
    start, length = points[0].arrived, (points[-1].arrived - points[0].arrived) / spans
    by_span: dict[int, list[int]] = {}
    for place, point in enumerate(points):
        span = min(int((point.arrived - start) / length), spans - 1) if length else 0
        by_span.setdefault(span, []).append(place)
    kept = {place for places in by_span.values() for place in _kept_of(points, places)}
    return [points[place] for place in sorted(kept)]


def _kept_of(points: Sequence[DeliveryPoint], places: Sequence[int]) -> Iterable[int]:
    """The positions of the points kept in a span."""
    clocked = [(event, place) for place in places if (event := points[place].newest_event) is not None]
    return {places[0], places[-1], *([min(clocked)[1]] if clocked else [])}


@lru_cache(_KEPT)
def watermark(points: tuple[DeliveryPoint, ...], start: datetime, end: datetime, *, follows_clock: bool) -> Chart:
    """The watermark as a line, the newest event of each delivery as a dot, and event time equal to arrival time as a diagonal.

    :param points: the points in order of arrival, from ``start`` through ``end``.
    :param follows_clock: whether the watermark also moves between two points; otherwise it is constant.
    """

    def draw(figure: Figure, labels: int) -> None:
        axes = figure.subplots()
        first, last = _number(start), _number(end)
        axes.plot([first, last], [first, last], color=COLOURS["muted"], linewidth=1, linestyle=(0, (4, 3)))
        events = [(_number(point.arrived), _number(point.newest_event)) for point in points if point.newest_event is not None]
        if events:
            axes.plot(*zip(*events), linestyle="", marker="o", markersize=3, color=COLOURS["before"])
        moves = [(_number(point.arrived), _number(point.watermark)) for point in points if point.watermark is not None]
        if moves:
            line = "default" if follows_clock else "steps-post"
            axes.plot(*zip(*moves), drawstyle=line, color=COLOURS["after"], linewidth=2)
        # A very old event would leave no room for the others.
        drawn = [time for _, time in (*events, *moves) if time >= first - (last - first)]
        low = min([first, *drawn])
        axes.set_xlim(first, last)
        axes.set_ylim(low - (last - low) * 0.03, last + (last - low) * 0.03)
        frame(axes)
        _dated(axes.xaxis, last - first, max(labels - 2, 3))
        _dated(axes.yaxis, last - low, _ROWS)

    return chart(draw, HEIGHT * 1.2)


def _dated(axis: Axis, days: float, most: int) -> None:
    """Label an axis with at most ``most`` times."""
    dates: Any = import_module("matplotlib.dates")  # imported when a chart is drawn, as in svg; it has no types
    ticker: Any = import_module("matplotlib.ticker")
    steps = [1, 2, 3, 5, 7, 10] if days > _CLOCK else [1, 2.5, 5, 10]  # whole days, or quarters of a day
    axis.set_major_locator(ticker.MaxNLocator(most, steps=steps, integer=days > _CLOCK))
    axis.set_major_formatter(dates.DateFormatter("%Y-%m-%d" if days > _YEARS else "%m-%d" if days > _CLOCK else "%m-%d %H:%M"))


def _number(moment: datetime) -> float:
    """A time as a number of days for matplotlib."""
    dates: Any = import_module("matplotlib.dates")
    return float(dates.date2num(moment))
