"""Rules of table maintenance: the readers of a table, the files and log entries kept for them, and partitions worth compacting.

Unused files stay for active readers and writers, and for readers that have yet to follow a table's log or change feed. A metric
that has never followed silver needs no files, because it is computed for all days; the same holds for a metric whose feed is gone
(see ``gold.restatement.pending``), and for a dataset version that is not served. Deleting files and log entries belongs to
``maintain``.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, TypeVar

from lakehouse import locations
from lakehouse.calendar.periods import Kind
from lakehouse.delta import commit_log, layout
from lakehouse.gold.numbers import served_version
from lakehouse.gold.promotion import promotion_log
from lakehouse.gold.publication import restatement_reports
from lakehouse.gold.restatement import derived_inputs
from lakehouse.ledger import applied_inputs, publications
from lakehouse.silver import audit, audit_log

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from deltalake import DeltaTable

    from lakehouse.contracts import Catalog
    from lakehouse.contracts.series import Series
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.locations import LakeTable

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


#: Operations that change no row.
_UNCHANGED = {"OPTIMIZE", "VACUUM START", "VACUUM END"}
_LOOK_BACK = 20


@dataclass(frozen=True)
class ReaderNeeds:
    """The parts of a table that readers have yet to read: the files named by its commits, and the entries of its log."""

    files: list[Need] = field(default_factory=list)
    log: list[Need] = field(default_factory=list)


def needs(lake: Lake, catalog: Catalog, lake_table: LakeTable, table: DeltaTable) -> ReaderNeeds:
    """The parts of a table that its readers have yet to read.

    :raises UnservedVersionError: if the contract of the version that readers see no longer exists.
    """
    followed = _followed_versions(lake, catalog, lake_table)
    lagging = {reader: version for reader, version in followed.items() if 0 <= version < table.version()}
    if not lagging:
        return ReaderNeeds()
    commits = {commit["version"]: commit for commit in commit_log.history(table, min(lagging.values()))}
    result = ReaderNeeds()
    for reader, version in lagging.items():
        if version + 1 not in commits:
            continue  # the log no longer has it: the reader recomputes everything, whatever is kept
        unread = [commits[number] for number in range(version + 1, table.version() + 1)]
        result.log.append(_need(reader, unread[0]))
        changed = next((commit for commit in unread if not _is_unchanged(commit)), None)
        if lake_table.layer == "silver" and changed is not None:  # readers of gold only read its log
            result.files.append(_need(reader, changed))
    return result


def _is_unchanged(commit: Mapping[str, Any]) -> bool:
    """Whether a commit changed no row."""
    return commit.get("operation") in _UNCHANGED or commit_log.commit_metadata(commit) == layout.METHOD


def bring_audit_up_to_date(lake: Lake, catalog: Catalog, contract: SourceContract, table: DeltaTable) -> None:
    """Audit the commits that a stopped run left unaudited, so that the audit no longer needs older files of silver.

    :param contract: the contract of the table; only the main table of a source is audited.
    """
    if contract.silver_table != contract.dataset:
        return
    source, silver_id, version = contract.dataset, commit_log.identity(table), table.version()
    if audit_log.followed(lake, source, silver_id) < version:
        audit.follow(lake, contract, catalog.metrics_of(source))
        # The audit would read the newest versions again if they have no audit rows; this marks them as done.
        audit_log.append(lake, source, silver_id, version, audit_log.SCHEMA.empty_table())


def copy_log(lake: Lake, table: LakeTable) -> None:
    """Copy the commits of published numbers that the ledger does not have yet."""
    if table.series is not None:
        restatement_reports.follow(lake, table.series)
        if table.series.kind is Kind.DAY:
            promotion_log.follow(lake, table.name, table.of(lake))


def is_half_recorded(lake: Lake, source: str, table: DeltaTable) -> bool:
    """Whether silver's newest commit applied inputs that are not recorded yet, which are then recovered from this commit."""
    waiting = applied_inputs.pending(lake, source)
    if not waiting:
        return False
    metadata = (commit_log.commit_metadata(commit) for commit in commit_log.history(table, max(-1, table.version() - _LOOK_BACK)))
    newest = next((entry for entry in metadata if commit_log.DAYS in entry), {})
    ids = set(newest.get("ingestions", ()))
    return any(ids & waiting.get(date.fromisoformat(day), set()) for day in newest.get(commit_log.DAYS, ()))


def _followed_versions(lake: Lake, catalog: Catalog, table: LakeTable) -> dict[str, int]:
    """The version up to which each reader has followed the table."""
    if table.silver_of is not None:
        every = [served_version.daily(lake, catalog, metric) for metric in catalog.metrics_of(table.silver_of.dataset)]
        readers = [series for series in every if table.name in {entry.silver for entry in series.metric.read}]
        return {f"gold/{series.name}": _followed_of(lake, series, table.name) for series in readers}
    if (dimension := table.intervals_of) is not None:
        joining = [served_version.daily(lake, catalog, metric) for metric in catalog.metrics_joining(dimension)]
        return {f"gold/{one.name}": served_version.followed_further(lake, one).get(dimension, -1) for one in joining}
    if table.series is None:
        return {}
    rollups = [rollup for rollup in table.series.rollups if not rollup.metric.is_derived]
    read = {f"gold/{rollup.name}": publications.followed_version(lake, rollup.name) for rollup in rollups}
    return read | _followed_by_derived(lake, catalog, table)


def _followed_of(lake: Lake, series: Series, silver: str) -> int:
    """The version up to which a metric's days have followed ``silver``, one of the silver tables that it reads."""
    if silver == locations.silver_name(series.metric):
        return served_version.followed_version(lake, series)
    return served_version.followed_further(lake, series).get(silver, -1)


def _followed_by_derived(lake: Lake, catalog: Catalog, table: LakeTable) -> dict[str, int]:
    """The version up to which each derived series has followed a table of published numbers, including its own daily table."""
    derived = [metric for metric in catalog.metrics.values() if metric.is_derived]
    dailies = [served_version.daily(lake, catalog, metric) for metric in derived]
    followed = {
        f"gold/{series.name}": derived_inputs.followed_versions(lake, series)
        for daily in dailies
        for series in (daily, *daily.rollups)
    }
    return {reader: versions[f"{table}"] for reader, versions in followed.items() if f"{table}" in versions}


def _need(reader: str, commit: dict[str, object]) -> Need:
    since = datetime.fromtimestamp(float(str(commit["timestamp"])) / 1000, timezone.utc)
    return Need(reader, int(str(commit["version"])), since)
