"""The result of a check, as every layer's ``checks`` module returns it. The checks themselves are in those modules."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import date


@dataclass(frozen=True)
class CheckResult:
    """One check on one partition. ``explanation`` is the reason of a failure and the remedy; ``warns`` marks a warning."""

    check: str
    day: date
    passed: bool
    numbers: dict[str, Any] = field(default_factory=dict)
    explanation: str | None = None
    warns: bool = False
