"""The states of a row of Bronze: each vocabulary once, as tables, commands and the API spell it.

A row's state consists of the contract's judgement (:class:`AdmissionStatus`, with a :class:`QuarantineReason`), the decision of a
steward (:class:`StewardVerdict`) and the result (:class:`Disposition`); :class:`QuarantineStatus` is the state of its review. The
rules that connect them are in ``dispositions``.
"""

from __future__ import annotations

from enum import Enum

from lakehouse.text import EARLIER_NAMES


class Word(str, Enum):
    """An enum that is formatted as its value."""

    def __str__(self) -> str:
        return str(self.value)


class QuarantineReason(Word):
    """Why a row is not admitted. ``beyond_cutoff`` is read as ``beyond_watermark``, the word in the tables."""

    BEYOND_WATERMARK = "beyond_watermark"
    RULE_FAILED = "rule_failed"
    SHRUNKEN_PARTITION = "shrunken_partition"
    MARKER = "marker"

    @property
    def words(self) -> str:
        """The reason for people."""
        words = {"beyond_watermark": "beyond the cutoff", "marker": "marker record"}
        return words.get(self.value, self.value.replace("_", " "))

    @property
    def option(self) -> str:
        """The reason as people give it to a command or in a query."""
        return next((name for name, earlier in EARLIER_NAMES.items() if earlier == self.value), self.value)

    @classmethod
    def _missing_(cls, value: object) -> QuarantineReason | None:
        return next((reason for reason in cls if reason.value == EARLIER_NAMES.get(f"{value}")), None)


class Disposition(Word):
    """The final state of a row; every row of Bronze has exactly one."""

    APPLIED = "applied"
    SUPERSEDED = "superseded"
    DUPLICATE = "duplicate"
    QUARANTINED = "quarantined"
    REJECTED = "rejected"
    MALFORMED = "malformed"
    DROPPED = "dropped"


class AdmissionStatus(Word):
    """The admission of a row by its contract; only an admitted row contends for its key."""

    ADMITTED = "admitted"
    QUARANTINED = "quarantined"
    REJECTED = "rejected"
    DROPPED = "dropped"

    @property
    def barred_as(self) -> Disposition | None:
        """The disposition of a row with this status; None if the row may contend for its key."""
        return _BARRED_BY_CONTRACT.get(self)


class QuarantineStatus(Word):
    """The state of a row's review; a row is released if its cause disappears without a decision."""

    OPEN = "open"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    DUPLICATE = "duplicate"
    RELEASED = "released"


class StewardVerdict(Word):
    """A steward's decision about a row."""

    ACCEPT = "accept"
    REJECT = "reject"
    DUPLICATE = "duplicate"

    @property
    def barred_as(self) -> Disposition | None:
        """The disposition of a row with this verdict; None if the row may contend for its key."""
        return _BARRED_BY_STEWARD.get(self)

    @property
    def participle(self) -> str:
        """The word for a row with this verdict, in a sentence."""
        return _PARTICIPLES[self]

    @property
    def status(self) -> QuarantineStatus:
        """The state of the row's review after this verdict."""
        return _STATUSES[self]


_PARTICIPLES = {
    StewardVerdict.ACCEPT: "accepted",
    StewardVerdict.REJECT: "rejected",
    StewardVerdict.DUPLICATE: "called a duplicate",
}
_STATUSES = {
    StewardVerdict.ACCEPT: QuarantineStatus.ACCEPTED,
    StewardVerdict.REJECT: QuarantineStatus.REJECTED,
    StewardVerdict.DUPLICATE: QuarantineStatus.DUPLICATE,
}
_BARRED_BY_CONTRACT = {
    AdmissionStatus.QUARANTINED: Disposition.QUARANTINED,
    AdmissionStatus.REJECTED: Disposition.REJECTED,
    AdmissionStatus.DROPPED: Disposition.DROPPED,
}
_BARRED_BY_STEWARD = {
    StewardVerdict.REJECT: Disposition.REJECTED,
    StewardVerdict.DUPLICATE: Disposition.DUPLICATE,
}
