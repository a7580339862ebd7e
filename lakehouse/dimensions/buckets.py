"""``ops/<dimension>_by_key``: a copy of silver's changes by key, because silver, by event day, cannot be looked up by key.

The copy follows silver's change feed. A row is identified by its record key and event day, as in silver. Tables that are
partitioned into buckets by key are written here: changed rows, or the whole content, with the version of silver that they follow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import Schema, write_deltalake

from lakehouse import locations, pieces
from lakehouse.delta import change_feed, leases, partition_writer, provenance, row_writer
from lakehouse.delta.change_feed import AFTER
from lakehouse.delta.columns import arrow_schema
from lakehouse.delta.data_files import COMPRESSED
from lakehouse.delta.row_writer import in_one_commit
from lakehouse.dimensions import tables
from lakehouse.lake import table_io, table_parts
from lakehouse.spark import commits
from lakehouse.spark.commits import MergeClauses

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from deltalake import DeltaTable

    from lakehouse.contracts.source import SourceContract
    from lakehouse.delta.columns import Columns
    from lakehouse.lake import Lake, Table


#: The column that is True for a row to write, and False for a row to remove.
LIVES = "_lives"
#: The version of silver that a commit completes, in its metadata.
_FOLLOWED = "silver_version"
#: delta-rs holds the rows of the files that a merge reads, about a kilobyte each: see ``silver.local_merge``.
_HELD_ROWS = 2**18


class BucketTable(NamedTuple):
    """A table that is partitioned by bucket.

    :param keys: the columns that identify a row, in addition to the bucket.
    """

    lake: Lake
    table: Table
    columns: Columns
    keys: Sequence[str]
    properties: Mapping[str, str]

    def opened(self) -> DeltaTable:
        """The table at its newest version, with the columns of the contract; created if it does not exist."""
        missing = commits.missing_columns(self.table, self.columns)
        commits.table_of(self.table, self.columns, "bucket", self.properties)
        table = self._snapshot()
        if missing:
            with leases.alone(self.table):
                table.alter.add_columns(Schema.from_arrow(arrow_schema(missing)).fields)
            table = self._snapshot()
        return table

    def merge(self, table: DeltaTable, rows: pa.Table, contract: SourceContract, mark: str, version: int) -> None:
        """Insert, replace and remove rows: in one commit, or, where the buckets hold many rows, in one commit per group of
        buckets.

        The last commit records the version; if the process stops before it, repeating the update writes the rest.

        :param table: as :meth:`opened` returned it before the rows were computed.
        :param rows: the columns of the table and :data:`LIVES`, one row for each identity.
        :raises CommitFailedError: when another writer has changed the same rows since ``table`` was opened.
        """
        why, groups = _why(contract, version), list(self._groups(table, rows))
        names = [name for name, _ in self.columns]
        emptied = [item.name for item in table.schema().fields if item.name not in names]
        for number, (buckets, part) in enumerate(groups, start=1):
            same = " AND ".join(f"t.{name} = s.{name}" for name in ("bucket", *self.keys))
            clauses = MergeClauses(
                on=f"t.bucket IN ({', '.join(map(str, buckets))}) AND {same}",
                delete=f"NOT s.{LIVES}",
                update=f"s.{LIVES}",
                insert=f"s.{LIVES}",
                columns=names,
                emptied=emptied,
            )
            completes = number == len(groups)
            metadata = why if completes else {name: value for name, value in why.items() if name != _FOLLOWED}
            recorded = (mark, version) if completes else None
            table_io.bring(table, {"bucket": buckets})
            commits.merge_rows(table, self.table, part, clauses, metadata, recorded)
        if self._snapshot().transaction_version(mark) != version:  # a merge without effect makes no commit
            partition_writer.commit_without_rows(self._snapshot(), why=why, transaction=(mark, version))

    def replace(self, table: DeltaTable, pieces: Iterable[pa.Table], contract: SourceContract, mark: str, version: int) -> None:
        """Make ``pieces`` the whole content of the table, in one commit.

        :param table: as :meth:`opened` returned it before the rows were computed.
        :param pieces: with the columns of the table; each is written while the next one is computed.
        :raises CommitFailedError: when another writer has committed since ``table`` was opened.
        """
        properties = partition_writer.commit_properties(_why(contract, version), (mark, version))
        more: dict[str, Any] = {"mode": "overwrite", "writer_properties": COMPRESSED}
        if {item.name for item in table.schema().fields} > {name for name, _ in self.columns}:
            more["schema_mode"] = "merge"  # the table has columns that the contract no longer has

        def write(data: Any, _: pa.Schema) -> None:
            write_deltalake(table, data, commit_properties=properties, **more)

        with leases.alone(self.table):
            if not in_one_commit(pieces, write):
                write(arrow_schema(self.columns).empty_table(), arrow_schema(self.columns))

    def _snapshot(self) -> DeltaTable:
        table = self.table.snapshot()
        assert table is not None  # noqa: S101 (it was created)
        return table

    def _groups(self, table: DeltaTable, rows: pa.Table) -> Iterator[tuple[list[int], pa.Table]]:
        """The rows, grouped by buckets: each group has as many buckets as hold few rows together, at least one."""
        held, together, count = table_parts.rows(table), list[int](), 0
        for bucket in sorted(pc.unique(rows["bucket"]).to_pylist()):
            if together and count + held.get(bucket, 0) > _HELD_ROWS:
                yield together, rows.filter(pc.is_in(rows["bucket"], pa.array(together, pa.int32())))
                together, count = [], 0
            together.append(bucket)
            count += held.get(bucket, 0)
        if together:
            yield together, rows.filter(pc.is_in(rows["bucket"], pa.array(together, pa.int32())))


def _why(contract: SourceContract, version: int) -> dict[str, Any]:
    return {"method": "intervals", "followed": contract.dataset, _FOLLOWED: version, **provenance.stamp(contract)}


_ROW = ("record_key", "event_date")


@row_writer.retried_on_conflict
def follow(lake: Lake, contract: SourceContract, silver: DeltaTable) -> None:
    """Update the table to the version at which silver was opened; a table that follows a later version stays as it is.

    Few changed rows cost the files of their buckets; with many, or without a complete feed, all of silver is copied.
    """
    of_changes = _table(lake, contract)
    table, mark, version = of_changes.opened(), tables.mark(contract, silver), silver.version()
    followed = table.transaction_version(mark)
    if followed is not None and followed >= version:
        return
    names = [name for name, _ in tables.changes_of_silver(contract)]
    changed = None if followed is None else _changed_rows(lake, contract, silver, followed + 1, names)
    if changed is not None:
        of_changes.merge(table, changed, contract, mark, version)
        return
    rows = pieces.counted("changes sorted by key", table_io.pieces_of_version(silver, names))
    copied = pieces.mapped(lambda piece: tables.as_changes(contract, tables.by_key(contract, piece)), rows)
    of_changes.replace(table, copied, contract, mark, version)


def followed(lake: Lake, contract: SourceContract, silver: DeltaTable) -> tuple[DeltaTable, int] | None:
    """The table and the version of silver that it follows; None if there is none yet."""
    table = locations.changes_by_key(lake, contract.dataset).snapshot()
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


def _table(lake: Lake, contract: SourceContract) -> BucketTable:
    stored = locations.changes_by_key(lake, contract.dataset)
    return BucketTable(lake, stored, tables.change_columns(contract), _ROW, partition_writer.ALL_STATISTICS)


def _changed_rows(lake: Lake, contract: SourceContract, silver: DeltaTable, first: int, names: list[str]) -> pa.Table | None:
    """The present content in silver of the rows changed since version ``first``; None if there are many, or the feed is gone."""
    columns = [*names, "_change_type", "_commit_version"]
    try:
        feed = change_feed.feed_at_most(silver, first, silver.version(), columns, lake.settings.held_rows)
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
