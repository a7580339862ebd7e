"""The readers of a table's log and change feed, and the files and log entries that they still need.

Maintenance keeps these. A metric that has never followed silver needs no files, because it is computed for all days; the same
holds for a metric whose feed is gone (see ``gold.restatement.pending``), and for a dataset version that is not served. ``rules``
decides how long files are kept without a reader.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING

from lakehouse import locations
from lakehouse.calendar.periods import Kind
from lakehouse.delta import commit_log, lost_commits
from lakehouse.gold.derived import following
from lakehouse.gold.numbers import served_version
from lakehouse.gold.promotion import promotion_log
from lakehouse.gold.publication import restatement_reports
from lakehouse.ledger import applied_inputs, restatements
from lakehouse.operations.maintenance.rules import Need
from lakehouse.silver import audit, audit_log

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from lakehouse.contracts import Catalog
    from lakehouse.contracts.series import Series
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.lake_tables import LakeTable

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
        changed = next((commit for commit in unread if commit.get("operation") not in _UNCHANGED), None)
        if lake_table.layer == "silver" and changed is not None:  # readers of gold only read its log
            result.files.append(_need(reader, changed))
    return result


def bring_audit_up_to_date(lake: Lake, catalog: Catalog, contract: SourceContract, table: DeltaTable) -> None:
    """Audit the commits that a stopped run left unaudited, so that the audit no longer needs older files of silver.

    :param contract: the contract of the table; only the main table of a source is audited.
    """
    if contract.silver_table != contract.dataset:
        return
    source, silver_id, version = contract.dataset, lost_commits.identity(table), table.version()
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
    newest = next((entry for entry in metadata if "days" in entry), {})
    ids = set(newest.get("ingestions", ()))
    return any(ids & waiting.get(date.fromisoformat(day), set()) for day in newest.get("days", ()))


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
    read = {f"gold/{rollup.name}": restatements.followed_version(lake, rollup.name) for rollup in rollups}
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
        f"gold/{series.name}": following.followed_versions(lake, series)
        for daily in dailies
        for series in (daily, *daily.rollups)
    }
    return {reader: versions[f"{table}"] for reader, versions in followed.items() if f"{table}" in versions}


def _need(reader: str, commit: dict[str, object]) -> Need:
    since = datetime.fromtimestamp(float(str(commit["timestamp"])) / 1000, timezone.utc)
    return Need(reader, int(str(commit["version"])), since)
