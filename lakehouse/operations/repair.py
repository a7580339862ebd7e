"""Repairs damaged data files of all tables, each from the layer below.

Recomputing the rows of a table belongs to its layer. A fully derived table loses its log here; its owning module derives it
again.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lakehouse import lake_tables
from lakehouse.bronze import repair as bronze_repair
from lakehouse.bronze.ingest import Ingest
from lakehouse.calendar.periods import Kind
from lakehouse.dispositions import account_tables
from lakehouse.errors import LakehouseError
from lakehouse.gold.reproduction import repair as gold_repair
from lakehouse.lake.delta_rs_internals import file_system
from lakehouse.operations.maintenance.damaged_tables import DERIVED, KEYS, find
from lakehouse.silver import repair as silver_repair
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import SparkSession

    from lakehouse.contracts import Catalog
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.lake_tables import LakeTable

_SHOWN = 5


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
    numbers = [table.series for table in lake_tables.tables(catalog) if table.series is not None]
    for series in sorted(numbers, key=lambda series: (series.metric.is_derived, series.kind is not Kind.DAY)):
        yield from _said(f"gold/{series.name}", partial(gold_repair.repair, lake, catalog, series, session, run_id))
    for name in sorted(derived & DERIVED):
        yield f"ops/{name}: derived again by the next run", True
    for entry in find(lake, catalog):
        yield f"{entry}", False


def _said(table: str, work: Callable[[], Sequence[object]]) -> Iterator[tuple[str, bool]]:
    try:
        done = [f"{day}" for day in work()]
    except LakehouseError as problem:
        yield f"{table}: {problem}", False
    else:
        if done:
            yield f"{table}: made again: {join_limited(done, _SHOWN, ' days')}", True


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
