"""SQL views for engines that read the tables directly: versions of published numbers, newest rows, intervals, the audit.

Belongs here: the filters that select a version, and the statements in two dialects. Views hold no data: every query reads Delta
tables.
"""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse import locations
from lakehouse.delta.columns import silver_columns
from lakehouse.dimensions.tables import interval_columns
from lakehouse.gold.numbers import served_version
from lakehouse.silver import audit_log

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakehouse.contracts import Catalog
    from lakehouse.contracts.series import Series
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake

#: The filter of each kind of version of a number; see ``docs/reading.md``.
LATEST = "is_latest"
FINAL = "is_latest AND state = 'final'"
VALID = "valid_from <= happened_at AND (valid_to IS NULL OR valid_to > happened_at)"
AS_OF = "published_at <= seen_at AND (superseded_at IS NULL OR superseded_at > seen_at) AND adjustment IS NULL"
_ABOUT = ("state", "revision", "reason", "published_at", "restated_on", "restatement_reason", "version_name")


class Dialect(str, Enum):
    """The engine that runs the statements."""

    duckdb = "duckdb"
    spark = "spark"

    def quoted(self, name: str) -> str:
        """A column name as a quoted identifier."""
        return f'"{name}"' if self is Dialect.duckdb else f"`{name}`"

    def table(self, address: str) -> str:
        """The expression for the rows of a Delta table."""
        if self is Dialect.duckdb:
            return "delta_scan('" + address.replace("'", "''") + "')"
        return "delta.`" + address.replace("`", "``") + "`"

    def function(self, name: str, query: str, moment: str = "seen_at") -> str:
        """A table function with a time parameter."""
        if self is Dialect.duckdb:
            return f"CREATE OR REPLACE MACRO {name}({moment}) AS TABLE {query};"
        return f"CREATE OR REPLACE FUNCTION {name}({moment} TIMESTAMP) RETURNS TABLE RETURN {query};"


#: The statements that a dialect needs before the first view.
PREAMBLE = {Dialect.duckdb: ("INSTALL delta;", "LOAD delta;", "SET TimeZone = 'UTC';"), Dialect.spark: ()}


def statements(lake: Lake, catalog: Catalog, dialect: Dialect) -> list[str]:
    """The statements that create the views of all existing tables.

    Per series ``<series>_latest``, ``<series>_final`` and ``<series>_asof(time)``; for each source under ``append``
    ``<source>_newest``, for all others ``<source>_versioned``; for each dimension ``<source>_current`` and
    ``<source>_valid_at(time)``; and ``late_arrival_audit``.
    """
    created = [*PREAMBLE[dialect]]
    for metric in catalog.metrics.values():
        daily = served_version.daily(lake, catalog, metric)
        for series in (daily, *daily.rollups):
            created += _of_series(lake, series, dialect)
    for contract in catalog.sources.values():
        table = locations.silver_newest(lake, contract.dataset).open()
        if table is not None and contract.reprocess_policy == "append":
            created.append(f"CREATE OR REPLACE VIEW {contract.dataset}_newest AS {newest_rows(lake, contract, dialect)};")
        created += _versioned(lake, contract, dialect)
        if contract.is_dimension:
            created += _of_dimension(lake, contract, dialect)
    return [*created, *_of_audit(lake, dialect)]


def newest_rows(lake: Lake, contract: SourceContract, dialect: Dialect) -> str:
    """The query for the newest row of each key of a source; columns newer than the table are left out."""
    stored = locations.silver_of(lake, contract.silver_tables[-1])
    table = stored.open()
    held = None if table is None else {field.name for field in table.schema().fields}
    names = [name for name, _ in silver_columns(contract) if held is None or name in held]
    return f"SELECT {_listed(names, dialect)} FROM {dialect.table(_address(stored.address))}"  # noqa: S608 (no input)


def _versioned(lake: Lake, contract: SourceContract, dialect: Dialect) -> Iterator[str]:
    """Silver with ``processing_ts``, when its record was ingested, and ``record_version``, the records of its key in Bronze.

    Both follow from Bronze and its ledger, so that silver itself stays a function of Bronze (R2): a rebuild changes neither.
    """
    rows = locations.silver(lake, contract.dataset)
    table = rows.open()
    if table is None or contract.reprocess_policy == "append":
        return
    stored = {field.name for field in table.schema().fields}
    columns = _listed([name for name, _ in silver_columns(contract) if name in stored], dialect)
    silver, bronze, ledger = (
        dialect.table(_address(at.address)) for at in (rows, locations.bronze(lake, contract.dataset), locations.ingestions(lake))
    )
    counted = (
        f"SELECT record_key, count(*) AS record_version FROM {bronze} "  # noqa: S608 (names come from contracts)
        "WHERE malformed_reason IS NULL AND record_key IS NOT NULL GROUP BY record_key"
    )
    ingested = (
        f"SELECT ingestion_id, min(recorded_at) AS processing_ts FROM {ledger} "  # noqa: S608 (names come from contracts)
        f"WHERE source = '{contract.dataset}' AND status = 'ingested' GROUP BY ingestion_id"
    )
    yield (
        f"CREATE OR REPLACE VIEW {contract.dataset}_versioned AS SELECT {columns}, processing_ts, record_version FROM {silver} "  # noqa: S608
        f"LEFT JOIN ({ingested}) USING (ingestion_id) LEFT JOIN ({counted}) USING (record_key);"
    )


def _of_dimension(lake: Lake, contract: SourceContract, dialect: Dialect) -> Iterator[str]:
    """The current intervals, and the intervals valid at a time."""
    table = locations.intervals(lake, contract.dataset)
    if table.open() is None:
        return
    columns = _listed([name for name, _ in interval_columns(contract) if name != "bucket"], dialect)
    rows = f"SELECT {columns} FROM {dialect.table(_address(table.address))}"  # noqa: S608 (no input)
    yield f"CREATE OR REPLACE VIEW {contract.dataset}_current AS {rows} WHERE is_current;"
    yield dialect.function(f"{contract.dataset}_valid_at", f"{rows} WHERE {VALID}", "happened_at")


def _of_audit(lake: Lake, dialect: Dialect) -> Iterator[str]:
    """The audit with the notifications of its rows from ``ops/audit_notifications``."""
    audit, notified = (dialect.table(_address(at(lake).address)) for at in (locations.audit_log, locations.audit_notifications))
    table = locations.audit_log(lake).open()
    if table is None:
        return
    kept = _listed([field.name for field in table.schema().fields if field.name != "notification_sent"], dialect)
    if locations.audit_notifications(lake).open() is None:
        rows = f"SELECT {kept}, notification_sent, nullif(audit_ts, audit_ts) AS notified_at FROM {audit}"  # noqa: S608 (no input)
    else:
        same = ", ".join(audit_log.AUDIT_ROW)
        rows = (
            f"SELECT {kept}, notification_sent OR notified_at IS NOT NULL AS notification_sent, notified_at FROM {audit} "  # noqa: S608
            f"LEFT JOIN (SELECT {same}, notified_at FROM {notified}) USING ({same})"
        )
    yield f"CREATE OR REPLACE VIEW late_arrival_audit AS {rows};"


def _of_series(lake: Lake, series: Series, dialect: Dialect) -> Iterator[str]:
    numbers = locations.gold(lake, series)
    table = numbers.open()
    if table is None:
        return
    stored = {field.name for field in table.schema().fields}
    columns = _listed([name for name in (series.by, "period", *series.content, *_ABOUT) if name in stored], dialect)
    rows = f"SELECT {columns} FROM {dialect.table(_address(numbers.address))}"  # noqa: S608 (names come from contracts)
    yield f"CREATE OR REPLACE VIEW {series.name}_latest AS {rows} WHERE {LATEST};"
    yield f"CREATE OR REPLACE VIEW {series.name}_final AS {rows} WHERE {FINAL};"
    yield dialect.function(f"{series.name}_asof", f"{rows} WHERE {AS_OF}")


def _listed(names: Sequence[str], dialect: Dialect) -> str:
    return ", ".join(dialect.quoted(name) for name in names)


def _address(address: str) -> str:
    """The address of a table, independent of the working directory."""
    return address if "://" in address else f"{Path(address).resolve()}"
