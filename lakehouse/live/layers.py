"""The numbers of a day by layer: those of the stream, those of the books, or both merged. No row mixes the two.

A day is published as a whole, so it is taken from one layer as a whole: from the books when its number there is preliminary or
final, and from the stream until then. ``live`` is also the first *state* of a number in the books; the layer is another thing.
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
    """Where a number is from."""

    LIVE = "live"
    BOOKS = "books"


class LayerChoice(str, Enum):
    """Which layer is wanted; merged: the books where they are closed, and the stream behind them."""

    LIVE = "live"
    BOOKS = "books"
    MERGED = "merged"


def chosen(choice: LayerChoice, state: State | None, *, has_live: bool) -> NumberLayer:
    """The layer that a day is taken from.

    :param state: of its newest number in the books; None if there is none.
    :param has_live: whether the stream has a number of the day.
    """
    if choice is LayerChoice.MERGED:
        is_closed = state is not None and state is not State.LIVE
        return NumberLayer.BOOKS if is_closed or not has_live else NumberLayer.LIVE
    return NumberLayer(choice.value)


def live_rows(settings: Settings, metric: MetricContract, days: Sequence[date]) -> list[dict[str, Any]]:
    """The live numbers of some days, by day, window and grain; empty for a metric without a speed layer."""
    numbers = table.read(settings, metric, days) if metric.live and days else None
    rows = [] if numbers is None else numbers.to_pylist()
    return sorted(rows, key=lambda row: tuple(f"{row[name]}" for name in ("event_date", *metric.grain)))
