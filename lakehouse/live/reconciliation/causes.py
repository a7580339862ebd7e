"""The causes of a difference between a live number and the published one, as a chain of row sets (plain Python).

The chain begins with the rows that the stream has counted and ends with the rows of the published number. Each step adds or
removes the rows of one cause, and the effect of the cause is the change of the measure in that step. So the causes add up to the
difference for any measure, additive or not. Which rows are in which set is defined in ``row_sets``.
"""

from __future__ import annotations

from decimal import Context, Decimal
from enum import IntEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakehouse.contracts.live.speed_layer import ReconciliationTerms

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
