"""The data of an alert. ``rules`` decides when an alert opens."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from lakehouse.text import join_limited

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime


class AlertKind(str, Enum):
    """The condition of an alert."""

    LATE_SHARE = "late_share"
    TIER_SHARE = "tier_share"
    LATE_DROPPED = "late_dropped"
    LAG = "lag"
    RESTATEMENTS = "restatements"
    HELD = "held"
    OVERDUE = "overdue"
    VALUE = "value"
    LIVE_DIFFERENCE = "live_difference"
    LIVE_STOPPED = "live_stopped"
    LIVE_STATE = "live_state"
    WATERMARK_OFF = "watermark_off"
    HELD_FILE = "held_file"
    MALFORMED_ROWS = "malformed_rows"
    FAILED_INGESTION = "failed_ingestion"
    UNFINISHED_DAY = "unfinished_day"
    STREAM_GAP = "stream_gap"
    STREAM_LAG = "stream_lag"
    SILENT_SOURCE = "silent_source"
    WAITING_ROWS = "waiting_rows"
    OVERDUE_REVIEW = "overdue_review"
    WATERMARK_STALLED = "watermark_stalled"
    FAILED_RUN = "failed_run"
    RETRIES_USED_UP = "retries_used_up"
    FAILED_CHECK = "failed_check"
    RECONCILIATION = "reconciliation"
    FAILED_LOOK = "failed_look"


_TITLES = {
    AlertKind.LATE_SHARE: "too many rows beyond the cutoff",
    AlertKind.TIER_SHARE: "more rows are later than a tier tolerates",
    AlertKind.LATE_DROPPED: "too many rows come too late for a metric",
    AlertKind.LAG: "rows take longer to arrive than usual",
    AlertKind.RESTATEMENTS: "more restatements than usual",
    AlertKind.HELD: "a number is held",
    AlertKind.OVERDUE: "a number was not finalized",
    AlertKind.VALUE: "a {} value beyond its bound",
    AlertKind.LIVE_DIFFERENCE: "live numbers differed too much from the published ones",
    AlertKind.LIVE_STOPPED: "the stream of live numbers does not run on",
    AlertKind.LIVE_STATE: "the state of live numbers is too large",
    AlertKind.WATERMARK_OFF: "the event-time watermark catches too few rows",
    AlertKind.HELD_FILE: "a file is held",
    AlertKind.MALFORMED_ROWS: "rows could not be read",
    AlertKind.FAILED_INGESTION: "files could not be ingested",
    AlertKind.UNFINISHED_DAY: "an arrival day is not complete",
    AlertKind.STREAM_GAP: "messages were lost before they were read",
    AlertKind.STREAM_LAG: "messages wait for too long",
    AlertKind.SILENT_SOURCE: "nothing arrives any more",
    AlertKind.WAITING_ROWS: "rows wait for a steward",
    AlertKind.OVERDUE_REVIEW: "rows wait too long for a steward",
    AlertKind.WATERMARK_STALLED: "the event-time watermark stands still",
    AlertKind.FAILED_RUN: "a run failed",
    AlertKind.RETRIES_USED_UP: "runs failed and no further one is started",
    AlertKind.FAILED_CHECK: "a check failed",
    AlertKind.RECONCILIATION: "two layers differ",
    AlertKind.FAILED_LOOK: "a sensor cannot look at a table",
}


#: The number of arrival days that a title names.
_DAYS_IN_TITLE = 3


@dataclass(frozen=True)
class Alert:
    """A condition that people should know about.

    :param contract: the source or metric whose contract it comes from.
    :param subject: the source, or the series of published numbers.
    :param since: the start of the condition, by the clock of the rule.
    :param text: the event, the place, and the remedy.
    :param addressed_to: the source's owner first; about rows that wait for a steward, the stewards first.
    :param numbers: the figures of ``text``.
    :param period: the name of the number's period, or the arrival day of missing data.
    :param detail: distinguishes alerts of one kind about one subject and period.
    """

    kind: AlertKind
    contract: str
    subject: str
    since: datetime
    text: str
    addressed_to: Sequence[str] = ()
    numbers: Mapping[str, Any] = field(default_factory=dict)
    period: str | None = None
    detail: str | None = None

    @property
    def title(self) -> str:
        """The alert in a few words: for a value with the state of its number, for waiting rows with their counts and days."""
        if self.kind is AlertKind.WAITING_ROWS and "arrival_days" in self.numbers:
            rows, days = self.numbers["rows"], join_limited([*self.numbers["arrival_days"]], _DAYS_IN_TITLE, " days")
            words = f"{rows:,} {'row waits' if rows == 1 else 'rows wait'} for a steward"
            return f"{words}: {self.subject} ({by_reason(self.numbers['reasons'])}; arrived on {days})"
        words = _TITLES[self.kind].format(self.numbers.get("state"))
        return f"{words}: {self.subject}{f' {self.period}' if self.period else ''}"

    @property
    def key(self) -> tuple[str, ...]:
        """The identity of an alert: alerts with equal keys are the same alert."""
        return (self.kind.value, self.contract, self.subject, self.period or "", self.detail or "")

    @property
    def is_kept_current(self) -> bool:
        """Whether an open alert takes the present text and figures; those of other kinds are as of the opening."""
        return self.kind is AlertKind.WAITING_ROWS

    def has_grown(self, before: Alert) -> bool:
        """Whether rows have begun to wait: of some arrival day and for some reason there are more than before."""
        known = before.numbers.get("arrival_days", {})
        return any(
            count > known.get(day, {}).get(reason, 0)
            for day, reasons in self.numbers.get("arrival_days", {}).items()
            for reason, count in reasons.items()
        )


@dataclass(frozen=True)
class AlertSubject:
    """The subject of an alert, and the people or teams concerned."""

    contract: str
    subject: str
    addressed_to: Sequence[str] = ()

    def alert(self, kind: AlertKind, since: datetime, text: str, numbers: Mapping[str, Any], **more: str) -> Alert:
        """An alert about this subject."""
        return Alert(kind, self.contract, self.subject, since, text, self.addressed_to, numbers, **more)


def addressees(*owners: str | None) -> list[str]:
    """The owners and stewards named in contracts, in this order, without repetition."""
    return list(dict.fromkeys(owner for owner in owners if owner))


def by_reason(reasons: Mapping[str, int]) -> str:
    """The numbers of rows by reason, as part of a sentence."""
    return ", ".join(f"{reason}: {count:,}" for reason, count in sorted(reasons.items()))
