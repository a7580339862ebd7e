"""``ops/<dimension>_by_key``: the changes that silver holds, laid out by key, because silver by event day cannot be looked up so.

The table is a copy that follows silver's change feed. A row is identified by its record key and event day, as in silver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations, pieces
from lakehouse.delta import change_feed, partition_writer, row_writer, table_io
from lakehouse.delta.change_feed import AFTER
from lakehouse.dimensions import tables
from lakehouse.dimensions.bucket_tables import LIVES, BucketTable

if TYPE_CHECKING:
    from collections.abc import Collection

    from deltalake import DeltaTable

    from lakehouse.contracts.source import SourceContract
    from lakehouse.settings import Settings

_ROW = ("record_key", "event_date")


@row_writer.retried_on_conflict
def follow(settings: Settings, contract: SourceContract, silver: DeltaTable) -> None:
    """Bring the table up to the version at which silver was opened; a table that has followed a later one stays as it is.

    Few changed rows cost the files of their buckets; many, or a feed that is gone, are a reason to copy all of silver.
    """
    of_changes = _table(settings, contract)
    table, mark, version = of_changes.opened(), tables.mark(contract, silver), silver.version()
    followed = table.transaction_version(mark)
    if followed is not None and followed >= version:
        return
    names = [name for name, _ in tables.changes_of_silver(contract)]
    changed = None if followed is None else _changed_rows(settings, contract, silver, followed + 1, names)
    if changed is not None:
        of_changes.merge(table, changed, contract, mark, version)
        return
    rows = pieces.counted("changes sorted by key", table_io.pieces_of_version(silver, names))
    copied = pieces.mapped(lambda piece: tables.as_changes(contract, tables.by_key(contract, piece)), rows)
    of_changes.replace(table, copied, contract, mark, version)


def followed(settings: Settings, contract: SourceContract, silver: DeltaTable) -> tuple[DeltaTable, int] | None:
    """The table and the version of silver that it has followed; None if it has followed none."""
    table = table_io.open_snapshot(locations.changes_by_key(settings, contract.dataset), settings.storage_options)
    version = None if table is None else table.transaction_version(tables.mark(contract, silver))
    return None if table is None or version is None else (table, version)


def read(
    contract: SourceContract, table: DeltaTable, buckets: Collection[int], keys: Collection[str] | pa.Array | None = None
) -> pa.Table:
    """The changes of some buckets, ``tables.change_columns``.

    :param keys: only those of these keys.
    """
    where = {"bucket": buckets} | ({} if keys is None else {"dimension_key": keys})
    names = [name for name, _ in tables.change_columns(contract)]
    return tables.as_changes(contract, table_io.read_version(table, names, where))


def _table(settings: Settings, contract: SourceContract) -> BucketTable:
    path = locations.changes_by_key(settings, contract.dataset)
    return BucketTable(settings, path, tables.change_columns(contract), _ROW, partition_writer.ALL_STATISTICS)


def _changed_rows(
    settings: Settings, contract: SourceContract, silver: DeltaTable, first: int, names: list[str]
) -> pa.Table | None:
    """What silver holds now of the rows that it has changed since a version; None if they are many, or no longer known."""
    columns = [*names, "_change_type", "_commit_version"]
    try:
        feed = change_feed.feed_at_most(silver, first, silver.version(), columns, settings.local_rows)
    except change_feed.ForgottenFeedError:
        return None
    if feed is None:
        return None
    feed = feed.append_column(LIVES, pc.is_in(feed["_change_type"], pa.array(AFTER)))
    in_order = [(name, "ascending") for name in (*_ROW, "_commit_version", LIVES)]  # in a commit, a row is removed first
    feed = feed.take(pc.sort_indices(feed, in_order)).append_column("_place", pa.array(range(len(feed)), pa.int64()))
    last = feed.group_by(_ROW).aggregate([("_place", "max")])["_place_max"]
    changed = tables.by_key(contract, feed.take(last))
    return tables.as_changes(contract, changed).append_column(LIVES, changed[LIVES])
