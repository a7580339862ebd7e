"""The chart of a backtest: a measure of both versions, month by month with intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.reports.svg import COLOURS, HEIGHT, Chart, chart, frame, label, short, values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lakehouse.models.backtests.comparison import ComparedPart, IntervalEstimate

#: The horizontal offset of the two versions from the middle of their month, in months.
_APART = 0.06
#: The margin before the first and after the last month, in months.
_MARGIN = 0.6


def by_month(parts: Sequence[ComparedPart], measure: str) -> Chart:
    """The measure of champion and challenger with their intervals; a month without a value stays empty."""
    compared = [part.measure(measure) for part in parts]

    def draw(figure: Figure, labels: int) -> None:
        axes = figure.subplots()
        _points(axes, [sides.champion for sides in compared], -_APART, "before", "s")
        _points(axes, [sides.challenger for sides in compared], _APART, "after", "o")
        axes.yaxis.set_major_formatter(short)
        frame(axes)
        label(axes, [part.name for part in parts], labels)
        axes.set_xlim(-_MARGIN, len(parts) - 1 + _MARGIN)  # two months fill the chart as well as twelve

    return chart(draw, height=HEIGHT)


def _points(axes: Axes, estimates: Sequence[IntervalEstimate], apart: float, colour: str, marker: str) -> None:
    at = [place + apart for place in range(len(estimates))]
    middle, low, high = (values([getattr(entry, side) for entry in estimates]) for side in ("value", "low", "high"))
    # An interval from resamples need not contain the value measured on all rows.
    down = [max(0.0, point - least) for point, least in zip(middle, low)]
    up = [max(0.0, most - point) for point, most in zip(middle, high)]
    axes.errorbar(at, middle, yerr=[down, up], fmt=marker, color=COLOURS[colour], ecolor=COLOURS[colour], capsize=3, markersize=5)
