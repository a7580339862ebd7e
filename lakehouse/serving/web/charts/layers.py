"""The chart of a measure by window in two layers: live and published numbers."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from lakehouse.reports.svg import COLOURS, HEIGHT, Chart, chart, frame, label, short, values

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
