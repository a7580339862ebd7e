"""Detects tables with damaged data files, and words the remedy. The repair is in ``operations.repair``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake.exceptions import DeltaError

from lakehouse import lake_tables
from lakehouse.delta import damaged_files
from lakehouse.gold.publication import lost_numbers
from lakehouse.lake import table_io
from lakehouse.ledger import applied_inputs
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date

    from lakehouse.contracts import Catalog
    from lakehouse.contracts.series import Series
    from lakehouse.delta.damaged_files import DamagedFile
    from lakehouse.lake import Lake
    from lakehouse.lake_tables import LakeTable

COMMAND = "lakehouse admin repair"
#: Tables of ``ops`` that are derived from other tables and their logs.
DERIVED = frozenset({"publications", "restatements", "applications"})
KEYS = "_keys"
_SHOWN = 3
#: The errors of a table that cannot be read.
_UNREADABLE = (OSError, DeltaError, pa.ArrowException, table_io.DamagedLogError)


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
    damaged = []
    for table in lake_tables.tables(catalog):
        try:
            files = damaged_files.of(table.of(lake))
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
        return lost_numbers.of(lake, series)
    except _UNREADABLE:  # the record itself is listed as damaged
        return {}


def _has_lost_commits(lake: Lake, table: LakeTable, source: str) -> bool:
    """Whether a table has lost commits that silver's record names; without a readable record nothing is known."""
    try:
        return applied_inputs.lost_versions(lake, source, table.of(lake)) is not None
    except _UNREADABLE:
        return False
