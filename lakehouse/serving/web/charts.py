"""The charts of the pages: a series and its states, the versions of one number, and how late rows arrived.

States differ in their marks and not in colour alone. A table next to each chart contains the same numbers.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from importlib import import_module
from math import isnan
from typing import TYPE_CHECKING, Any, NamedTuple

from lakehouse.gold.numbers.lifecycle import State
from lakehouse.serving.reports.svg import COLOURS, DOTTED, HEIGHT, Chart, chart, cut, frame, label, short, values

if TYPE_CHECKING:
    from datetime import datetime

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lakehouse.gold.numbers.comparison import Number

_KEPT = 32
#: Marker, filled or hollow, per state.
_MARKS = {State.FINAL: ("o", True), State.PRELIMINARY: ("o", False), State.LIVE: ("D", False)}
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
#: The labels that a narrow drawing has room for.
_FEW = {_MIN, _HOUR, _DAY, 7 * _DAY, 90 * _DAY}
_TICKS = {1: "1 s", 10: "10 s", _MIN: "1 min", 10 * _MIN: "10 min", _HOUR: "1 h", 6 * _HOUR: "6 h", _DAY: "1 d"}
_TICKS |= {3 * _DAY: "3 d", 7 * _DAY: "7 d", 30 * _DAY: "30 d", 365 * _DAY: "1 y"}
#: The most revisions that are labelled; a bound to the right of this share of the width is labelled on its left.
_LABELLED, _RIGHT = 14, 0.62
#: Days that an axis spans: above the first, labels have no time of day; above the second (per label), they have a year.
_CLOCK, _YEARS = 3, 30
#: The background of text that a line may cross.
_BEHIND: dict[str, Any] = {"facecolor": COLOURS["card"], "edgecolor": "none", "pad": 0.8}
#: A drawing with at most so many labels is narrow.
_PHONE = 6


class Line(NamedTuple):
    """A measure over many periods: the numbers first published, and those of now."""

    name: str
    first: tuple[Number | None, ...]
    now: tuple[Number | None, ...]


class Bound(NamedTuple):
    """A bound that is drawn into a distribution; ``kind`` is expected, watermark or asked."""

    kind: str
    name: str
    seconds: int


@lru_cache(_KEPT)
def series(periods: tuple[str, ...], states: tuple[State, ...], lines: tuple[Line, ...]) -> Chart:
    """For each measure the numbers of the periods, marked by state, with a line from the number first published."""

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
                axes.set_title(cut(measure.name, 60), loc="left", fontsize=9, color=COLOURS["ink"])
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
def story(times: tuple[datetime, ...], names: tuple[str, ...], states: tuple[State, ...], lines: tuple[Line, ...]) -> Chart:
    """How the numbers of a period changed from one revision to the next."""

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
                axes.set_title(cut(measure.name, 60), loc="left", fontsize=9, color=COLOURS["ink"])
        locator = dates.AutoDateLocator(minticks=2, maxticks=max(labels - 2, 3))
        plots[-1].xaxis.set_major_locator(locator)
        days = max(at) - min(at)
        written = "%Y-%m-%d" if days > _YEARS * labels else "%m-%d" if days > _CLOCK else "%m-%d %H:%M"
        plots[-1].xaxis.set_major_formatter(dates.DateFormatter(written))
        if not days:
            plots[-1].set_xlim(at[0] - 0.5, at[0] + 0.5)

    return chart(draw, HEIGHT * (0.85 + 0.5 * (len(lines) - 1)))


def distribution(seconds: tuple[int, ...], bounds: tuple[Bound, ...]) -> Chart:
    """How many rows arrived how late, with the bounds; the scale is logarithmic."""
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
    """How late the rows of each arrival day came, as percentiles; the scale is logarithmic."""

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
