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


def number_of(said: list[Record]) -> Number:
    amounts = [record.amount for record in said]
    return (sum(amounts), max(amounts), len(amounts)) if amounts else (None, None, 0)


@dataclass
class Told:
    """What was published of one period."""

    revisions: list[tuple[Number, str, datetime]] = field(default_factory=list)
    behind: list[Record] = field(default_factory=list)  # the rows of the newest one
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
    """A series of days as the rules say."""

    adjusts: bool
    checked: bool = True
    days: dict[date, Told] = field(default_factory=lambda: defaultdict(Told))

    def say(self, day: date, said: list[Record], now: datetime, *, signed: bool = False) -> None:
        """A run made the day anew from these rows."""
        number, told = number_of(said), self.days[day]
        if not told.revisions and not said:
            return
        told.held = None
        state = state_of(day, now.date())
        stands = number in told.refused and not signed
        if not told.revisions:
            if not stands:
                self._publish(told, number, state, now, said)
            return
        current, was, _ = told.newest
        closed = self.adjusts and was == "final"
        if stands:
            number, said = current, told.behind
            if closed:
                return
        if number == (told.restated if closed else current) and (closed or rank(state) <= rank(was)):
            return
        if self.checked and not signed and abs((number[0] or 0) - (current[0] or 0)) > BOUND:
            told.held = (number, said)
        elif closed:
            told.adjustments.append((differs(number, told.restated or current), now.date()))
            told.restated = number
        else:
            self._publish(told, number, state if rank(state) > rank(was) else was, now, said)

    @staticmethod
    def _publish(told: Told, number: Number, state: str, now: datetime, said: list[Record]) -> None:
        told.revisions.append((number, state, now))
        told.restated, told.behind = number, said

    def decide(self, day: date, now: datetime, *, publish: bool) -> None:
        told = self.days[day]
        assert told.held is not None
        number, said = told.held
        if publish:
            self.say(day, said, now, signed=True)
        else:
            told.refused.add(number)
        told.held = None


def rank(state: str) -> int:
    return ["live", "preliminary", "final"].index(state)
