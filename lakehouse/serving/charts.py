"""Charts as inline SVG: drawn by matplotlib, coloured by the page.

Legend, caption and text alternative belong to the page; in the drawing there are only axes and marks. Text stays text, and
each colour is a CSS variable, so that the same drawing serves a light page, a dark one and paper.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from decimal import Decimal
from math import isfinite, isnan
from threading import Lock
from typing import TYPE_CHECKING, Any

from lakehouse.serving.figures import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lakehouse.domain.comparison import Sides

#: Colours that nothing else uses: after drawing, each becomes the page's variable of that name.
_COLOURS = {name: f"#00000{at}" for at, name in enumerate(("ink", "muted", "rule", "before", "after", "up", "down"), start=1)}
#: Width in inches and the most labels on its time axis: for a desk and for a phone.
_WIDE, _NARROW = (9.6, 11), (4.4, 5)
_HEIGHT = 3.1
#: Up to so many points each gets a dot.
_DOTTED = 70
#: The time axis has room for so many at least: one day's bar is no wall.
_FEWEST = 10
#: matplotlib's settings are global to the process.
_SETTINGS = Lock()


@dataclass(frozen=True)
class Chart:
    """A drawing for wide and for narrow screens."""

    wide: str
    narrow: str


@dataclass(frozen=True)
class Series:
    """Both numbers of every period; ``name`` is drawn where there are several."""

    name: str
    periods: tuple[str, ...]
    sides: tuple[Sides, ...]


def before_and_after(series: Sequence[Series]) -> Chart:
    """Per series the line before, the line after and what lies between; below each, the differences as bars."""

    def draw(figure: Figure, labels: int) -> None:
        heights = [part for _ in series for part in (3, 1.25)]
        axes = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights, squeeze=False)[:, 0]
        for one, upper, lower in zip(series, axes[::2], axes[1::2]):
            _lines(upper, one)
            _bars(lower, one)
            if len(series) > 1:
                upper.set_title(_cut(one.name, 60), loc="left", fontsize=9, color=_COLOURS["ink"])
        _label(axes[-1], series[0].periods, labels)

    return _chart(draw, height=_HEIGHT * (1 + 0.75 * (len(series) - 1)))


def convergence(days: Sequence[Sequence[float]]) -> Chart:
    """How far from the final number each day's first, second, ... revision was, in percent, and all days' mean."""

    def draw(figure: Figure, labels: int) -> None:
        axes = figure.subplots()
        _frame(axes)
        most = max(len(day) for day in days)
        for day in days:
            axes.plot(range(1, len(day) + 1), day, color=_COLOURS["before"], linewidth=0.8, alpha=0.55, marker=".", markersize=3)
        # A day with fewer revisions keeps its last number while the others move on.
        mean = [sum(day[min(at, len(day) - 1)] for day in days) / len(days) for at in range(most)]
        axes.plot(range(1, most + 1), mean, color=_COLOURS["after"], linewidth=2, marker="o", markersize=4)
        axes.axhline(0, color=_COLOURS["muted"], linewidth=0.8)
        shown = range(1, most + 1, -(-most // labels))
        axes.set_xticks(shown, [f"r{at}" for at in shown])
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:+g} %" if value else "0 %")

    return _chart(draw, height=_HEIGHT)


def _lines(axes: Axes, series: Series) -> None:
    at = range(len(series.sides))
    before, after = _values([one.before for one in series.sides]), _values([one.after for one in series.sides])
    marker = "o" if len(at) <= _DOTTED else ""
    axes.fill_between(at, before, after, color=_COLOURS["after"], alpha=0.16, linewidth=0)
    axes.plot(at, before, color=_COLOURS["before"], linewidth=1.4, linestyle=(0, (4, 2)), marker=marker, markersize=2.5)
    axes.plot(at, after, color=_COLOURS["after"], linewidth=1.8, marker=marker, markersize=3)
    axes.yaxis.set_major_formatter(_short)
    _frame(axes)


def _bars(axes: Axes, series: Series) -> None:
    apart = _values([one.difference for one in series.sides])
    colours = [_COLOURS["down" if one < 0 else "up"] for one in apart]
    axes.bar(range(len(apart)), [0 if isnan(one) else one for one in apart], color=colours, width=0.7)
    axes.axhline(0, color=_COLOURS["muted"], linewidth=0.8)
    axes.locator_params(axis="y", nbins=3)
    axes.yaxis.set_major_formatter(lambda value, at: ("+" if value > 0 else "") + _short(value, at))
    _frame(axes)


def _values(numbers: Sequence[object]) -> list[float]:
    """As matplotlib wants them; a missing number or an infinite one is a gap in the line."""
    found = [float(one) if isinstance(one, (int, float, Decimal)) else float("nan") for one in numbers]
    return [one if isfinite(one) else float("nan") for one in found]


def _short(value: float, _at: float | None) -> str:
    for size, letter in ((1e9, "bn"), (1e6, "m"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if letter == 'k' else size):,g}{letter}"
    return f"{value:,g}"


def _label(axes: Axes, periods: Sequence[str], most: int) -> None:
    """The periods below the last drawing, evenly thinned out; days of one year go without it."""
    step = max(1, -(-len(periods) // most))
    years = {period[:4] for period in periods}
    shown = [_cut(period[5:] if len(years) == 1 and len(period) == len("2024-01-15") else period, 12) for period in periods]
    axes.set_xticks(range(0, len(periods), step), shown[::step])
    middle, half = (len(periods) - 1) / 2, max(len(periods), _FEWEST) / 2
    axes.set_xlim(middle - half, middle + half)


def _cut(text: str, most: int) -> str:
    """What fits; the table has the whole."""
    shown = plain(text)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def _frame(axes: Axes) -> None:
    axes.spines[["top", "right", "left", "bottom"]].set_visible(False)
    axes.grid(axis="y", color=_COLOURS["rule"], linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, labelsize=9, labelcolor=_COLOURS["muted"])


def _chart(draw: Callable[[Figure, int], None], height: float) -> Chart:
    return Chart(*(_svg(draw, width, height, labels) for width, labels in (_WIDE, _NARROW)))


def _svg(draw: Callable[[Figure, int], None], width: float, height: float, labels: int) -> str:
    from matplotlib import rc_context  # noqa: PLC0415 (loads in half a second, which a command without charts need not wait for)
    from matplotlib.figure import Figure  # noqa: PLC0415

    settings: dict[Any, Any] = {"svg.hashsalt": f"{width}", "svg.fonttype": "none", "text.parse_math": False}
    with _SETTINGS, rc_context(settings):
        figure = Figure(figsize=(width, height), layout="constrained")
        figure.patch.set_visible(False)
        draw(figure, labels)
        for axes in figure.axes:
            axes.patch.set_visible(False)
        written = io.StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    return _inline(written.getvalue())


def _inline(svg: str) -> str:
    """The drawing as a part of a page: no header, metadata, comments, sizes or styles of its own, colours from the page."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", svg, flags=re.DOTALL)
    head, rest = svg.split(">", 1)
    box = re.search(r'viewBox="[^"]*"', head)
    rest = re.sub(r'<g id="[^"]*"', "<g", rest).replace("xlink:href", "href")
    for name, colour in _COLOURS.items():
        rest = rest.replace(colour, f"var(--{name})")
    return re.sub(r"\n\s*", "\n", f'<svg {box.group() if box else ""} aria-hidden="true" focusable="false">{rest}').strip()
