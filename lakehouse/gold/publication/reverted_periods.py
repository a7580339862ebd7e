"""``ops/reverts``: periods that a person has reverted to an earlier revision, and their release.

A reverted period keeps its number, whatever Silver contains, until it is released; then it is computed again. Belongs here: the
log, and which periods it keeps. Reverting a number belongs to ``restatement.revert``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from deltalake.exceptions import CommitFailedError

from lakehouse import locations
from lakehouse.ledger.log_table import LogTable

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import date, datetime

    from lakehouse.lake import Lake

_ATTEMPTS = 20


class RevertEvent(str, Enum):
    """The events of a reverted period; ``followed`` is its first computation after the release."""

    REVERTED = "reverted"
    RELEASED = "released"
    FOLLOWED = "followed"


@dataclass(frozen=True)
class RevertedPeriod:
    """An event of a period; ``version`` is the label to which it was reverted, ``number`` counts the events of a series
    from 1.
    """

    series: str
    period_start: date
    number: int
    event: RevertEvent
    version: str
    by: str
    reason: str
    recorded_at: datetime


def log(lake: Lake) -> LogTable[RevertedPeriod]:
    """The table."""
    return LogTable(RevertedPeriod, lake, locations.reverts(lake), partition_by="series", journaled=True)


def kept(lake: Lake, series: str, starts: Collection[date] | None = None) -> dict[date, RevertedPeriod]:
    """The periods of a series, or those of ``starts``, that keep an earlier number, by their first day."""
    return _standing(lake, series, starts, RevertEvent.REVERTED)


def released(lake: Lake, series: str, starts: Collection[date] | None = None) -> dict[date, RevertedPeriod]:
    """The periods that were released and have not been computed since, by their first day."""
    return _standing(lake, series, starts, RevertEvent.RELEASED)


def keep(lake: Lake, series: str, versions: Mapping[date, str], by: str, reason: str) -> None:
    """Keep periods at a version, such as ``r1``, from now on; periods already kept at it are not recorded again."""
    before = kept(lake, series, versions)
    new = {start: label for start, label in versions.items() if start not in before or before[start].version != label}
    _record(lake, series, RevertEvent.REVERTED, new, by, reason)


def release(lake: Lake, series: str, starts: Collection[date], by: str, reason: str) -> list[date]:
    """Let the numbers of periods follow Silver again; returns those that were kept."""
    before = {start: entry.version for start, entry in kept(lake, series, starts).items()}
    _record(lake, series, RevertEvent.RELEASED, before, by, reason)
    return sorted(before)


def follow(lake: Lake, series: str, computed: Collection[date]) -> None:
    """Record that released periods have been computed."""
    for entry in released(lake, series, computed).values():
        _record(lake, series, RevertEvent.FOLLOWED, {entry.period_start: entry.version}, entry.by, entry.reason)


def _record(lake: Lake, series: str, event: RevertEvent, versions: Mapping[date, str], by: str, reason: str) -> None:
    if not versions:
        return
    for _ in range(_ATTEMPTS):
        last = max((entry.number for entry in log(lake).read({"series": [series]})), default=0)
        entries = [
            RevertedPeriod(series, start, number, event, versions[start], by, reason, lake.now())
            for number, start in enumerate(sorted(versions), last + 1)
        ]
        # Of two writers that read the same last number, the later one writes nothing and reads again.
        if log(lake).append(entries, app_id=f"reverts:{series}", app_version=entries[-1].number):
            return
    msg = f"other commands keep reverting {series}: nothing was recorded, run it again later"
    raise CommitFailedError(msg)


def _standing(lake: Lake, series: str, starts: Collection[date] | None, event: RevertEvent) -> dict[date, RevertedPeriod]:
    entries = sorted(log(lake).read({"series": [series]}), key=lambda entry: entry.number)
    newest = {entry.period_start: entry for entry in entries}
    wanted = None if starts is None else set(starts)
    return {
        start: entry for start, entry in sorted(newest.items()) if entry.event is event and (wanted is None or start in wanted)
    }
