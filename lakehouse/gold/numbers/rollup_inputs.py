"""The inputs of a number that is made of published numbers: the column ``made_from``, written and read only here.

A longer period names its days. A derived number names the periods of each metric that it is made of.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: The key of the booked adjustments; all other keys are days, or the names of metrics.
_ADJUSTMENTS = "adjustments"


@dataclass(frozen=True)
class RollupInputs:
    """The published numbers that a number was computed from; empty for a day that is computed from Silver.

    :param revisions: per first day of a period the label of its revision, such as ``r3``.
    :param adjustments: the version names of the adjustments that are booked in the period.
    :param of_metrics: for a derived number: the inputs from each metric, by its name.
    """

    revisions: Mapping[date, str] = field(default_factory=dict)
    adjustments: Sequence[str] = ()
    of_metrics: Mapping[str, RollupInputs] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str | None) -> RollupInputs:
        """Read a stored value."""
        return cls._of(json.loads(text or "{}"))

    @classmethod
    def _of(cls, stored: Mapping[str, Any]) -> RollupInputs:
        metrics = {name: cls._of(value) for name, value in stored.items() if isinstance(value, dict)}
        revisions = {date.fromisoformat(day): label for day, label in stored.items() if isinstance(label, str)}
        adjustments = stored.get(_ADJUSTMENTS)  # a metric may have that name
        return cls(revisions, tuple(adjustments) if isinstance(adjustments, list) else (), metrics)

    def as_json(self) -> dict[str, Any]:
        """The value in stored and served form: labels by day, the labels of each metric, and adjustments if there are any."""
        stored: dict[str, Any] = {f"{day}": label for day, label in self.revisions.items()}
        stored |= {name: inputs.as_json() for name, inputs in self.of_metrics.items()}
        return stored | ({_ADJUSTMENTS: list(self.adjustments)} if self.adjustments else {})

    def __str__(self) -> str:
        return json.dumps(self.as_json(), sort_keys=True)

    def changed_since(self, earlier: RollupInputs) -> dict[date, tuple[str | None, str]]:
        """The days whose revision differs from ``earlier``: the label there (None for a new day), and the label here."""
        before = earlier.revisions
        return {day: (before.get(day), label) for day, label in sorted(self.revisions.items()) if before.get(day) != label}

    def named_changes(self, earlier: RollupInputs) -> Iterator[tuple[str, str | None, str]]:
        """The differences from ``earlier``, for people: the day (for a derived number after its metric), and both labels."""
        yield from ((f"{day}", *labels) for day, labels in self.changed_since(earlier).items())
        for name, inputs in self.of_metrics.items():
            changes = inputs.named_changes(earlier.of_metrics.get(name, RollupInputs()))
            yield from ((f"{name} {day}", before, after) for day, before, after in changes)
