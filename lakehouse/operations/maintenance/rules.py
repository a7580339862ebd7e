"""The rules of table maintenance: the retention of files and log entries, and the partitions worth compacting.

Unused files stay for active readers and writers, and for readers that have yet to follow a table's changes.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

_Partition = TypeVar("_Partition")
_HOUR = timedelta(hours=1)
_INTERVAL = re.compile(r"(?:interval\s+)?(\d+)\s+(second|minute|hour|day|week)s?", re.IGNORECASE)


@dataclass(frozen=True)
class Need:
    """A reader has yet to follow a table from ``version`` on, which was committed at ``since``."""

    who: str
    version: int
    since: datetime

    def __str__(self) -> str:
        return f"{self.who} has yet to follow it from version {self.version} of {self.since:%Y-%m-%d %H:%M} on"


@dataclass(frozen=True)
class Retention:
    """The hours for which unused files stay; None if nothing may be deleted now. ``reason`` explains the duration."""

    hours: int | None
    reason: str | None = None


def retention(now: datetime, minimum: int, needs: Collection[Need], remembered: timedelta) -> Retention:
    """The retention of unused files.

    A change-feed file is slightly older than the commit that names it, so files are kept for ``minimum`` hours before the first
    commit that a reader has yet to follow.

    :param minimum: the hours for which readers and writers may use files that are no longer part of the table.
    :param remembered: the time for which the table records removals of files; afterwards only the file's age is known, which does
        not show who needs it.
    """
    if minimum * _HOUR > remembered:
        hours = math.ceil(remembered / _HOUR)
        return Retention(
            None,
            f"the table records removals of files for {hours} hours only: set its property delta.deletedFileRetentionDuration "
            f"to 'interval {minimum} hours' to keep files that long",
        )
    if not needs:
        return Retention(minimum)
    first = min(needs, key=lambda need: need.since)
    age = max(now - first.since, timedelta(0))
    if age >= remembered:
        return Retention(None, f"{first}: nothing is deleted until it does")
    return Retention(minimum + math.ceil(age / _HOUR) + 1, f"{first}: what changed since stays")


def why_log_stays(now: datetime, kept: timedelta, needs: Collection[Need]) -> str | None:
    """Why log entries older than ``kept`` may not be deleted now; None if they may."""
    held = [need for need in needs if now - need.since >= kept]
    return f"{min(held, key=lambda need: need.since)}: its log stays" if held else None


@dataclass(frozen=True)
class Crowd:
    """The small files of a partition, in number and bytes."""

    files: int
    size: int

    def files_after(self, target: int) -> int:
        """The approximate number of files after compaction."""
        return math.ceil(self.size / target) or 1


def crowded(sizes: Mapping[_Partition, Sequence[int]], target: int, more_than: int) -> dict[_Partition, Crowd]:
    """The partitions with more than ``more_than`` small files; a file is small if it has at most half of the ``target`` size.

    :param sizes: the sizes in bytes of the files of each partition.
    """
    small = {partition: [size for size in own if 2 * size <= target] for partition, own in sizes.items()}
    return {partition: Crowd(len(own), sum(own)) for partition, own in small.items() if len(own) > more_than}


def interval(text: str) -> timedelta:
    """Parse a duration as written in Delta's table properties: ``interval 30 days``.

    :raises ValueError: if the text has another form.
    """
    found = _INTERVAL.fullmatch(text.strip())
    if found is None:
        msg = f"{text!r} is not an interval such as 'interval 30 days'"
        raise ValueError(msg)
    number, unit = found.groups()
    return timedelta(**{f"{unit.lower()}s": int(number)})
