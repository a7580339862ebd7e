"""Charts of published numbers: a series and its states, and the versions of one number.

States differ by marks, not by colour alone.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from math import isnan
from typing import TYPE_CHECKING, Any, NamedTuple

from lakehouse.gold.numbers.lifecycle import State
from lakehouse.reports.templates import COLOURS, DOTTED, HEIGHT, Chart, chart, cut_svg, frame, label, short, values

if TYPE_CHECKING:
    from datetime import datetime

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lakehouse.gold.numbers.comparison import Number


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
def series(periods: tuple[str, ...], states: tuple[State, ...], lines: tuple[Line, ...]) -> Chart:
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
def story(times: tuple[datetime, ...], names: tuple[str, ...], states: tuple[State, ...], lines: tuple[Line, ...]) -> Chart:
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
