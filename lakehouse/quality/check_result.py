"""What a check found on one partition."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import date


@dataclass(frozen=True)
class Outcome:
    """One check on one partition. ``explanation`` says what to do where it failed; ``warns`` that it is no error."""

    check: str
    day: date
    passed: bool
    numbers: dict[str, Any] = field(default_factory=dict)
    explanation: str | None = None
    warns: bool = False
