"""``ops/stream_gaps``: messages of the sources' topics that were lost before they were read, and who has accepted the loss.

While a gap is open, its partition is not read further, and the source lacks an input (``lateness.missing_inputs``): alerts report
it, and numbers do not become final. The definition of a gap is in ``reading_plan``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from lakehouse import locations
from lakehouse.calendar.days import business_day_of
from lakehouse.lateness import missing_inputs
from lakehouse.ledger.log_table import LogTable
from lakehouse.streams.message_ranges import PartitionLog
from lakehouse.streams.reading_plan import GapKind, OffsetGap

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from datetime import date, datetime

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake


@dataclass(frozen=True)
class GapEntry:
    """A gap that was detected, or that a person has accepted (``by`` and ``reason``); the fields are those of ``OffsetGap``."""

    source: str
    kind: GapKind
    topic: str
    topic_id: str
    resets: int
    partition: int
    begin: int
    resume: int
    text: str
    recorded_at: datetime
    by: str | None = None
    reason: str | None = None

    @property
    def gap(self) -> OffsetGap:
        """The gap."""
        return OffsetGap(self.kind, PartitionLog(self.topic, self.topic_id, self.partition, self.resets), self.begin, self.resume)


def log(lake: Lake) -> LogTable[GapEntry]:
    """The table."""
    return LogTable(GapEntry, lake, locations.stream_gaps(lake), partition_by="source")


def entries(lake: Lake, source: str) -> list[GapEntry]:
    """All entries of a source, oldest first."""
    return sorted(log(lake).read({"source": [source]}), key=_in_time)


def accepted(known: Iterable[GapEntry]) -> list[OffsetGap]:
    """The gaps that people have accepted, among :func:`entries`."""
    return [entry.gap for entry in known if entry.by is not None]


def open_gaps(lake: Lake, source: str) -> list[GapEntry]:
    """The newest entry of each partition's gap that is not accepted and that existed when the topic was last read."""
    return open_among(entries(lake, source))


def open_among(known: Iterable[GapEntry]) -> list[GapEntry]:
    """The open gaps (see :func:`open_gaps`) among :func:`entries`."""
    newest: dict[tuple[str, int], GapEntry] = {}
    for entry in sorted(known, key=_in_time):
        if entry.by is None:
            newest[entry.topic, entry.partition] = entry
        else:
            newest.pop((entry.topic, entry.partition), None)
    return list(newest.values())


def record(lake: Lake, contract: SourceContract, gaps: Collection[OffsetGap], known: Sequence[GapEntry]) -> list[GapEntry]:
    """Record the present gaps, unless they are recorded already.

    :param known: the :func:`entries` of the source.
    :returns: their entries.
    """
    source, now = contract.dataset, lake.now()
    recorded = {entry.gap for entry in open_among(known)}
    new = [_entry(source, gap, now) for gap in gaps if gap not in recorded]
    if new:
        log(lake).append(new)
    present = [entry for entry in open_among([*known, *new]) if entry.gap in gaps]
    _record_missing(lake, contract, present)
    return present


def accept(lake: Lake, contract: SourceContract, by: str, reason: str) -> list[GapEntry]:
    """Accept the open gaps of a source: reading continues after them.

    :returns: the gaps that were accepted.
    """
    source, now = contract.dataset, lake.now()
    done = [_entry(source, entry.gap, now, by, reason) for entry in open_gaps(lake, source)]
    if done:
        log(lake).append(done)
    _record_missing(lake, contract, [])
    return done


def _in_time(entry: GapEntry) -> tuple[datetime, bool]:
    """The sort key of entries; at the same time, acceptances come last."""
    return (entry.recorded_at, entry.by is not None)


def _record_missing(lake: Lake, contract: SourceContract, present: Collection[GapEntry]) -> None:
    zone = ZoneInfo(contract.clocks.timezone)
    by_day: dict[date, list[str]] = {}
    for entry in sorted(present, key=lambda entry: entry.text):
        by_day.setdefault(business_day_of(entry.recorded_at, zone), []).append(entry.text)
    missing_inputs.record(lake, contract.dataset, "stream_gap", {day: "; ".join(texts) for day, texts in by_day.items()})


def _entry(source: str, gap: OffsetGap, now: datetime, by: str | None = None, reason: str | None = None) -> GapEntry:
    of = gap.log
    place = (of.topic, of.topic_id, of.resets, of.partition)
    return GapEntry(source, gap.kind, *place, gap.begin, gap.resume, f"{gap}", now, by, reason)
