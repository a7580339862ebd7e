"""Detects tables with damaged data files, words the remedy, and repairs the files, each table from the layer below.

Recomputing the rows of a table belongs to its layer. A fully derived table loses its log here; its owning module derives it
again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from lakehouse import locations
from lakehouse.bronze import table as bronze_repair
from lakehouse.bronze.ingest import Ingest
from lakehouse.calendar.periods import Kind
from lakehouse.delta import data_files
from lakehouse.dispositions import account_tables
from lakehouse.errors import LakehouseError
from lakehouse.gold.publication import revisions
from lakehouse.gold.reproduction import repair as gold_repair
from lakehouse.lake import table_io
from lakehouse.lake.delta_rs_internals import file_system
from lakehouse.ledger import applied_inputs
from lakehouse.silver import rebuild as silver_repair
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import date

    from pyspark.sql import SparkSession

    from lakehouse.contracts import Catalog
    from lakehouse.contracts.series import Series
    from lakehouse.contracts.source import SourceContract
    from lakehouse.delta.data_files import DamagedFile
    from lakehouse.lake import Lake
    from lakehouse.locations import LakeTable

COMMAND = "lakehouse admin repair"
#: Tables of ``ops`` that are derived from other tables and their logs.
DERIVED = frozenset({"publications", "restatements", "applications"})
KEYS = "_keys"
_SHOWN = 3


@dataclass(frozen=True)
class DamagedTable:
    """A table and its damaged files; without files, a table of published numbers that has lost versions, or is gone, or a table
    of an account that has lost commits.

    :param lost: the versions of numbers that it has lost; none if the whole table is gone.
    """

    table: LakeTable
    files: Sequence[DamagedFile]
    lost: Sequence[str] = ()

    def __str__(self) -> str:
        if self.lost:
            return f"{self.table} has lost published numbers: {join_limited(self.lost, _SHOWN, ' versions')}. {self.way_out}"
        if not self.files and self.table.account_of is not None:
            return f"{self.table} has lost commits. {self.way_out}"
        if not self.files:
            return f"{self.table}: the table is gone. {self.way_out}"
        first, more = self.files[0], len(self.files) - 1
        what = "is missing" if first.is_missing else "is cut off"
        others = f", and {more:,} more are damaged" if more else ""
        return f"{self.table}: the data file {first.path} {what}{others}. {self.way_out}"

    @property
    def way_out(self) -> str:
        """The remedy as a sentence."""
        if self.table.silver_of is not None:
            return f"'{COMMAND}' makes its days again from bronze."
        if self.table.series is not None:
            return f"'{COMMAND}' makes its numbers again from the inputs that they name."
        if self.table.layer == "bronze" and self._source:
            return f"'{COMMAND}' reads its rows again from landing."
        if self.is_derived:
            return f"'{COMMAND}' derives the table again."
        return "It cannot be derived from other tables: restore this table from a copy."

    @property
    def is_derived(self) -> bool:
        """Whether the whole table can be derived from others."""
        is_shared = self.table.layer == "ops" and (self.table.name in DERIVED or self.table.name.endswith(KEYS))
        return is_shared or self.table.account_of is not None

    @property
    def _source(self) -> bool:
        return not self.table.name.endswith(("_decisions", "_admissions", "_redactions", "_readings"))


def find(lake: Lake, catalog: Catalog) -> list[DamagedTable]:
    """The tables with damaged files, in the order of repair; only names and lengths are checked."""
    damaged, tables = [], [*locations.every_table(catalog)]
    lake.expect(table.of(lake) for table in tables)
    for table in tables:
        try:
            files = data_files.damaged_files(table.of(lake))
        except table_io.DamagedLogError:  # readers of the table report it
            continue
        if files:
            damaged.append(DamagedTable(table, files))
        elif table.series is not None and (lost := _lost_numbers(lake, table.series)):
            is_gone = table.of(lake).open() is None
            names = () if is_gone else sorted(name for of_period in lost.values() for name in of_period)
            damaged.append(DamagedTable(table, files, names))
        elif table.account_of is not None and _has_lost_commits(lake, table, table.account_of):
            damaged.append(DamagedTable(table, files))
    return damaged


def _lost_numbers(lake: Lake, series: Series) -> Mapping[date, Sequence[str]]:
    """The versions that a table of numbers has lost; without readable records nothing is known."""
    try:
        return revisions.lost_numbers(lake, series)
    except table_io.UNREADABLE:  # the record itself is listed as damaged
        return {}


def _has_lost_commits(lake: Lake, table: LakeTable, source: str) -> bool:
    """Whether a table has lost commits that silver's record names; without a readable record nothing is known."""
    try:
        return applied_inputs.lost_versions(lake, source, table.of(lake)) is not None
    except table_io.UNREADABLE:
        return False


_SHOWN_DAYS = 5


def repair(lake: Lake, catalog: Catalog, session: Callable[[], SparkSession], run_id: str) -> Iterator[tuple[str, bool]]:
    """Repair all tables, inputs before derived tables; yields what was done, or why not, and whether it succeeded.

    A table that cannot be repaired does not stop others.
    """
    forgotten = [one.table for one in find(lake, catalog) if one.files and one.is_derived and _forget(lake, one.table)]
    derived = {table.name for table in forgotten}
    for name, contract in catalog.sources.items():
        yield from _said(f"bronze/{name}", partial(bronze_repair.repair, lake, contract, run_id))
        if f"{name}{KEYS}" in derived:
            yield from _said(f"ops/{name}{KEYS}", partial(_derive_claims, Ingest(lake, contract, session, run_id)))
        is_forgotten = any(table.account_of == name for table in forgotten)
        yield from _said(f"silver/{name}_quarantine", partial(_derive_account, lake, contract, is_forgotten=is_forgotten))
        yield from _said(f"silver/{name}", partial(silver_repair.repair, lake, contract, session, run_id))
    numbers = [table.series for table in locations.every_table(catalog) if table.series is not None]
    for series in sorted(numbers, key=lambda series: (series.metric.is_derived, series.kind is not Kind.DAY)):
        yield from _said(f"gold/{series.name}", partial(gold_repair.repair, lake, catalog, series, session, run_id))
    for name in sorted(derived & DERIVED):
        yield f"ops/{name}: derived again by the next run", True
    for entry in find(lake, catalog):
        yield f"{entry}", False


def _said(table: str, work: Callable[[], Sequence[object]]) -> Iterator[tuple[str, bool]]:
    try:
        done = [f"{day}" for day in work()]
    except (LakehouseError, *table_io.UNREADABLE) as problem:
        yield f"{table}: {problem}", False
    else:
        if done:
            yield f"{table}: made again: {join_limited(done, _SHOWN_DAYS, ' days')}", True


def _derive_claims(ingest: Ingest) -> list[str]:
    ingest.days([])  # which restores the rows missing from the key log
    return ["all claims"]


def _derive_account(lake: Lake, contract: SourceContract, *, is_forgotten: bool) -> list[str]:
    restored = account_tables.restore(lake, contract, anyway=is_forgotten)
    return [f"all rows, and those of ops/{contract.dataset}_dispositions"] if restored else []


def _forget(lake: Lake, table: LakeTable) -> bool:
    """Delete the log of a derived table, so that it no longer exists. Maintenance deletes its data files."""
    opened = table.of(lake).snapshot()
    if opened is not None:
        file_system(opened).delete_dir("_delta_log")
    return opened is not None
