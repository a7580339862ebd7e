"""What an alert is. When one opens is decided in ``rules``."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime


class AlertKind(str, Enum):
    """What an alert is about."""

    LATE_SHARE = "late_share"
    LAG = "lag"
    RESTATEMENTS = "restatements"
    HELD = "held"
    OVERDUE = "overdue"
    VALUE = "value"


_TITLES = {
    AlertKind.LATE_SHARE: "too many rows beyond the watermark",
    AlertKind.LAG: "rows take longer to arrive than usual",
    AlertKind.RESTATEMENTS: "more restatements than usual",
    AlertKind.HELD: "a number is held",
    AlertKind.OVERDUE: "a number was not finalized",
    AlertKind.VALUE: "a {} value beyond its bound",
}


@dataclass(frozen=True)
class Alert:
    """Something that people should know of.

    :param contract: the source or metric whose contract it comes from.
    :param subject: the source, or the series of published numbers.
    :param since: since when it is so, by the clock that the rule goes by.
    :param text: what happened, where, and what to do.
    :param addressed_to: the source's owner first.
    :param numbers: the same in figures.
    :param period: the period of a number by name.
    :param detail: tells apart alerts of one kind about one subject and period.
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
        """The alert in a few words; of a number that is not final it tells so."""
        words = _TITLES[self.kind].format(self.numbers.get("state"))
        return f"{words}: {self.subject}{f' {self.period}' if self.period else ''}"

    @property
    def key(self) -> tuple[str, ...]:
        """What makes two alerts the same one, seen again."""
        return (self.kind.value, self.contract, self.subject, self.period or "", self.detail or "")


@dataclass(frozen=True)
class AlertSubject:
    """Whom an alert is about, and whom it concerns."""

    contract: str
    subject: str
    addressed_to: Sequence[str] = ()

    def alert(self, kind: AlertKind, since: datetime, text: str, numbers: Mapping[str, Any], **more: str) -> Alert:
        """An alert about it."""
        return Alert(kind, self.contract, self.subject, since, text, self.addressed_to, numbers, **more)


def addressees(*owners: str | None) -> list[str]:
    """The owners that contracts name, each once, in this order."""
    return list(dict.fromkeys(owner for owner in owners if owner))
