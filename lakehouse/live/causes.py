"""The causes of a difference between a live number and the published one, as a chain of row sets. Plain Python.

Here is also the entry of a reconciliation; its table is in ``batches``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence  # noqa: TC003 (columns of the log)
from dataclasses import dataclass
from datetime import date, datetime  # noqa: TC003 (columns of the log)
from decimal import Context, Decimal
from enum import IntEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakehouse.contracts.metric import ReconciliationTerms


#: Doubles of any size are added without rounding.
_EXACT = Context(prec=1000)


class RowSet(IntEnum):
    """The sets of the chain, in order; each but the first is named after the cause that leads to it."""

    COUNTED = 0
    NOT_READ = 1
    LATE_DROPPED = 2
    WITHOUT_EVENT_TIME = 3
    DUPLICATE = 4
    QUARANTINED = 5
    REJECTED = 6
    DROPPED_BY_POLICY = 7
    DELETED = 8
    MOVED = 9
    CORRECTED = 10
    LATE_EVENTS = 11

    @property
    def cause(self) -> str:
        """The cause as tables and pages spell it."""
        return self.name.lower()


#: Changes that are in silver and not yet in the published number.
NOT_PUBLISHED = "not_published"
#: The difference between the stream's number and the rows that it counts by the rule: 0, or the rule is wrong.
UNEXPLAINED = "unexplained"
#: All causes, in the order of the chain.
CAUSES = (UNEXPLAINED, *(step.cause for step in RowSet if step), NOT_PUBLISHED)


def number(value: Any) -> Decimal:
    """A value of a measure for differences: a window without rows, and a measure without a value, count as 0.

    A double is taken by its shortest text.
    """
    return Decimal(0) if value is None else Decimal(f"{value!r}" if isinstance(value, float) else value)


def difference(live: Any, books: Any) -> Decimal:
    """The published number minus the live number."""
    return _EXACT.subtract(number(books), number(live))


def by_cause(live: Any, sets: Sequence[Any], books: Any) -> dict[str, Decimal]:
    """The part of the difference that each cause explains; causes without effect are left out.

    :param sets: the measure over each of the sets of the chain, in order.
    """
    chain = [live, *sets, books]
    steps = {cause: difference(before, after) for cause, before, after in zip(CAUSES, chain, chain[1:])}
    return {cause: value for cause, value in steps.items() if value}


def add_up(causes: Mapping[str, Decimal]) -> Decimal:
    """The sum of causes, exactly."""
    total = Decimal(0)
    for value in causes.values():
        total = _EXACT.add(total, value)
    return total


def exceeds(gap: Decimal, books: Any, terms: ReconciliationTerms) -> bool:
    """Whether a difference is more than the threshold, a share of the published number; if that is 0, any difference is."""
    return abs(gap) > abs(number(books)) * Decimal(f"{terms.threshold}")


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


def in_order(group: Sequence[Any]) -> list[tuple[bool, str]]:
    """The sort key of windows and grains: by time, entries without one last, then by grain."""
    return [(part is None, f"{part}") for part in group]
