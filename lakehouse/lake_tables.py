"""Every table of the lakehouse that the contracts describe; its address is in ``locations``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehouse import locations
from lakehouse.contracts.series import Series

if TYPE_CHECKING:
    from lakehouse.contracts import Catalog
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake, Table

_LAYERS = ("bronze", "silver", "gold", "live", "scores", "ops")
_KEYS = "_keys"
_ACCOUNT = ("_dispositions", "_quarantine")
#: Layer and suffix of the tables that every source has, apart from silver.
_SOURCE_TABLES = (
    *(("bronze", suffix) for suffix in ("", "_decisions", "_admissions", "_redactions", "_readings")),
    ("silver", "_quarantine"),
    *(("ops", suffix) for suffix in (_KEYS, "_dispositions", "_overruled")),
)
#: The tables in ``ops`` that all sources and metrics share.
_SHARED_TABLES = (
    *(
        "ingestions",
        "applications",
        "operations",
        "journal",
        "late_arrival_audit",
        "failed_checks",
        "failed_numbers",
        "restatements",
        "publications",
        "inputs",
        "dropped",
    ),
    *("moves", "contracts", "notices", "alerts", "backfills", "backfill_events", "watermarks", "event_watermarks"),
    *(
        "watermark_keys",
        "missing_inputs",
        "unread_rows",
        "stream_gaps",
        "tokens",
        "snapshots",
        "reverts",
        "corrections",
        "stages",
    ),
    *("audit_notifications", "restatement_reports", "live_batches", "reconciliations", "late_outputs"),
    *("releases", "model_promotions", "backtests", "canaries", "retrainings"),
)


@dataclass(frozen=True)
class LakeTable:
    """A table that the contracts describe, whether it exists yet or not.

    :param silver_of: the contract of the table, for a source's silver tables only.
    :param intervals_of: the dimension, for a table of intervals only.
    :param account_of: the source, for a table of the account of its rows only.
    :param series: the series, for a table of published numbers only.
    :param sorted_by: the column by which maintenance sorts the rows, so that a look-up reads only a part of each file.
    """

    layer: str
    name: str
    silver_of: SourceContract | None = None
    intervals_of: str | None = None
    account_of: str | None = None
    series: Series | None = None
    sorted_by: str | None = None

    def __str__(self) -> str:
        return f"{self.layer}/{self.name}"

    def of(self, lake: Lake) -> Table:
        """The table itself."""
        return lake.table(self.layer, self.name)


def tables(catalog: Catalog) -> list[LakeTable]:
    """Every table that the contracts of a catalog describe, by layer and name; other tables in the folders are not listed."""
    silver = [contract for source in catalog.sources.values() for contract in source.silver_tables]
    listed = [LakeTable("silver", contract.silver_table, silver_of=contract) for contract in silver]
    listed += [
        LakeTable(
            layer,
            f"{source}{suffix}",
            account_of=source if suffix in _ACCOUNT else None,
            sorted_by="record_key" if suffix == _KEYS else None,
        )
        for source in catalog.sources
        for layer, suffix in _SOURCE_TABLES
    ]
    for source, contract in catalog.sources.items():
        if contract.is_dimension:
            listed += [LakeTable("silver", f"{source}_intervals", intervals_of=source, sorted_by="dimension_key")]
            listed += [LakeTable("ops", f"{source}_by_key", sorted_by="dimension_key")]
    for source in {metric.source for metric in catalog.metrics.values() if metric.late_events}:
        listed += [LakeTable("silver", f"{source}_late"), LakeTable("ops", f"{source}_late_deliveries")]
        listed += [LakeTable("bronze", f"{source}_late_decisions")]
    indexes = (index for metric in catalog.metrics.values() for index in metric.fact_indexes)
    indexed = {locations.fact_index_name(silver, on) for silver, on in indexes}
    listed += [LakeTable("ops", name, sorted_by="join_key") for name in indexed]
    for daily in map(Series, catalog.metrics.values()):
        for series in (daily, *daily.rollups):
            listed += [LakeTable("gold", series.name, series=series), LakeTable("gold", f"{series.name}_candidates")]
    listed += [LakeTable("live", metric.name) for metric in catalog.metrics.values() if metric.live]
    listed += [LakeTable("scores", model) for model in catalog.models]
    listed += [LakeTable("ops", name) for name in _SHARED_TABLES]
    return sorted(listed, key=lambda table: (_LAYERS.index(table.layer), table.name))
