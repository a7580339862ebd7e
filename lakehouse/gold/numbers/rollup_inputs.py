"""The inputs of a longer period: the column ``made_from`` of a roll-up's published rows, written and read only here."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: The key of the booked adjustments; all other keys are days.
_ADJUSTMENTS = "adjustments"


@dataclass(frozen=True)
class RollupInputs:
    """The published numbers that a longer period was computed from; empty for a day, which is computed from Silver.

    :param revisions: per day the label of its revision, such as ``r3``.
    :param adjustments: the version names of the adjustments that are booked in the period.
    """

    revisions: Mapping[date, str] = field(default_factory=dict)
    adjustments: Sequence[str] = ()

    @classmethod
    def parse(cls, text: str | None) -> RollupInputs:
        """Read a stored value."""
        stored: dict[str, Any] = json.loads(text or "{}")
        adjustments = stored.pop(_ADJUSTMENTS, ())
        return cls({date.fromisoformat(day): label for day, label in stored.items()}, tuple(adjustments))

    def as_json(self) -> dict[str, Any]:
        """The value as it is stored and served: labels by day and, if there are any, the adjustments."""
        revisions: dict[str, Any] = {f"{day}": label for day, label in self.revisions.items()}
        return revisions | ({_ADJUSTMENTS: list(self.adjustments)} if self.adjustments else {})

    def __str__(self) -> str:
        return json.dumps(self.as_json(), sort_keys=True)

    def changed_since(self, earlier: RollupInputs) -> dict[date, tuple[str | None, str]]:
        """The days whose revision differs from ``earlier``: the label there (None for a new day), and the label here."""
        before = earlier.revisions
        return {day: (before.get(day), label) for day, label in sorted(self.revisions.items()) if before.get(day) != label}
