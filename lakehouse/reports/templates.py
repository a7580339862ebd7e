"""The environment of the HTML templates: their folders and filters, and charts as inline SVG.

Everything that is not markup is escaped. Charts are drawn by matplotlib and coloured by the page.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from functools import cache
from math import isfinite
from threading import Lock
from typing import TYPE_CHECKING, Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from lakehouse.reports import formatting
from lakehouse.reports.formatting import plain
from lakehouse.text import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


#: Placeholder colours. After drawing, each is replaced by the page's CSS variable of that name.
COLOURS = {
    name: f"#00000{at}" for at, name in enumerate(("ink", "muted", "rule", "before", "after", "up", "down", "card"), start=1)
}
#: The height of a drawing in inches.
HEIGHT = 3.1
#: The greatest number of points that are marked with dots.
DOTTED = 70
#: The width in inches and the greatest number of labels on the time axis, for wide and for narrow screens.
_WIDE, _NARROW = (9.6, 11), (4.4, 5)
#: The fewest periods on the time axis: with fewer, the bar of a single day would fill the chart.
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
    """Draw a chart for wide and for narrow screens.

    :param draw: draws into a figure; its second argument is the maximum number of labels on the time axis.
    """
    return Chart(*(_svg(draw, width, height, labels) for width, labels in (_WIDE, _NARROW)))


def values(numbers: Sequence[object]) -> list[float]:
    """The numbers as floats for matplotlib; a missing or infinite number is a gap in the line."""
    floats = [float(number) if isinstance(number, (int, float, Decimal)) else float("nan") for number in numbers]
    return [number if isfinite(number) else float("nan") for number in floats]


def short(value: float, _at: float | None = None) -> str:
    """A number shortened for an axis label."""
    for size, letter in ((1e9, "bn"), (1e6, "m"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if letter == 'k' else size):,g}{letter}"
    return f"{value:,g}"


def label(axes: Axes, periods: Sequence[str], most: int) -> None:
    """Label the time axis with evenly spaced periods; the year is omitted if all days are in one year."""
    step = max(1, -(-len(periods) // most))
    years = {period[:4] for period in periods}
    shown = [cut_svg(period[5:] if len(years) == 1 and len(period) == len("2024-01-15") else period, 12) for period in periods]
    axes.set_xticks(range(0, len(periods), step), shown[::step])
    middle, half = (len(periods) - 1) / 2, max(len(periods), _FEWEST) / 2
    axes.set_xlim(middle - half, middle + half)


def cut_svg(text: str, most: int) -> str:
    """A text shortened to ``most`` characters; the table shows it in full."""
    shown = plain(text)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def frame(axes: Axes) -> None:
    """Style the axes: no box, light grid lines."""
    axes.spines[["top", "right", "left", "bottom"]].set_visible(False)
    axes.grid(axis="y", color=COLOURS["rule"], linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, labelsize=9, labelcolor=COLOURS["muted"])


def _svg(draw: Callable[[Figure, int], None], width: float, height: float, labels: int) -> str:
    from matplotlib import rc_context  # noqa: PLC0415 (loads in half a second, which a command without charts need not wait for)
    from matplotlib.figure import Figure  # noqa: PLC0415

    lake: dict[Any, Any] = {"svg.hashsalt": f"{width}", "svg.fonttype": "none", "text.parse_math": False}
    with _SETTINGS, rc_context(lake):
        figure = Figure(figsize=(width, height), layout="constrained")
        figure.patch.set_visible(False)
        draw(figure, labels)
        for axes in figure.axes:
            axes.patch.set_visible(False)
        written = io.StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    return _inline(written.getvalue())


def _inline(svg: str) -> str:
    """The drawing for embedding in a page, without header, metadata, comments, sizes and styles; colours come from the page."""
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
    """Convert a style to attributes of its element; the page sets the font."""
    parts = [part.partition(":")[::2] for part in style[1].split(";") if ":" in part]
    attributes = {name.strip(): value.strip() for name, value in parts}
    size = re.search(r"[\d.]+px", attributes.pop("font", ""))
    attributes |= {"font-size": size[0]} if size else {}
    attributes.pop("font-family", None)
    return "".join(f' {name}="{value}"' for name, value in attributes.items())


#: The templates of the reports, and those of the pages, which use the reports' style sheet.
_FOLDERS = ("reports/html", "serving/templates")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=ChoiceLoader([PackageLoader("lakehouse", folder) for folder in _FOLDERS]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    names = ("plain", "number", "difference", "both", "percent", "version", "versions", "reason", "cell", "moment", "counted")
    environment.filters |= {name: getattr(formatting, name) for name in names}
    environment.filters |= {"cut": cut_svg, "bound": _bound, "seconds": _seconds, "span": format_duration}
    return environment


def _bound(text: str) -> str:
    """Keep percent signs and arrows on the line of their number."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%").replace("→ ", "→\N{NO-BREAK SPACE}")


def _seconds(count: int | None) -> str:
    """Seconds as a duration."""
    return "" if count is None else "0 s" if count <= 0 else format_duration(timedelta(seconds=count))


def text(name: str) -> str:
    """A template without variables, such as the style sheet."""
    return _environment().get_template(name).render()


def page(template: str, **values: Any) -> str:
    """A rendered page; it loads nothing from other hosts."""
    return _environment().get_template(f"{template}.html.j2").render(values)
