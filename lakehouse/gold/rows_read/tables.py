"""The silver tables that the numbers of a metric are computed from: whether they are built, their versions, and their row counts.

Only logs are read, and no Spark is needed. The rows belong to ``now`` and ``of_then``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse import locations
from lakehouse.delta import table_io
from lakehouse.errors import LakehouseError
from lakehouse.ledger import applied_inputs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from deltalake import DeltaTable

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.several_sources.metric_source import MetricSource
    from lakehouse.settings import Settings


class UnbuiltTableError(LakehouseError):
    """The silver table that a metric reads has yet to be built. The message names it and what to do."""


def require_rows(settings: Settings, metric: MetricContract) -> None:
    """Check that the silver tables that a metric reads have been built.

    :raises UnbuiltTableError: if one has not: an earlier release has only written the main table of the source.
    """
    for entry in metric.read:
        if is_unbuilt(settings, entry):
            msg = (
                f"silver/{entry.silver} has not been built yet, and gold/{metric.name} reads it: materialize a day of "
                f"silver/{entry.source}, which builds it from Bronze, or set 'rows: all' to count every row of a key as before"
            )
            raise UnbuiltTableError(msg)


def is_unbuilt(settings: Settings, entry: MetricSource) -> bool:
    """Whether the silver table that is read of a source has yet to be built, although the source has rows."""
    return entry.rows == "newest" and applied_inputs.lacks_newest(settings, entry.source)


def versions_read(settings: Settings, metric: MetricContract) -> dict[str, int]:
    """The version of each table that the numbers of a metric are computed from: of Silver, and of its dimensions."""
    paths = locations.every_silver_read(settings, metric)
    for dimension in metric.dimensions:
        paths |= {dimension: locations.silver(settings, dimension)}
        paths |= {f"{dimension}_intervals": locations.intervals(settings, dimension)}
    return {name: table_io.version(path, settings.storage_options) for name, path in paths.items()}


def changed_since(settings: Settings, metric: MetricContract, versions: Mapping[str, int]) -> str | None:
    """The first of these tables whose version differs from ``versions``; None if none does."""
    now = versions_read(settings, metric)
    return next((name for name, version in versions.items() if now[name] != version), None)


def tables_read(settings: Settings, metric: MetricContract) -> list[tuple[MetricSource, DeltaTable | None]]:
    """The silver tables of a metric's sources, in their order; None for one that does not exist."""
    options = settings.storage_options
    return [(entry, table_io.open_table(locations.silver_read_of(settings, entry), options)) for entry in metric.read]


def rows_at_most(settings: Settings, metric: MetricContract, where: table_io.Where) -> int:
    """An upper bound of the rows that the silver tables of a metric hold together."""
    return sum(table_io.rows_at_most(table, where) for _, table in tables_read(settings, metric) if table is not None)
