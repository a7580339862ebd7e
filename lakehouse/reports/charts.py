"""The charts of the reports: numbers before and after, and how revisions approached the final number."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan
from typing import TYPE_CHECKING

from lakehouse.reports.templates import COLOURS, DOTTED, HEIGHT, Chart, chart, cut_svg, frame, label, short, values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lakehouse.gold.numbers.comparison import Sides


@dataclass(frozen=True)
class PlottedSeries:
    """Both numbers of every period. ``name`` is drawn if a chart has several series."""

    name: str
    periods: tuple[str, ...]
    sides: tuple[Sides, ...]


def before_and_after(series: Sequence[PlottedSeries]) -> Chart:
    """For each series the lines before and after, with the area between them filled, and below them the differences as bars."""

    def draw(figure: Figure, labels: int) -> None:
        heights = [part for _ in series for part in (3, 1.25)]
        axes = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights, squeeze=False)[:, 0]
        for plotted, upper, lower in zip(series, axes[::2], axes[1::2]):
            _lines(upper, plotted)
            _bars(lower, plotted)
            if len(series) > 1:
                upper.set_title(cut_svg(plotted.name, 60), loc="left", fontsize=9, color=COLOURS["ink"])
        label(axes[-1], series[0].periods, labels)

    return chart(draw, height=HEIGHT * (1 + 0.75 * (len(series) - 1)))


def convergence(days: Sequence[Sequence[float]]) -> Chart:
    """The distance of each day's first, second, ... revision from the final number in percent, and the mean over all days."""

    def draw(figure: Figure, labels: int) -> None:
        axes = figure.subplots()
        frame(axes)
        most = max(len(day) for day in days)
        for day in days:
            axes.plot(range(1, len(day) + 1), day, color=COLOURS["before"], linewidth=0.8, alpha=0.55, marker=".", markersize=3)
        # A day with fewer revisions keeps its last number.
        mean = [sum(day[min(at, len(day) - 1)] for day in days) / len(days) for at in range(most)]
        axes.plot(range(1, most + 1), mean, color=COLOURS["after"], linewidth=2, marker="o", markersize=4)
        axes.axhline(0, color=COLOURS["muted"], linewidth=0.8)
        shown = range(1, most + 1, -(-most // labels))
        axes.set_xticks(shown, [f"r{at}" for at in shown])
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:+g} %" if value else "0 %")

    return chart(draw, height=HEIGHT)


def _lines(axes: Axes, series: PlottedSeries) -> None:
    at = range(len(series.sides))
    before, after = values([sides.before for sides in series.sides]), values([sides.after for sides in series.sides])
    marker = "o" if len(at) <= DOTTED else ""
    axes.fill_between(at, before, after, color=COLOURS["after"], alpha=0.16, linewidth=0)
    axes.plot(at, before, color=COLOURS["before"], linewidth=1.4, linestyle=(0, (4, 2)), marker=marker, markersize=2.5)
    axes.plot(at, after, color=COLOURS["after"], linewidth=1.8, marker=marker, markersize=3)
    axes.yaxis.set_major_formatter(short)
    frame(axes)


def _bars(axes: Axes, series: PlottedSeries) -> None:
    apart = values([sides.difference for sides in series.sides])
    colours = [COLOURS["down" if difference < 0 else "up"] for difference in apart]
    axes.bar(range(len(apart)), [0 if isnan(difference) else difference for difference in apart], color=colours, width=0.7)
    axes.axhline(0, color=COLOURS["muted"], linewidth=0.8)
    axes.locator_params(axis="y", nbins=3)
    axes.yaxis.set_major_formatter(lambda value, at: ("+" if value > 0 else "") + short(value, at))
    frame(axes)
