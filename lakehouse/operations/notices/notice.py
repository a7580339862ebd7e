"""The notices of a restatement and of a steward's rejection: a few lines for people, data for programs.

A notice contains no key and no value of the grain, because a sent message cannot be redacted. ``pending`` selects the
publications that make a notice, ``restated_numbers`` reads their numbers, and ``rejections`` selects the rejections to report.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakehouse.gold.numbers.comparison import Sides, added
from lakehouse.text import format_moment, json_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date, datetime

    from lakehouse.contracts.checks import ChangeBounds
    from lakehouse.gold.numbers.comparison import MeasureDelta, Number
    from lakehouse.gold.numbers.lifecycle import RevisionReason, State

#: The number of periods listed with their numbers, for people and for programs.
_SHOWN, _LISTED = 5, 200


def message_id(series: str, cause: str, consumer: str) -> str:
    """The id of the message to a consumer about the effect of a publication or decision on a series."""
    return hashlib.sha256(f"{series}\n{cause}\n{consumer}".encode()).hexdigest()[:32]


@dataclass(frozen=True)
class MeasureTotals:
    """The total of a measure for a period before and after, and the number of changed grain rows.

    ``sides`` is None if the measure does not add up over the grain.
    """

    measure: str
    sides: Sides | None
    changed: int
    of: int

    def as_json(self) -> dict[str, Any]:
        """A dictionary for JSON; decimals are text, so that none is rounded."""
        sides = self.sides or Sides(None, None)
        return {"measure": self.measure, **sides.as_json(), "grain_rows": self.of, "grain_rows_changed": self.changed}

    def __str__(self) -> str:
        if self.sides is None:
            return f"{self.measure} changed in {self.changed:,} of {self.of:,} rows of the grain"
        if not self.sides.changed:
            return f"{self.measure} {as_text(self.sides.after)} in all, as before: {self.changed:,} of {self.of:,} rows changed"
        apart, percent = self.sides.difference, self.sides.percent
        more = [] if apart is None else [as_text(apart, signed=True)]
        more += [] if percent is None else [f"{percent:+,} %"]
        by = f" ({', '.join(more)})" if more else ""
        return f"{self.measure} {as_text(self.sides.before)} -> {as_text(self.sides.after)}{by}"


@dataclass(frozen=True)
class RestatedPeriod:
    """A restated period.

    :param before: the version that readers had; ``after``: the version they have now, which may be an adjustment.
    :param changed_rows: the number of changed silver rows that caused the restatement, if known.
    :param booked_on: for an adjustment, the open day to which it is booked.
    :param changes: every measure by grain; for a closed period, including its adjustments.
    :param unheard: the number of earlier restatements included in the change that were not reported, because each was within the
        consumer's bounds.
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
    unheard: int = 0

    def exceeds(self, bounds: Mapping[str, ChangeBounds], additive: frozenset[str]) -> bool:
        """Whether a measure moved beyond its bounds; a measure without bounds does if it changed at all.

        The total over the grain is compared, if the measure has one, else each row of the grain.
        """
        for totals in self.totals(additive):
            bound = bounds.get(totals.measure)
            rows = [change.sides for change in self.changes if change.measure == totals.measure]
            sides = rows if totals.sides is None else [totals.sides]
            if any(side.exceeds(bound.percent, bound.absolute) for side in sides) if bound else totals.changed:
                return True
        return False

    def totals(self, additive: frozenset[str]) -> list[MeasureTotals]:
        """The totals of all measures, whether changed or not."""
        result = []
        for measure in dict.fromkeys(change.measure for change in self.changes):
            changes = [change for change in self.changes if change.measure == measure]
            sides = None
            if measure in additive or len(changes) == 1:
                sides = Sides(added(change.before for change in changes), added(change.after for change in changes))
            result.append(MeasureTotals(measure, sides, sum(change.changed for change in changes), len(changes)))
        return result


@dataclass(frozen=True)
class Notice:
    """The notice of a publication of a series. ``restated`` is in the order of periods, and never empty.

    :param changed_rows: the number of changed silver rows that caused it, each counted once; None if unknown.
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
        """The message id, which is the same for the same publication and consumer."""
        return message_id(self.series, self.publication_id, consumer)

    @property
    def reasons(self) -> list[str]:
        """The reasons of the restatements, without repetition."""
        return sorted({period.reason.value for period in self.restated})

    @property
    def subject(self) -> str:
        """The subject line."""
        return f"{self.series} restated for {self._window}: {', '.join(self.reasons)}"

    @property
    def text(self) -> str:
        """A few lines for people: the numbers of the first periods before and after, with the reasons."""
        rows = "" if self.changed_rows is None else f"; changed rows of silver: {self.changed_rows:,}"
        lines = [f"{self.series} was restated for {self._window}, {format_moment(self.published_at)}{rows}."]
        for period in self.restated[:_SHOWN]:
            versions = f"{period.before.partition('.')[2]} -> {period.after.partition('.')[2]}"
            lines += ["", f"{period.period}, {period.state.value}, {versions}, {_reason(period)}"]
            if period.unheard:
                lines.append(f"  with earlier changes that lay within your bounds: {period.unheard:,}")
            if period.booked_on is not None:
                lines.append(f"  the closed number stays; with its adjustments, the newest booked to {period.booked_on}:")
            measures = [f"  {totals}" for totals in period.totals(self.additive) if totals.changed]
            lines += measures or ["  no measure changed, although its rows did"]
        left = len(self.restated) - _SHOWN
        lines += ["", f"and {left:,} more."] if left > 0 else []
        return "\n".join([*lines, "", f"lakehouse gold history {self.metric} {self.restated[0].period}"])

    @property
    def data(self) -> dict[str, Any]:
        """The notice for programs, in JSON types; ``left_out`` counts the periods that are not listed."""
        names = [period.period for period in self.restated]
        return {
            "kind": "restatement",
            "metric": self.metric,
            "series": self.series,
            "publication_id": self.publication_id,
            "gold_version": self.gold_version,
            "published_at": self.published_at.isoformat(),
            "window": {"first": names[0], "last": names[-1], "count": len(names), "periods": names},
            "reasons": self.reasons,
            "changed_rows": self.changed_rows,
            "restated": [self._as_json(period) for period in self.restated[:_LISTED]],
            "left_out": max(0, len(names) - _LISTED),
        }

    @property
    def _window(self) -> str:
        first, last, count = self.restated[0].period, self.restated[-1].period, len(self.restated)
        return first if count == 1 else f"{count:,} periods, {first} to {last}"

    def _as_json(self, restated: RestatedPeriod) -> dict[str, Any]:
        return {
            "period": restated.period,
            "before": restated.before,
            "after": restated.after,
            "state": restated.state.value,
            "reason": restated.reason.value,
            "explanation": restated.explanation,
            "changed_rows": restated.changed_rows,
            "earlier_changes": restated.unheard,
            "booked_on": None if restated.booked_on is None else restated.booked_on.isoformat(),
            "measures": [totals.as_json() for totals in restated.totals(self.additive)],
        }


def _reason(restated: RestatedPeriod) -> str:
    """The reason with its explanation, if the explanation adds to the reason."""
    explanation, reason = restated.explanation or "", restated.reason.value
    return explanation if explanation.startswith(reason) else f"{reason}: {explanation}" if explanation else reason


def as_text(number: Number | None, *, signed: bool = False) -> str:
    """A number for people: a decimal with all its places; a double with 12 digits, or with all if it has more."""
    if number is None:
        return "none"
    has_more = isinstance(number, float) and float(f"{number:.12g}") != number
    form = ("+" if signed else "") + "," + (".12g" if isinstance(number, float) and not has_more else "")
    return format(number, form) if isinstance(number, int | float) else format(number, f"{form}f")


#: How many lines of a file are listed for people.
_LINES = 20


@dataclass(frozen=True)
class DayOfRejection:
    """The rejected rows of an event day; ``values`` has the known measures over these rows alone."""

    day: date
    rows: int
    values: Mapping[str, Number] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """A dictionary for JSON; decimals are text, so that none is rounded."""
        measures = [{"measure": name, "value": json_value(value)} for name, value in self.values.items()]
        return {"day": self.day.isoformat(), "rows": self.rows, "measures": measures}

    def __str__(self) -> str:
        values = ", ".join(f"{name} {as_text(value)}" for name, value in self.values.items())
        return f"{self.day}: {_rows(self.rows)}{f'; over these alone {values}' if values else ''}"


@dataclass(frozen=True)
class Rejection:
    """A decision by which a steward rejected waiting rows, for the readers of a metric. ``days`` is never empty."""

    metric: str
    series: str
    source: str
    decision_id: str
    decided_at: datetime
    by: str
    reason: str
    days: Sequence[DayOfRejection]

    def message_id(self, consumer: str) -> str:
        """The message id, which is the same for the same decision and consumer."""
        return message_id(self.series, self.decision_id, consumer)

    @property
    def subject(self) -> str:
        """The subject line."""
        return f"{self.series} without {_rows(self._count)} for {self._window}: rejected by a steward"

    @property
    def text(self) -> str:
        """A few lines for people."""
        head = (
            f"{_rows(self._count)} of {self.source} that waited for a steward will not be in {self.metric}, for {self._window}."
        )
        why = f"Rejected {format_moment(self.decided_at)} by {self.by}: {self.reason}"
        left = len(self.days) - _SHOWN
        more = [f"  and {left:,} more days"] if left > 0 else []
        command = f"lakehouse quarantine list {self.source} --status rejected"
        return "\n".join([head, why, "", *(f"  {day}" for day in self.days[:_SHOWN]), *more, "", command])

    @property
    def data(self) -> dict[str, Any]:
        """The notice for programs, in JSON types; ``left_out`` counts the days that are not listed."""
        return {
            "kind": "rejection",
            "metric": self.metric,
            "series": self.series,
            "source": self.source,
            "decision_id": self.decision_id,
            "decided_at": self.decided_at.isoformat(),
            "by": self.by,
            "reason": self.reason,
            "rows": self._count,
            "days": [day.as_json() for day in self.days[:_LISTED]],
            "left_out": max(0, len(self.days) - _LISTED),
        }

    @property
    def _count(self) -> int:
        return sum(day.rows for day in self.days)

    @property
    def _window(self) -> str:
        first, last, count = self.days[0].day, self.days[-1].day, len(self.days)
        return f"{first}" if count == 1 else f"{count:,} days, {first} to {last}"


@dataclass(frozen=True)
class RejectionOfSource:
    """The same decision for the owner of the source, who can have the rows mended or sent again.

    :param lines: by file the lines of the rejected rows, both in order; never empty.
    """

    source: str
    decision_id: str
    decided_at: datetime
    by: str
    reason: str
    lines: Mapping[str, Sequence[int]]

    @property
    def series(self) -> str:
        """The table that the rows will not be in."""
        return f"silver/{self.source}"

    def message_id(self, owner: str) -> str:
        """The id of the message, which is the same for the same decision and owner."""
        return message_id(self.series, self.decision_id, owner)

    @property
    def subject(self) -> str:
        """The subject line."""
        return f"{_rows(self._count)} of {self.source} rejected by a steward"

    @property
    def text(self) -> str:
        """Some lines for people: where the rows are, and what the owner can do."""
        head = f"{_rows(self._count)} of {self.source} that waited for a steward will be in no number."
        why = f"Rejected {format_moment(self.decided_at)} by {self.by}: {self.reason}"
        left = len(self.lines) - _SHOWN
        files = [f"  {file}:{_listed(lines)}" for file, lines in [*self.lines.items()][:_SHOWN]]
        files += [f"  and {left:,} more files"] if left > 0 else []
        mend = "If they are right after all, send them again mended, or ask the steward to accept them."
        return "\n".join([head, why, "", *files, "", mend, f"lakehouse quarantine list {self.source} --status rejected"])

    @property
    def data(self) -> dict[str, Any]:
        """The same for programs, in JSON types; ``left_out`` counts the files that are not listed."""
        return {
            "kind": "rejection",
            "source": self.source,
            "decision_id": self.decision_id,
            "decided_at": self.decided_at.isoformat(),
            "by": self.by,
            "reason": self.reason,
            "rows": self._count,
            "files": [{"file": file, "lines": [*lines[:_LISTED]]} for file, lines in [*self.lines.items()][:_LISTED]],
            "left_out": max(0, len(self.lines) - _LISTED),
        }

    @property
    def _count(self) -> int:
        return sum(len(lines) for lines in self.lines.values())


def _listed(lines: Sequence[int]) -> str:
    """The first lines of a file, and how many more there are."""
    shown = ",".join(f"{line}" for line in lines[:_LINES])
    return shown + (f" and {len(lines) - _LINES:,} more" if len(lines) > _LINES else "")


def _rows(count: int) -> str:
    return f"{count:,} {'row' if count == 1 else 'rows'}"
