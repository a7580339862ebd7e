"""The notice of a steward's rejection: a few lines for people, data for programs.

Like the notice of a restatement, it contains no key and no value of the grain, because a sent message cannot be redacted.
``rejections`` selects the rejections to report.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakehouse.operations.notices.notice import as_text, message_id
from lakehouse.text import format_moment, json_value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date, datetime

    from lakehouse.gold.numbers.comparison import Number

#: The number of days listed, for people and for programs.
_SHOWN, _LISTED = 5, 200
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
