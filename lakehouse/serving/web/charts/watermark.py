"""The chart of a source's event-time watermark against the arrivals of its deliveries, and the choice of the deliveries shown."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from lakehouse.reports.svg import COLOURS, HEIGHT, Chart, chart, frame

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

_KEPT = 32
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
