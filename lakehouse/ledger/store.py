"""Reading and appending Delta tables through delta-rs. Other modules say what is in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, TableNotFoundError
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow.dataset as ds


def open_table(path: str, options: Mapping[str, str] | None = None) -> DeltaTable | None:
    """The table at its newest version, or None where there is none."""
    try:
        return DeltaTable(path, storage_options=dict(options or {}))
    except TableNotFoundError:
        return None


def read(
    path: str,
    columns: Sequence[str] | None = None,
    where: ds.Expression | None = None,
    options: Mapping[str, str] | None = None,
) -> pa.Table | None:
    """The rows that meet ``where``; files are pruned by partition and statistics. None where there is no table."""
    table = open_table(path, options)
    return None if table is None else read_version(table, columns, where)


def read_version(table: DeltaTable, columns: Sequence[str] | None = None, where: ds.Expression | None = None) -> pa.Table:
    """As :func:`read`, of a table that is open already."""
    return table.to_pyarrow_dataset().to_table(columns=None if columns is None else list(columns), filter=where)


@retry(
    retry=retry_if_exception_type(CommitFailedError),
    stop=stop_after_attempt(8),
    wait=wait_random_exponential(multiplier=0.05, max=2),
    reraise=True,
)
def append(
    path: str,
    rows: pa.Table,
    *,
    options: Mapping[str, str] | None = None,
    partition_by: Sequence[str] | None = None,
    app_id: str | None = None,
) -> bool:
    """Append rows in one commit.

    :param app_id: makes the append idempotent: where this id has been committed before, nothing is written.
    :returns: whether rows were written.
    :raises CommitFailedError: when other writers win eight times in a row.
    """
    properties = None
    if app_id is not None:
        table = open_table(path, options)
        if table is not None and table.transaction_version(app_id) is not None:
            return False
        properties = CommitProperties(app_transactions=[Transaction(app_id, 1)])
    arguments: dict[str, Any] = {"storage_options": dict(options or {}), "mode": "append", "commit_properties": properties}
    if partition_by:
        arguments["partition_by"] = list(partition_by)
    write_deltalake(path, rows, **arguments)
    return True
