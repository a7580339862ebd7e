"""Who follows a table through its log and its change feed, and how far they have come; no JVM.

Maintenance keeps what they have yet to read. A metric that never followed needs nothing: it is computed for all days, as
is one whose feed is gone (see ``pending.find_pending``); the same goes for dataset versions that readers do not see.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING

from lakehouse import locations
from lakehouse.calendar.periods import Kind
from lakehouse.contracts.series import Series
from lakehouse.delta import commit_log
from lakehouse.gold.numbers import served_version
from lakehouse.gold.promotion import promotion_log
from lakehouse.ledger import applied_inputs, publications, restatements
from lakehouse.operations.maintenance.rules import Need
from lakehouse.silver import audit, audit_log

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from lakehouse.contracts import Catalog
    from lakehouse.contracts.source import SourceContract
    from lakehouse.locations import LakeTable
    from lakehouse.settings import Settings

#: Commits that say of themselves that they change no row.
_UNCHANGED = {"OPTIMIZE", "VACUUM START", "VACUUM END"}
_LOOK_BACK = 20


@dataclass(frozen=True)
class ReaderNeeds:
    """What somebody has yet to read of a table: files that its commits name, and entries of its log."""

    files: list[Need] = field(default_factory=list)
    log: list[Need] = field(default_factory=list)


def needs(settings: Settings, catalog: Catalog, one: LakeTable, table: DeltaTable) -> ReaderNeeds:
    """What those who follow a table have yet to read.

    :raises UnservedVersionError: where the contract of the version that readers see is gone.
    """
    reached = _reached(settings, catalog, one)
    behind = {who: done for who, done in reached.items() if 0 <= done < table.version()}
    if not behind:
        return ReaderNeeds()
    told = {commit["version"]: commit for commit in commit_log.history(table, min(behind.values()))}
    found = ReaderNeeds()
    for who, done in behind.items():
        if done + 1 not in told:
            continue  # the log has forgotten it: everything is computed anew, whatever stays
        rest = [told[version] for version in range(done + 1, table.version() + 1)]
        found.log.append(_need(who, rest[0]))
        changed = next((commit for commit in rest if commit.get("operation") not in _UNCHANGED), None)
        if one.silver_of is not None and changed is not None:  # of gold, nobody reads more than the log
            found.files.append(_need(who, changed))
    return found


def bring_audit_up_to_date(settings: Settings, catalog: Catalog, contract: SourceContract, table: DeltaTable) -> None:
    """Audit what a run that was stopped left without audit: then the audit needs nothing of silver any more."""
    source, silver_id, version = contract.dataset, f"{table.metadata().id}", table.version()
    if audit_log.followed(settings, source, silver_id) < version:
        audit.follow(settings, contract, catalog.metrics_of(source))
        # It looks again at its newest versions without rows; they are done, and their files may go.
        audit_log.append(settings, source, silver_id, version, audit_log.SCHEMA.empty_table())


def copy_log(settings: Settings, one: LakeTable) -> None:
    """Copy what the log of published numbers tells and no table of the ledger has yet."""
    if one.metric is not None:
        publications.follow(settings, one.name, locations.gold(settings, one))
        if one.kind is Kind.DAY:
            promotion_log.follow(settings, one.name, locations.gold(settings, one))


def is_half_recorded(settings: Settings, source: str, table: DeltaTable) -> bool:
    """Whether silver's newest commit brought something in that is not recorded yet: ``basis`` learns that from this commit."""
    waiting = applied_inputs.pending(settings, source)
    if not waiting:
        return False
    told = (commit_log.why(commit) for commit in commit_log.history(table, max(-1, table.version() - _LOOK_BACK)))
    newest = next((why for why in told if "days" in why), {})
    ids = set(newest.get("ingestions", ()))
    return any(ids & waiting.get(date.fromisoformat(day), set()) for day in newest.get("days", ()))


def _reached(settings: Settings, catalog: Catalog, one: LakeTable) -> dict[str, int]:
    """The version that each follower has come to."""
    if one.silver_of is not None:
        followed = [served_version.daily(settings, catalog, metric) for metric in catalog.metrics_of(one.silver_of.dataset)]
        return {
            f"gold/{series.name}": restatements.followed_version(settings, served_version.follower(series)) for series in followed
        }
    rollups = Series(one.metric, one.kind).rollups if one.metric is not None else []
    return {f"gold/{rollup.name}": restatements.followed_version(settings, rollup.name) for rollup in rollups}


def _need(who: str, commit: dict[str, object]) -> Need:
    since = datetime.fromtimestamp(float(str(commit["timestamp"])) / 1000, timezone.utc)
    return Need(who, int(str(commit["version"])), since)
