"""Whether a sound row may contend for its key: how late it is by its own clocks (R5), and which row rules it fails.

The judgement is the contract's; what a steward says later about a single row outranks it (see ``ledger.decisions``).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from lakehouse.lateness.rules import is_late
from lakehouse.text import format_duration

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import timedelta

    from lakehouse.contracts.source_rules import Lateness, RowRule


class Standing(str, Enum):
    """What a row may do by its contract."""

    ADMITTED = "admitted"
    QUARANTINED = "quarantined"
    REJECTED = "rejected"
    DROPPED = "dropped"


class Reason(str, Enum):
    """Why a row is not admitted, in a word that a query can ask for."""

    BEYOND_WATERMARK = "beyond_watermark"
    RULE_FAILED = "rule_failed"
    SHRUNKEN_PARTITION = "shrunken_partition"


@dataclass(frozen=True)
class Judgement:
    """The standing of one row; ``detail`` says it to a person, ``beyond`` whether it came beyond the watermark."""

    standing: Standing
    reason: Reason | None = None
    detail: str | None = None
    beyond: bool = False


ADMITTED = Judgement(Standing.ADMITTED)


def judge(late: timedelta | None, bounds: Lateness, failed: Collection[str], rules: dict[str, RowRule]) -> Judgement:
    """The standing of a row.

    :param late: its ``calendar.event_day.lateness``.
    :param bounds: those of its event type.
    :param failed: names of the rules that it fails.
    """
    by_severity = {
        severity: [name for name in failed if rules[name].severity == severity] for severity in ("reject", "quarantine")
    }
    beyond = is_late(late, bounds.watermark)
    watermark = format_duration(bounds.watermark)
    too_late = f"{format_duration(late)} after the event; the watermark is {watermark}" if beyond else None
    if by_severity["reject"]:
        return Judgement(Standing.REJECTED, Reason.RULE_FAILED, _fails(by_severity["reject"]), beyond)
    if beyond and bounds.beyond == "drop":
        return Judgement(Standing.DROPPED, Reason.BEYOND_WATERMARK, too_late, beyond)
    if by_severity["quarantine"]:
        also = too_late if bounds.beyond == "quarantine" else None
        detail = "; ".join(filter(None, [_fails(by_severity["quarantine"]), also]))
        return Judgement(Standing.QUARANTINED, Reason.RULE_FAILED, detail, beyond)
    if beyond and bounds.beyond == "quarantine":
        return Judgement(Standing.QUARANTINED, Reason.BEYOND_WATERMARK, too_late, beyond)
    return Judgement(Standing.ADMITTED, beyond=True) if beyond else ADMITTED


def _fails(names: list[str]) -> str:
    return f"fails {', '.join(names)}"
