"""What a surface says of a number, and in what two surfaces contradict each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Any

Totals = Mapping[str, Decimal]


def totals(**values: int | str) -> Totals:
    """Totals by measure."""
    return {name: Decimal(value) for name, value in values.items()}


@dataclass(frozen=True)
class Said:
    """The newest number of a period, as one surface tells it; None: the surface does not show it.

    :param value: by measure the total over the grain, as far as it is shown.
    :param reason: why the newest revision was published.
    :param restated: how often a number that readers had was replaced; adjustments are counted apart.
    :param why: what the last restatement included, without the name of its reason; empty if it was never restated.
    :param adjusted: the totals with the adjustments that were booked elsewhere; empty without one.
    :param held: whether a newer number is held.
    :param failed: the checks that the newest number failed, and for which it is held; empty without one.
    """

    value: Totals | None = None
    state: str | None = None
    reason: str | None = None
    revision: str | None = None
    restated: int | None = None
    restated_on: str | None = None
    why: str | None = None
    waiting: tuple[str, ...] | None = None
    adjusted: Totals | None = None
    held: bool | None = None
    failed: tuple[str, ...] | None = None


def contradictions(of: str, by_surface: Mapping[str, Said]) -> list[str]:
    """In which fields a surface contradicts the first one that shows them: surface, number, field and both values."""
    listed = []
    for name in (field.name for field in fields(Said)):
        shown = {surface: getattr(said, name) for surface, said in by_surface.items() if getattr(said, name) is not None}
        first = next(iter(shown), "")
        listed += [
            f"{surface} says of {of}, {name}: {value!r}; {first}: {shown[first]!r}"
            for surface, value in shown.items()
            if _differ(shown[first], value)
        ]
    return listed


def _differ(one: Any, other: Any) -> bool:
    """Whether two values contradict each other: of totals where both show a measure, or where only one has any."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return bool(one) != bool(other) or any(one[name] != other[name] for name in one.keys() & other.keys())
    return bool(one != other)
