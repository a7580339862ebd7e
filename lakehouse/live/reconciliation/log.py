"""``ops/reconciliations``: the comparisons of live numbers with the books, with the causes of each difference.

The reconciliations of a day are numbered. One is written only if it says something else than the one before.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 (columns of the log)
from dataclasses import dataclass, replace
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from lakehouse import locations
from lakehouse.ledger.log_table import LogTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehouse.settings import Settings


_ANY_TIME = datetime.min.replace(tzinfo=timezone.utc)


@dataclass(frozen=True)
class Reconciled:
    """A measure of one window and grain, as the stream and as the books say it.

    ``live``, ``books``, ``difference`` and the values of ``causes`` are exact decimal numbers, as text; ``live`` and ``books``
    are None where there is no number. ``window_start`` is None for a whole day. ``is_closed`` is whether the watermark of the
    stream had passed the window. ``query`` and ``batch`` name the state of the stream, ``revision`` that of the books, 0 if
    nothing is published.
    """

    metric: str
    day: date
    number: int
    window_start: datetime | None
    grain: Mapping[str, Any]
    measure: str
    live: str | None
    books: str | None
    difference: str
    causes: Mapping[str, str]
    is_closed: bool
    exceeds: bool
    query: str | None
    batch: int
    revision: int
    reconciled_at: datetime

    @property
    def cell(self) -> tuple[Any, ...]:
        """What it is about, within its day."""
        return (self.window_start, *sorted((name, f"{value}") for name, value in self.grain.items()), self.measure)

    @property
    def gap(self) -> Decimal:
        """The difference as a number."""
        return Decimal(self.difference)

    @property
    def causes_of_gap(self) -> dict[str, Decimal]:
        """The causes as numbers."""
        return {name: Decimal(value) for name, value in self.causes.items()}


def log(settings: Settings) -> LogTable[Reconciled]:
    """The table."""
    return LogTable(Reconciled, settings, locations.reconciliations(settings), partition_by="metric")


def newest(settings: Settings, metric: str, day: date) -> list[Reconciled]:
    """The last reconciliation of a day, by window, grain and measure; empty if there is none."""
    entries = log(settings).read({"metric": [metric], "day": [day]})
    last = max((entry.number for entry in entries), default=0)
    return sorted((entry for entry in entries if entry.number == last), key=_in_order)


def record(settings: Settings, before: Sequence[Reconciled], entries: Sequence[Reconciled]) -> bool:
    """Append a reconciliation of a day, unless it says the same as the one before.

    :param before: the newest one, of :func:`newest`.
    :returns: whether it was written.
    """
    if not entries or [_content(entry) for entry in before] == [_content(entry) for entry in sorted(entries, key=_in_order)]:
        return False
    first, number = entries[0], (before[0].number if before else 0) + 1
    numbered = [replace(entry, number=number) for entry in entries]
    return log(settings).append(numbered, app_id=f"reconciliation:{first.metric}:{first.day}", app_version=number)


def _content(entry: Reconciled) -> Reconciled:
    """An entry without what tells two equal ones apart: the state of a stream that has gone on without touching the day."""
    return replace(entry, number=0, batch=0, reconciled_at=_ANY_TIME, grain=dict(entry.grain), causes=dict(entry.causes))


def _in_order(entry: Reconciled) -> tuple[str, ...]:
    return tuple(map(str, entry.cell))
