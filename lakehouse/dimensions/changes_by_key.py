"""``ops/<dimension>_by_key``: a copy of silver's changes by key, because silver, by event day, cannot be looked up by key.

The copy follows silver's change feed. A row is identified by its record key and event day, as in silver.
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
    """Update the table to the version at which silver was opened; a table that follows a later version stays as it is.

    Few changed rows cost the files of their buckets; with many, or without a complete feed, all of silver is copied.
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
    """The table and the version of silver that it follows; None if there is none yet."""
    table = table_io.open_snapshot(locations.changes_by_key(settings, contract.dataset), settings.storage_options)
    version = None if table is None else table.transaction_version(tables.mark(contract, silver))
    return None if table is None or version is None else (table, version)


def read(
    contract: SourceContract, table: DeltaTable, buckets: Collection[int], keys: Collection[str] | pa.Array | None = None
) -> pa.Table:
    """The changes in ``buckets``, with the columns ``tables.change_columns``.

    :param keys: only the changes of these keys.
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
    """The present content in silver of the rows changed since version ``first``; None if there are many, or the feed is gone."""
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
