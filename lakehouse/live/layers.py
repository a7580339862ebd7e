"""The numbers of a day by layer: those of the stream, the published ones, or both merged. No row mixes the two.

A day is published as a whole, so it is taken from one layer as a whole: the published numbers once they are preliminary or final,
and the stream until then. ``live`` is also the first *state* of a published number; it is not the same as the layer.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from lakehouse.gold.numbers.lifecycle import State
from lakehouse.live import table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.settings import Settings


class NumberLayer(str, Enum):
    """The layer from which a number comes."""

    LIVE = "live"
    BOOKS = "books"


class LayerChoice(str, Enum):
    """The requested layer; merged: the published numbers of closed days, and the stream for all others."""

    LIVE = "live"
    BOOKS = "books"
    MERGED = "merged"


def chosen(choice: LayerChoice, state: State | None, *, has_live: bool) -> NumberLayer:
    """The layer that a day is taken from.

    :param state: of its newest published number; None if there is none.
    :param has_live: whether the stream has a number of the day.
    """
    if choice is LayerChoice.MERGED:
        is_closed = state is not None and state is not State.LIVE
        return NumberLayer.BOOKS if is_closed or not has_live else NumberLayer.LIVE
    return NumberLayer(choice.value)


def live_rows(settings: Settings, metric: MetricContract, days: Sequence[date]) -> list[dict[str, Any]]:
    """The live numbers of ``days``, by day, window and grain; empty for a metric without a speed layer."""
    numbers = table.read(settings, metric, days) if metric.live and days else None
    rows = [] if numbers is None else numbers.to_pylist()
    return sorted(rows, key=lambda row: tuple(f"{row[name]}" for name in ("event_date", *metric.grain)))
