"""Differences between two versions of a metric, as plain values in exact arithmetic.

Reading the two versions belongs to ``history``, rendering a comparison to ``reports``.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

from lakehouse.text import json_value

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

Number = int | float | Decimal

#: Holds the difference of any two floats or decimal(38)s without rounding; a NaN stays one instead of raising.
_EXACT = Context(prec=700, rounding=ROUND_HALF_UP, traps=[])
_HUNDREDTH = Decimal("0.01")


def exact(number: Number) -> Decimal:
    """The number as it is written: the float 0.1 is one tenth."""
    return Decimal(str(number)) if isinstance(number, float) else Decimal(number)


def added(numbers: Iterable[Number | None]) -> Number | None:
    """The exact sum of the numbers that are not None, in the widest of their types; None if all are None."""
    present = [number for number in numbers if number is not None]
    if not present:
        return None
    total = reduce(_EXACT.add, map(exact, present))
    if any(isinstance(number, Decimal) for number in present):
        return total
    return float(total) if any(isinstance(number, float) for number in present) else int(total)


class Sides(NamedTuple):
    """One number before and after; None on a side without a number."""

    before: Number | None
    after: Number | None

    @property
    def changed(self) -> bool:
        """Whether the numbers differ; NaN equals NaN, and 1 equals 1.00."""
        if self.before is None or self.after is None:
            return self.before is not self.after
        return str(self.before) != str(self.after) and exact(self.before) != exact(self.after)

    @property
    def difference(self) -> Number | None:
        """After minus before: an integer for integers, exact for decimals."""
        if self.before is None or self.after is None:
            return None
        if isinstance(self.before, Decimal) or isinstance(self.after, Decimal):
            return _EXACT.subtract(exact(self.after), exact(self.before))
        return self.after - self.before

    @property
    def ratio(self) -> Decimal | None:
        """The difference in percent of the size of before, unrounded: from -10 to -5 is a rise."""
        if self.before is None or self.after is None:
            return None
        before, after = exact(self.before), exact(self.after)
        if not (before.is_finite() and after.is_finite()) or before == 0:
            return None
        return _EXACT.divide(_EXACT.multiply(_EXACT.subtract(after, before), Decimal(100)), _EXACT.abs(before))

    @property
    def percent(self) -> Decimal | None:
        """The ratio, rounded to two places for people; thresholds use the unrounded ratio."""
        return None if self.ratio is None else self.ratio.quantize(_HUNDREDTH, context=_EXACT)

    @property
    def size(self) -> Decimal:
        """The absolute difference, with a missing side counted as 0; infinite if it is NaN."""
        apart = _EXACT.abs(_EXACT.subtract(exact(self.after or 0), exact(self.before or 0)))
        return Decimal("Infinity") if apart.is_nan() else apart

    def exceeds(self, percent: Decimal | None = None, absolute: Decimal | None = None) -> bool:
        """Whether the change exceeds one of the given bounds.

        A change from or to a missing number, or from 0, exceeds any percentage; a missing number counts as 0 in the difference.
        """
        if not self.changed:
            return False
        ratio = self.ratio
        beyond_share = percent is not None and (ratio is None or abs(ratio) > percent)
        return beyond_share or (absolute is not None and self.size > absolute)

    def as_json(self) -> dict[str, Any]:
        """Both numbers, the difference and the change in percent, as :func:`lakehouse.text.json_value` writes each."""
        values = {"before": self.before, "after": self.after, "difference": self.difference, "percent": self.percent}
        return {name: json_value(number) for name, number in values.items()}


@dataclass(frozen=True)
class MeasureDelta:
    """One measure of one period and grain in both versions; it may be unchanged.

    :param period: a day, week, month or quarter: 2024-01-15, 2024-W03, 2024-01, 2024-Q1.
    :param grain: columns and their values; empty for a metric without grain.
    :param before_version: the revision of ``before``; None if that side has none.
    :param before_state: live, preliminary or final.
    :param reason: why ``after`` was published.
    :param rows: the number of silver rows that caused the change, if known.
    """

    period: str
    grain: tuple[tuple[str, str], ...]
    measure: str
    before: Number | None
    after: Number | None
    before_version: str | None = None
    after_version: str | None = None
    before_state: str | None = None
    after_state: str | None = None
    reason: str | None = None
    rows: int | None = None

    @property
    def sides(self) -> Sides:
        """Both numbers."""
        return Sides(self.before, self.after)

    @property
    def changed(self) -> bool:
        """Whether the numbers differ."""
        return self.sides.changed

    @property
    def difference(self) -> Number | None:
        """After minus before; None if a side is missing."""
        return self.sides.difference

    @property
    def percent(self) -> Decimal | None:
        """The difference in percent of before, to two places; None if before is 0 or a side is missing."""
        return self.sides.percent


@dataclass(frozen=True)
class Threshold:
    """The greatest change of a measure, in percent, that needs no review by a person."""

    measure: str
    percent: Decimal

    def broken_by(self, change: MeasureDelta) -> bool:
        """Whether the change exceeds the threshold; a change from or to a missing number, or from 0, always does."""
        return change.measure == self.measure and change.sides.exceeds(percent=self.percent)


class Missing(NamedTuple):
    """The periods that each side lacks."""

    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True)
class Comparison:
    """Two versions of one metric, number by number.

    :param from_version: a label such as "v1" or "first publication".
    :param changes: every number that was compared, including equal ones.
    :param additive: the measures whose values over periods and grain may be added up.
    """

    metric: str
    from_version: str
    to_version: str
    first: str
    last: str
    changes: tuple[MeasureDelta, ...]
    thresholds: tuple[Threshold, ...]
    made_at: datetime
    additive: frozenset[str] = frozenset()

    @property
    def measures(self) -> tuple[str, ...]:
        """The measures, in order of appearance."""
        return tuple(dict.fromkeys(change.measure for change in self.changes))

    @property
    def grain(self) -> tuple[str, ...]:
        """The grain's columns, in order of appearance."""
        return tuple(dict.fromkeys(column for change in self.changes for column, _ in change.grain))

    @property
    def periods(self) -> tuple[str, ...]:
        """Every period compared, sorted."""
        return tuple(sorted({change.period for change in self.changes}))

    def changed(self) -> tuple[MeasureDelta, ...]:
        """The compared numbers that differ."""
        return tuple(change for change in self.changes if change.changed)

    def largest(self, measure: str, n: int | None = None) -> tuple[MeasureDelta, ...]:
        """The changes of a measure by absolute difference, largest first: ``n`` of them, or all."""
        found = [change for change in self.changes if change.measure == measure and change.changed]
        return tuple(sorted(found, key=lambda change: (-change.sides.size, change.period, change.grain))[:n])

    def totals(self) -> dict[str, Sides]:
        """The sums of the additive measures over all compared numbers."""
        totals: dict[str, Sides] = {}
        for measure in self.measures:
            if measure in self.additive:
                of_measure = [change for change in self.changes if change.measure == measure]
                totals[measure] = Sides(added(one.before for one in of_measure), added(one.after for one in of_measure))
        return totals

    def beyond(self) -> tuple[MeasureDelta, ...]:
        """The changes that exceed a threshold."""
        return tuple(change for change in self.changes if any(one.broken_by(change) for one in self.thresholds))

    def missing(self) -> Missing:
        """The periods for which one side has neither a number nor a version."""
        before = {one.period for one in self.changes if one.before is not None or one.before_version is not None}
        after = {one.period for one in self.changes if one.after is not None or one.after_version is not None}
        return Missing(
            before=tuple(period for period in self.periods if period not in before and period in after),
            after=tuple(period for period in self.periods if period not in after and period in before),
        )
