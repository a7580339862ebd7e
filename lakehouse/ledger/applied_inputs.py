"""``ops/applications``: which ingestions, decisions, redactions and rebuild requests silver contains, for which event days.

Losing this table loses no information: applying an input again changes nothing, because silver is a function of Bronze.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from lakehouse import locations
from lakehouse.delta import commit_log
from lakehouse.lake import table_io
from lakehouse.lake.table import confirmed
from lakehouse.ledger import decisions, ingestions, rebuild_requests, redactions
from lakehouse.ledger.log_table import LogTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import date, datetime

    from deltalake import DeltaTable

    from lakehouse.lake import Lake, Table
    from lakehouse.ledger.ingestions import Ingestion


@dataclass(frozen=True)
class AppliedInputs:
    """One commit to silver: the event days whose content it updated, and the inputs that it contains for them.

    ``ingestion_ids`` are the ids of ingestions, decisions, redactions and rebuild requests; ``method`` is how silver was written
    (merged, or rebuilt by day). ``silver_commit`` and ``silver_lineage`` show whether silver still holds the commit, see
    ``delta.commit_log``; they are empty in entries of earlier releases. ``followed`` has the same of further tables that are
    derived with silver, by layer and name: version, commit and lineage.
    """

    source: str
    run_id: str
    days: list[date]
    ingestion_ids: list[str]
    method: str
    silver_version: int
    recorded_at: datetime
    silver_commit: str | None = None
    silver_lineage: str | None = None
    followed: Mapping[str, Any] = field(default_factory=dict)

    def of_table(self, name: str | None) -> tuple[int, str | None, str]:
        """Version, commit and lineage of a further table; of silver without a ``name``. The version is -1 if there was none."""
        if name is None:
            return self.silver_version, self.silver_commit, self.silver_lineage or ""
        version, commit, lineage = self.followed.get(name, (-1, "", ""))
        return version, commit, lineage


def log(lake: Lake) -> LogTable[AppliedInputs]:
    """The table."""
    return LogTable(AppliedInputs, lake, locations.applied_inputs(lake), partition_by="source")


def record(
    lake: Lake,
    source: str,
    *,
    run_id: str,
    days: Iterable[date],
    ingestion_ids: Iterable[str],
    method: str,
    derived: Iterable[Table] = (),
) -> None:
    """Record that silver's ``days`` contain these inputs, in its present version.

    :param derived: further tables that contain them.
    """
    silver, now = locations.silver(lake, source).open(), lake.now()
    version = -1 if silver is None else silver.version()
    commit, lineage = commit_log.commit_id(silver), commit_log.lineage(silver)
    tables = {table.name: table.open() for table in derived}
    followed = {name: _held(opened) for name, opened in tables.items() if opened is not None}
    entry = AppliedInputs(source, run_id, sorted(days), sorted(ingestion_ids), method, version, now, commit, lineage, followed)
    log(lake).append([entry])


def _held(table: DeltaTable) -> tuple[int, str, str]:
    return table.version(), commit_log.commit_id(table), commit_log.lineage(table)


def every_input(lake: Lake, source: str) -> frozenset[str]:
    """The ids of all inputs that silver is recorded to contain."""
    of_source = {"source": [source]}

    def read() -> frozenset[str]:
        return frozenset(input_id for entry in log(lake).read(of_source) for input_id in entry.ingestion_ids)

    return log(lake).derived("every input", read, of_source)


def pending(lake: Lake, source: str) -> dict[date, set[str]]:
    """The event days that wait for silver, each with the ids of the inputs that it waits for (see ``ids``)."""
    waiting: dict[date, set[str]] = defaultdict(set)
    for day, entries in pending_entries(lake, source).items():
        waiting[day] |= {entry.input_id for entry in entries}
    for day, ids in pending_manual_inputs(lake, source).items():
        waiting[day] |= ids
    return dict(waiting)


def pending_manual_inputs(lake: Lake, source: str) -> dict[date, set[str]]:
    """The event days that wait for silver because of decisions, redactions or rebuild requests, each with their ids."""
    touched = decisions.touched(lake, source) | redactions.touched(lake, source) | rebuild_requests.touched(lake, source)
    applied = _applied_days(lake, source, _held_silver(lake, source)) if touched else {}
    waiting: dict[date, set[str]] = defaultdict(set)
    for input_id, days in touched.items():
        for day in days.difference(*applied.get(input_id, ())):
            waiting[day].add(input_id)
    return dict(waiting)


def pending_entries(lake: Lake, source: str) -> dict[date, list[Ingestion]]:
    """The event days that wait for silver, each with the files that wait for it (see ``ingestions.inputs``)."""
    lake = lake.cached()
    applied_version = locations.applied_inputs(lake).version()

    held = _held_silver(lake, source)
    applied = _applied_days(lake, source, held)

    def waiting() -> dict[date, list[Ingestion]]:
        by_day: dict[date, list[Ingestion]] = defaultdict(list)
        for input_id, entry in ingestions.inputs(ingestions.all_of(lake, source)).items():
            done = applied.get(input_id, ())
            if len(done) == 1 and done[0].issuperset(entry.touched_days):  # as nearly all of a long history
                continue
            for day in set(entry.touched_days).difference(*done):
                by_day[day].append(entry)
        return dict(by_day)

    return ingestions.log(lake).derived("waiting", waiting, {"source": [source]}, also=(applied_version, held))


def has_any(lake: Lake, source: str) -> bool:
    """Whether any input is recorded as applied."""
    return bool(_applied_days(lake, source, _held_silver(lake, source)))


#: The Delta transaction that marks the table with the newest rows of a source as built, although it has no row.
BUILT_EMPTY = "built_empty"


def lacks_newest(lake: Lake, source: str) -> bool:
    """Whether the table with the newest rows of an ``append`` source has yet to be built: it has no row, and silver has rows.

    It is built in one commit, so that it is never incomplete. If deletions, from a time when the source was under another policy,
    have outdated all rows of silver, the table has no row, and :data:`BUILT_EMPTY` records that it was built.
    """
    newest = locations.silver_newest(lake, source)
    if _has_rows(newest) or not _has_rows(locations.silver(lake, source)):
        return False
    return newest.transaction(BUILT_EMPTY) is None


def _has_rows(table: Table) -> bool:
    opened = table.open()
    return opened is not None and table_io.rows_at_most(opened, {}) > 0


class LostVersions(NamedTuple):
    """The newest recorded version of a table (``followed``), and the newest recorded version that it still holds (``kept``, or
    -1).
    """

    followed: int
    kept: int


def lost_versions(lake: Lake, source: str, derived: Table | None = None) -> LostVersions | None:
    """The recorded versions of silver that it no longer holds; None if it holds all of them.

    The versions are checked from the newest one down: if silver holds a version, it holds all earlier ones.

    :param derived: a further table that is derived with silver, instead of silver.
    """
    return confirmed(lambda: _lost_versions(lake, source, derived))


def _lost_versions(lake: Lake, source: str, derived: Table | None) -> LostVersions | None:
    table = (derived or locations.silver(lake, source)).open()
    lineage, name = commit_log.lineage(table), None if derived is None else derived.name
    of_source = {"source": [source]}

    def recorded() -> dict[int, str | None]:
        entries = (entry.of_table(name) for entry in log(lake).read(of_source))
        return {version: commit for version, commit, of_entry in entries if of_entry == lineage}

    seen = log(lake).derived(f"versions of {name}", recorded, of_source, also=lineage)
    followed, kept = max(seen, default=-1), -1
    for version in sorted(seen, reverse=True):
        if not commit_log.are_lost(table, version, seen[version]):
            kept = version
            break
    return None if followed == kept else LostVersions(followed, kept)


class _Held(NamedTuple):
    """Which commits a silver table holds; ``name`` is None for the main table."""

    name: str | None
    lineage: str
    lost: LostVersions | None

    def holds(self, entry: AppliedInputs) -> bool:
        version, _, lineage = entry.of_table(self.name)
        if lineage == self.lineage:
            return self.lost is None or version <= self.lost.kept
        return commit_log.is_kept(self.lineage, lineage, version)


def _held_silver(lake: Lake, source: str) -> tuple[_Held, ...]:
    """The state of each silver table of a source: inputs are applied if all of them hold their commits.

    The table of newest rows counts if the newest entry names it: else the source is no longer under ``append``.
    """
    newest = max(log(lake).read({"source": [source]}), key=lambda entry: (entry.recorded_at, entry.silver_version), default=None)
    derived: list[Table | None] = [None]
    if newest is not None and locations.silver_newest(lake, source).name in newest.followed:
        derived.append(locations.silver_newest(lake, source))
    return tuple(
        _Held(
            None if table is None else table.name,
            commit_log.lineage((table or locations.silver(lake, source)).open()),
            lost_versions(lake, source, table),
        )
        for table in derived
    )


def _applied_days(lake: Lake, source: str, held: tuple[_Held, ...]) -> dict[str, list[frozenset[date]]]:
    """Per input id the event days for which silver contains the input, commit by commit."""
    of_source = {"source": [source]}

    def read() -> dict[str, list[frozenset[date]]]:
        applied: dict[str, list[frozenset[date]]] = defaultdict(list)
        for commit in log(lake).read(of_source):
            if all(table.holds(commit) for table in held):
                days = frozenset(commit.days)  # shared: a run about many files is about many days
                for input_id in commit.ingestion_ids:
                    applied[input_id].append(days)
        return dict(applied)

    return log(lake).derived("applied days", read, of_source, also=held)
