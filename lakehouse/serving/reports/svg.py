"""Charts as inline SVG: drawn by matplotlib, coloured by the page.

Legend, caption and text alternative belong to the page; in the drawing there are only axes and marks. Text stays text, and
each colour is a CSS variable, so that the same drawing serves a light page, a dark one and paper. No style is written into an
element: a strict Content-Security-Policy would take it away.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from decimal import Decimal
from math import isfinite
from threading import Lock
from typing import TYPE_CHECKING, Any

from lakehouse.serving.reports.wording import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Colours that nothing else uses: after drawing, each becomes the page's variable of that name.
COLOURS = {
    name: f"#00000{at}" for at, name in enumerate(("ink", "muted", "rule", "before", "after", "up", "down", "card"), start=1)
}
#: The height of one drawing in inches.
HEIGHT = 3.1
#: Up to so many points each gets a dot.
DOTTED = 70
#: Width in inches and the most labels on its time axis: for a desk and for a phone.
_WIDE, _NARROW = (9.6, 11), (4.4, 5)
#: The time axis has room for so many at least: one day's bar is no wall.
_FEWEST = 10
#: matplotlib's settings are global to the process.
_SETTINGS = Lock()
_STYLE = re.compile(r' style="([^"]*)"')


@dataclass(frozen=True)
class Chart:
    """A drawing for wide and for narrow screens."""

    wide: str
    narrow: str


def chart(draw: Callable[[Figure, int], None], height: float = HEIGHT) -> Chart:
    """A drawing.

    :param draw: is given the figure, and how many labels its time axis has room for.
    """
    return Chart(*(_svg(draw, width, height, labels) for width, labels in (_WIDE, _NARROW)))


def values(numbers: Sequence[object]) -> list[float]:
    """As matplotlib wants them; a missing number or an infinite one is a gap in the line."""
    found = [float(one) if isinstance(one, (int, float, Decimal)) else float("nan") for one in numbers]
    return [one if isfinite(one) else float("nan") for one in found]


def short(value: float, _at: float | None = None) -> str:
    """A number at an axis."""
    for size, letter in ((1e9, "bn"), (1e6, "m"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if letter == 'k' else size):,g}{letter}"
    return f"{value:,g}"


def label(axes: Axes, periods: Sequence[str], most: int) -> None:
    """The periods below the last drawing, evenly thinned out; days of one year go without it."""
    step = max(1, -(-len(periods) // most))
    years = {period[:4] for period in periods}
    shown = [cut(period[5:] if len(years) == 1 and len(period) == len("2024-01-15") else period, 12) for period in periods]
    axes.set_xticks(range(0, len(periods), step), shown[::step])
    middle, half = (len(periods) - 1) / 2, max(len(periods), _FEWEST) / 2
    axes.set_xlim(middle - half, middle + half)


def cut(text: str, most: int) -> str:
    """What fits; the table has the whole."""
    shown = plain(text)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def frame(axes: Axes) -> None:
    """No box, quiet lines."""
    axes.spines[["top", "right", "left", "bottom"]].set_visible(False)
    axes.grid(axis="y", color=COLOURS["rule"], linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, labelsize=9, labelcolor=COLOURS["muted"])


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
    for name, colour in COLOURS.items():
        rest = rest.replace(colour, f"var(--{name})")
    rest = _STYLE.sub(_attributes, rest)
    return re.sub(r"\n\s*", "\n", f'<svg {box.group() if box else ""} aria-hidden="true" focusable="false">{rest}').strip()


def _attributes(style: re.Match[str]) -> str:
    """A style as attributes of its element; the page says which font."""
    said = [part.partition(":")[::2] for part in style[1].split(";") if ":" in part]
    told = {name.strip(): value.strip() for name, value in said}
    size = re.search(r"[\d.]+px", told.pop("font", ""))
    told |= {"font-size": size[0]} if size else {}
    told.pop("font-family", None)
    return "".join(f' {name}="{value}"' for name, value in told.items())
