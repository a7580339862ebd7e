"""An entry of a reconciliation (plain Python). The table is in ``log``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence  # noqa: TC003 (columns of the log)
from dataclasses import dataclass
from datetime import date, datetime  # noqa: TC003 (columns of the log)
from decimal import Decimal
from typing import Any


@dataclass(frozen=True)
class Reconciled:
    """A measure of one window and grain, in the stream and as published.

    ``live``, ``books`` (the published value), ``difference`` and the values of ``causes`` are exact decimal numbers, as text;
    ``live`` and ``books`` are None where there is no number. ``window_start`` is None for a whole day. ``is_closed`` is whether
    the watermark of the stream had passed the window. ``query`` and ``batch`` name the state of the stream, ``revision`` is the
    published revision, 0 if nothing is published.
    """

    metric: str
    day: date
    number: int
    window_start: datetime | None
    grain: Mapping[str, Any]
    measure: str
    live: str | None
    books: str | None
    difference: str
    causes: Mapping[str, str]
    is_closed: bool
    exceeds: bool
    query: str | None
    batch: int
    revision: int
    reconciled_at: datetime

    @property
    def cell(self) -> tuple[Any, ...]:
        """The identity of the entry within its day: window, grain and measure."""
        return (self.window_start, *sorted((name, f"{value}") for name, value in self.grain.items()), self.measure)

    @property
    def gap(self) -> Decimal:
        """The difference as a number."""
        return Decimal(self.difference)

    @property
    def causes_of_gap(self) -> dict[str, Decimal]:
        """The causes as numbers."""
        return {name: Decimal(value) for name, value in self.causes.items()}


def in_order(group: Sequence[Any]) -> list[tuple[bool, str]]:
    """The sort key of windows and grains: by time, entries without one last, then by grain."""
    return [(part is None, f"{part}") for part in group]
