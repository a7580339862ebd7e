"""Whether a well-formed row may contend for its key: its lateness by the data's own clocks (R5), and the row rules that it fails.

The judgement is the contract's; a steward's later decision about a single row outranks it (see ``ledger.decisions``). The rule is
stated here for one row; ``judged_rows`` applies it to a set of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehouse.lateness.rules import is_late
from lakehouse.ledger.row_states import AdmissionStatus, QuarantineReason
from lakehouse.text import format_duration

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import timedelta

    from lakehouse.contracts.source_rules import Lateness, RowRule


@dataclass(frozen=True)
class Judgement:
    """The admission status of one row.

    ``detail`` describes the reason for a person; ``beyond`` is whether the row came beyond the cutoff.
    """

    status: AdmissionStatus
    reason: QuarantineReason | None = None
    detail: str | None = None
    beyond: bool = False


ADMITTED = Judgement(AdmissionStatus.ADMITTED)
#: A record that only advances the watermark, see ``SourceContract.marker_field``.
MARKER = Judgement(
    AdmissionStatus.DROPPED, QuarantineReason.MARKER, "a marker record: it advances the watermark and counts nowhere"
)


def judge(late: timedelta | None, bounds: Lateness, failed: Collection[str], rules: dict[str, RowRule]) -> Judgement:
    """The admission status of a row, by its contract.

    :param late: its ``calendar.days.lateness``.
    :param bounds: the bounds of its event type.
    :param failed: the names of the rules that it fails.
    """
    by_severity = {
        severity: [name for name in failed if rules[name].severity == severity] for severity in ("reject", "quarantine")
    }
    beyond = is_late(late, bounds.watermark)
    cutoff = format_duration(bounds.watermark)
    too_late = f"{format_duration(late)} after the event; the cutoff is {cutoff}" if beyond else None
    if by_severity["reject"]:
        return Judgement(AdmissionStatus.REJECTED, QuarantineReason.RULE_FAILED, _fails(by_severity["reject"]), beyond)
    if beyond and bounds.beyond == "drop":
        return Judgement(AdmissionStatus.DROPPED, QuarantineReason.BEYOND_WATERMARK, too_late, beyond)
    if by_severity["quarantine"]:
        also = too_late if bounds.beyond == "quarantine" else None
        detail = "; ".join(filter(None, [_fails(by_severity["quarantine"]), also]))
        return Judgement(AdmissionStatus.QUARANTINED, QuarantineReason.RULE_FAILED, detail, beyond)
    if beyond and bounds.beyond == "quarantine":
        return Judgement(AdmissionStatus.QUARANTINED, QuarantineReason.BEYOND_WATERMARK, too_late, beyond)
    return Judgement(AdmissionStatus.ADMITTED, beyond=True) if beyond else ADMITTED


def reason_in_words(reason: str, detail: str | None) -> str:
    """Why a row is not admitted, in words that are equal for equal causes: failed row rules with their names.

    :param detail: the ``detail`` of its :class:`Judgement`.
    """
    fails = (detail or "").partition(";")[0]
    return fails if fails.startswith(_FAILS) else QuarantineReason(reason).words


_FAILS = "fails "


def _fails(names: list[str]) -> str:
    return f"{_FAILS}{', '.join(names)}"
