"""What consumers are told when a number that was published is another one now: a few lines for people, data for programs.

No value of the grain is in it: what a redaction has to hide cannot be in a message that has left.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakehouse.gold.numbers.comparison import Sides, added
from lakehouse.gold.numbers.lifecycle import RevisionReason

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date, datetime

    from lakehouse.gold.numbers.comparison import MeasureDelta, Number
    from lakehouse.gold.numbers.lifecycle import State

#: So many periods are told number by number, to people and to programs.
_SHOWN, _LISTED = 5, 200
_QUIET = frozenset({RevisionReason.INITIAL, RevisionReason.DAILY_FINALIZATION})


def restates(reason: RevisionReason) -> bool:
    """Whether what was published for this reason is another number than readers had.

    The first number of a period is none, nor a change of state, nor a running week that its next day was added to.
    """
    return reason not in _QUIET


@dataclass(frozen=True)
class MeasureTotals:
    """One measure of a period: its total before and after, None where it does not add up; how many rows of the grain changed."""

    measure: str
    sides: Sides | None
    changed: int
    of: int

    def as_json(self) -> dict[str, Any]:
        """Decimals as text, so that none is rounded on the way."""
        sides = self.sides or Sides(None, None)
        return {"measure": self.measure, **sides.as_json(), "grain_rows": self.of, "grain_rows_changed": self.changed}

    def __str__(self) -> str:
        if self.sides is None:
            return f"{self.measure} changed in {self.changed:,} of {self.of:,} rows of the grain"
        if not self.sides.changed:
            return f"{self.measure} {_text(self.sides.after)} in all, as before: {self.changed:,} of {self.of:,} rows changed"
        apart, percent = self.sides.difference, self.sides.percent
        more = [] if apart is None else [_text(apart, signed=True)]
        more += [] if percent is None else [f"{percent:+,} %"]
        by = f" ({', '.join(more)})" if more else ""
        return f"{self.measure} {_text(self.sides.before)} -> {_text(self.sides.after)}{by}"


@dataclass(frozen=True)
class RestatedPeriod:
    """One period that was restated.

    :param before: the version that readers had; ``after`` is the one they have, an adjustment on top of the closed number.
    :param changed_rows: how many rows of silver are behind it, where that is known.
    :param booked_on: for an adjustment the open day that it belongs to.
    :param changes: every measure by grain; those of a closed period with all that is booked to it.
    """

    period: str
    before: str
    after: str
    state: State
    reason: RevisionReason
    explanation: str | None
    changed_rows: int | None
    booked_on: date | None
    changes: tuple[MeasureDelta, ...]

    def moved(self, additive: frozenset[str]) -> list[MeasureTotals]:
        """Every measure, whether it says another number or not."""
        found = []
        for measure in dict.fromkeys(change.measure for change in self.changes):
            own = [change for change in self.changes if change.measure == measure]
            whole = measure in additive or len(own) == 1
            sides = Sides(added(one.before for one in own), added(one.after for one in own)) if whole else None
            found.append(MeasureTotals(measure, sides, sum(one.changed for one in own), len(own)))
        return found


@dataclass(frozen=True)
class Notice:
    """What is told of one publication of a series. ``restated`` is in the order of the periods, and never empty.

    :param changed_rows: the rows of silver behind all of it, each once; None where that is not known.
    :param additive: the measures whose values over the grain add up.
    """

    metric: str
    series: str
    publication_id: str
    gold_version: int
    published_at: datetime
    restated: Sequence[RestatedPeriod]
    changed_rows: int | None = None
    additive: frozenset[str] = frozenset()

    def message_id(self, consumer: str) -> str:
        """The same whenever the same is told to the same."""
        return hashlib.sha256(f"{self.series}\n{self.publication_id}\n{consumer}".encode()).hexdigest()[:32]

    @property
    def reasons(self) -> list[str]:
        """Why, each reason once."""
        return sorted({one.reason.value for one in self.restated})

    @property
    def subject(self) -> str:
        """One line."""
        return f"{self.series} restated for {self._window}: {', '.join(self.reasons)}"

    @property
    def text(self) -> str:
        """Some lines for people: what each of the first periods said and says, and why."""
        rows = "" if self.changed_rows is None else f"; changed rows of silver: {self.changed_rows:,}"
        lines = [f"{self.series} was restated for {self._window}, {self.published_at:%Y-%m-%d %H:%M} UTC{rows}."]
        for one in self.restated[:_SHOWN]:
            versions = f"{one.before.partition('.')[2]} -> {one.after.partition('.')[2]}"
            lines += ["", f"{one.period}, {one.state.value}, {versions}, {_why(one)}"]
            if one.booked_on is not None:
                lines.append(f"  the closed number stays; with what is booked, now also to {one.booked_on}:")
            told = [f"  {moved}" for moved in one.moved(self.additive) if moved.changed]
            lines += told or ["  every measure says what it said; the rows behind it are others"]
        left = len(self.restated) - _SHOWN
        lines += ["", f"and {left:,} more."] if left > 0 else []
        return "\n".join([*lines, "", f"lakehouse gold history {self.metric} {self.restated[0].period}"])

    @property
    def data(self) -> dict[str, Any]:
        """The same for programs, in types that JSON knows; ``left_out`` counts the periods that are not told one by one."""
        names = [one.period for one in self.restated]
        return {
            "metric": self.metric,
            "series": self.series,
            "publication_id": self.publication_id,
            "gold_version": self.gold_version,
            "published_at": self.published_at.isoformat(),
            "window": {"first": names[0], "last": names[-1], "count": len(names), "periods": names},
            "reasons": self.reasons,
            "changed_rows": self.changed_rows,
            "restated": [self._as_json(one) for one in self.restated[:_LISTED]],
            "left_out": max(0, len(names) - _LISTED),
        }

    @property
    def _window(self) -> str:
        first, last, count = self.restated[0].period, self.restated[-1].period, len(self.restated)
        return first if count == 1 else f"{count:,} periods, {first} to {last}"

    def _as_json(self, one: RestatedPeriod) -> dict[str, Any]:
        return {
            "period": one.period,
            "before": one.before,
            "after": one.after,
            "state": one.state.value,
            "reason": one.reason.value,
            "explanation": one.explanation,
            "changed_rows": one.changed_rows,
            "booked_on": None if one.booked_on is None else one.booked_on.isoformat(),
            "measures": [moved.as_json() for moved in one.moved(self.additive)],
        }


def _why(one: RestatedPeriod) -> str:
    """The reason, and what was said of it beside the reason itself."""
    said, reason = one.explanation or "", one.reason.value
    return said if said.startswith(reason) else f"{reason}: {said}" if said else reason


def _text(number: Number | None, *, signed: bool = False) -> str:
    """A decimal with all its places; of a double 12 digits count."""
    if number is None:
        return "none"
    form = ("+" if signed else "") + "," + (".12g" if isinstance(number, float) else "")
    return format(number, form) if isinstance(number, int | float) else format(number, f"{form}f")
