"""What is published of event days, in plain Python, from the rules R7 to R9 and not from the code."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import date, datetime

    from lakehouse_tests.support.reference_model import Record

FINAL_AFTER = 5
BOUND = 4  # a restatement that moves the total by more is held
#: A number: total, biggest, and the rows behind it.
Number = tuple[int | None, int | None, int]


def number_of(rows: list[Record]) -> Number:
    amounts = [record.amount for record in rows]
    return (sum(amounts), max(amounts), len(amounts)) if amounts else (None, None, 0)


@dataclass
class PublishedPeriod:
    """What was published of one period."""

    revisions: list[tuple[Number, str, datetime]] = field(default_factory=list)
    rows: list[Record] = field(default_factory=list)  # the rows of the newest one
    adjustments: list[tuple[Number, date]] = field(default_factory=list)
    restated: Number | None = None  # what closed and adjustments come to
    held: tuple[Number, list[Record]] | None = None
    refused: set[Number] = field(default_factory=set)

    @property
    def newest(self) -> tuple[Number, str, datetime]:
        return self.revisions[-1]


def state_of(last: date, today: date) -> str:
    age = (today - last).days
    return "final" if age >= FINAL_AFTER else "preliminary" if age >= 1 else "live"


def differs(now: Number, before: Number) -> Number:
    return tuple((new or 0) - (old or 0) for new, old in zip(now, before))  # type: ignore[return-value]


@dataclass
class Model:
    """A series of days by the rules."""

    adjusts: bool
    checked: bool = True
    days: dict[date, PublishedPeriod] = field(default_factory=lambda: defaultdict(PublishedPeriod))

    def recompute(self, day: date, rows: list[Record], now: datetime, *, signed: bool = False) -> None:
        """A run computed the day again from these rows."""
        number, period = number_of(rows), self.days[day]
        if not period.revisions and not rows:
            return
        period.held = None
        state = state_of(day, now.date())
        stands = number in period.refused and not signed
        if not period.revisions:
            if not stands:
                self._publish(period, number, state, now, rows)
            return
        current, was, _ = period.newest
        closed = self.adjusts and was == "final"
        if stands:
            number, rows = current, period.rows
            if closed:
                return
        if number == (period.restated if closed else current) and (closed or rank(state) <= rank(was)):
            return
        if self.checked and not signed and abs((number[0] or 0) - (current[0] or 0)) > BOUND:
            period.held = (number, rows)
        elif closed:
            period.adjustments.append((differs(number, period.restated or current), now.date()))
            period.restated = number
        else:
            self._publish(period, number, state if rank(state) > rank(was) else was, now, rows)

    @staticmethod
    def _publish(period: PublishedPeriod, number: Number, state: str, now: datetime, rows: list[Record]) -> None:
        period.revisions.append((number, state, now))
        period.restated, period.rows = number, rows

    def decide(self, day: date, now: datetime, *, publish: bool) -> None:
        period = self.days[day]
        assert period.held is not None
        number, rows = period.held
        if publish:
            self.recompute(day, rows, now, signed=True)
        else:
            period.refused.add(number)
        period.held = None


def rank(state: str) -> int:
    return ["live", "preliminary", "final"].index(state)
