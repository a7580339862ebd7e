"""Checks for two corrections of one original that both count: records under new ids that name the same record, directly or by a
chain.

A correction ends the record that it names, and lives under an id of its own. If two corrections name one original, the sender's
intention is unknown, and both would count. The check looks for such pairs among the rows that live in silver; the sender or a
person decides which one to withdraw.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.delta import table_io
from lakehouse.ledger import key_log
from lakehouse.quality.check_result import CheckResult
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from datetime import date

    from deltalake import DeltaTable

    from lakehouse.contracts.source import SourceContract
    from lakehouse.settings import Settings

ONE_CORRECTION = "one_correction"
DESCRIPTION = "Of the corrections that name the same original, directly or by a chain, one counts."
_SHOWN = 3
_LIVING = ["event_date", "record_key", "corrects_key"]


class LiveRecord(NamedTuple):
    """A correction that lives: its key and event day."""

    key: str
    day: date


def check(settings: Settings, contract: SourceContract, table: DeltaTable | None, days: Collection[date]) -> list[CheckResult]:
    """One outcome for each event day; none for a source whose records name no others.

    :param table: silver.
    """
    if not contract.changes.corrects_event_id:
        return []
    found = [] if table is None else competing(settings, contract, table, days)
    outcomes = []
    for day in sorted(days):
        here = [group for group in found if any(one.day == day for one in group)]
        why = None
        if here:
            named = join_limited([" and ".join(sorted(one.key for one in group)) for group in here], _SHOWN)
            why = (
                f"{named} correct the same original, and all of them count: have the sender withdraw all but one, or do so "
                f"by 'lakehouse correct {contract.dataset}'; 'quality.severity: {{{ONE_CORRECTION}: warn}}' lets all count"
            )
        outcomes.append(CheckResult(ONE_CORRECTION, day, not here, {"originals": len(here)}, why))
    return outcomes


def competing(settings: Settings, contract: SourceContract, table: DeltaTable, days: Collection[date]) -> list[list[LiveRecord]]:
    """The living corrections that share their original with other living ones, in groups of which one lives on one of
    ``days``.
    """
    living = _corrections(table, {"event_date": list(days)})
    if not len(living):
        return []
    groups = _Groups(zip(living["record_key"].to_pylist(), living["corrects_key"].to_pylist()))
    groups.complete(settings, contract.dataset)
    shared = groups.with_several()
    if not shared:
        return []
    keys = pa.array(sorted(shared), pa.string())
    reach = key_log.days_of(settings, contract.dataset, keys)
    by_group: dict[str, list[LiveRecord]] = defaultdict(list)
    for row in _corrections(table, {"event_date": sorted(reach), "record_key": keys}).to_pylist():
        by_group[groups.of(row["record_key"])].append(LiveRecord(row["record_key"], row["event_date"]))
    wanted = set(days)
    return [each for each in by_group.values() if len(each) > 1 and any(one.day in wanted for one in each)]


def _corrections(table: DeltaTable, where: table_io.Where) -> pa.Table:
    """The living rows that correct a record of another key."""
    rows = table_io.read_version(table, _LIVING, where)
    return rows.filter(pc.fill_null(pc.not_equal(rows["corrects_key"], rows["record_key"]), False))


class _Groups:
    """Keys that corrections connect."""

    def __init__(self, named: Iterable[tuple[str, str]]) -> None:
        """:param named: pairs of a correction and the record that it names."""
        self._above: dict[str, str] = {}
        self._naming: dict[str, set[str]] = defaultdict(set)
        self._connect(named)

    def of(self, key: str) -> str:
        """The group of a key."""
        while self._above.get(key, key) != key:
            key = self._above[key]
        return key

    def with_several(self) -> set[str]:
        """The keys of the groups in which several keys name others."""
        counts: dict[str, int] = defaultdict(int)
        for key in self._naming:
            counts[self.of(key)] += 1
        return {key for key in self._above if counts[self.of(key)] > 1}

    def complete(self, settings: Settings, source: str) -> None:
        """Add all corrections that are connected with the keys, from the key log."""
        seen: set[str] = set()
        while new := self._above.keys() - seen:
            seen |= new
            self._connect(_naming(settings, source, pa.array(sorted(new), pa.string())))

    def _connect(self, named: Iterable[tuple[str, str]]) -> None:
        for key, original in named:
            self._naming[key].add(original)
            for one in (key, original):
                self._above.setdefault(one, one)
            self._above[self.of(key)] = self.of(original)


def _naming(settings: Settings, source: str, keys: pa.Array) -> Iterable[tuple[str, str]]:
    """The corrections by or of ``keys``: the key of each, and the key of the record that it names."""
    row = ["ingestion_id", "line_number"]
    about = key_log.about(settings, source, ["record_key", "kind", "arrival_date", *row], keys)
    if about is None or not len(about):
        return []
    where = {name: pc.unique(about[name]).to_pylist() for name in ("arrival_date", "ingestion_id")}
    log = table_io.read(locations.key_log(settings, source), ["record_key", "kind", *row], where, settings.storage_options)
    if log is None:
        return []
    is_retired = pc.equal(log["kind"], "retire")
    originals = log.filter(is_retired).select(["record_key", *row]).rename_columns(["original", *row])
    by_row = log.filter(pc.invert(is_retired)).select(["record_key", *row]).join(originals, row, join_type="inner")
    met = by_row.filter(pc.or_(pc.is_in(by_row["record_key"], keys), pc.is_in(by_row["original"], keys)))
    return zip(met["record_key"].to_pylist(), met["original"].to_pylist())
