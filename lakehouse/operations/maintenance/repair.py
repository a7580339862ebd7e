"""Damaged data files of all tables: which tables have some, what is said of them, and their repair from the layer below.

How the rows of a table are made again belongs to its layer. A table that is derived from others as a whole loses its log here:
whoever keeps it derives it again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehouse import lake_tables
from lakehouse.bronze import repair as bronze_repair
from lakehouse.bronze.ingest import Ingest
from lakehouse.calendar.periods import Kind
from lakehouse.delta import damaged_files, table_io
from lakehouse.delta.delta_rs_internals import file_system
from lakehouse.errors import LakehouseError
from lakehouse.gold.reproduction import repair as gold_repair
from lakehouse.silver import repair as silver_repair
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from lakehouse.contracts import Catalog
    from lakehouse.delta.damaged_files import DamagedFile
    from lakehouse.lake_tables import LakeTable
    from lakehouse.settings import Settings

COMMAND = "lakehouse repair"
#: Tables of ``ops`` that are copies of what other tables and their logs say.
_DERIVED = frozenset({"publications", "restatements", "applications"})
_KEYS = "_keys"
_SHOWN = 5


@dataclass(frozen=True)
class DamagedTable:
    """A table and its damaged files."""

    table: LakeTable
    files: Sequence[DamagedFile]

    def __str__(self) -> str:
        first, more = self.files[0], len(self.files) - 1
        what = "is missing" if first.is_missing else "is cut off"
        others = f", and {more:,} more are damaged" if more else ""
        return f"{self.table}: the data file {first.path} {what}{others}. {self.way_out}"

    @property
    def way_out(self) -> str:
        """What to do about it, in a sentence."""
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
        """Whether the table as a whole follows from others."""
        return self.table.layer == "ops" and (self.table.name in _DERIVED or self.table.name.endswith(_KEYS))

    @property
    def _source(self) -> bool:
        return not self.table.name.endswith(("_decisions", "_redactions", "_readings"))


def find(settings: Settings, catalog: Catalog) -> list[DamagedTable]:
    """The tables that have damaged files, in the order in which they are repaired; only names and lengths are looked up."""
    damaged = []
    for table in lake_tables.tables(catalog):
        try:
            files = damaged_files.of(table.path(settings), settings.storage_options)
        except table_io.DamagedLogError:  # whoever reads the table says so
            continue
        if files:
            damaged.append(DamagedTable(table, files))
    return damaged


def repair(settings: Settings, catalog: Catalog, session: Callable[[], SparkSession], run_id: str) -> Iterator[tuple[str, bool]]:
    """Repair all tables, those first that others are made of; gives what was done, or why not, and whether it was.

    A table that cannot be repaired stops no other.
    """
    derived = {entry.table.name for entry in find(settings, catalog) if entry.is_derived and _forget(settings, entry.table)}
    for name, contract in catalog.sources.items():
        yield from _said(f"bronze/{name}", lambda one=contract: _listed(bronze_repair.repair(settings, one, run_id)))
        if f"{name}{_KEYS}" in derived:
            yield from _said(
                f"ops/{name}{_KEYS}", lambda one=contract: Ingest(settings, one, session, run_id).days([]) or "derived again"
            )
        yield from _said(f"silver/{name}", lambda one=contract: _listed(silver_repair.repair(settings, one, session, run_id)))
    numbers = [table.series for table in lake_tables.tables(catalog) if table.series is not None]
    for series in sorted(numbers, key=lambda one: (one.metric.is_derived, one.kind is not Kind.DAY)):
        yield from _said(
            f"gold/{series.name}", lambda one=series: _listed(gold_repair.repair(settings, catalog, one, session, run_id))
        )
    for name in sorted(derived & _DERIVED):
        yield f"ops/{name}: derived again by the next run", True
    for entry in find(settings, catalog):
        yield f"{entry}", False


def _said(table: str, work: Callable[[], object]) -> Iterator[tuple[str, bool]]:
    try:
        done = work()
    except LakehouseError as problem:
        yield f"{table}: {problem}", False
    else:
        if done:
            yield f"{table}: {done}", True


def _listed(days: Sequence[object]) -> str:
    return f"made again: {join_limited([f'{day}' for day in days], _SHOWN, ' days')}" if days else ""


def _forget(settings: Settings, table: LakeTable) -> bool:
    """Delete the log of a derived table: it does not exist any more. Its data files are deleted by maintenance."""
    opened = table_io.open_snapshot(table.path(settings), settings.storage_options)
    if opened is not None:
        file_system(opened).delete_dir("_delta_log")
    return opened is not None
