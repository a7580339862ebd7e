"""The row in force for each record of Bronze: the row of the newest reading that has the record, else Bronze's own row.

This is the only definition; ``frames`` is the same for DataFrames. A source without readings is read as if there were no such
table. Writing readings belongs in ``reparse``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.delta import table_io
from lakehouse.dispositions.readings.table import NUMBER, READING_ID, RECEIVED, ROW_ID, requested
from lakehouse.dispositions.row_groups import positions
from lakehouse.ledger import key_log, rebuild_requests

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from deltalake import DeltaTable

    from lakehouse.delta.table_io import Where
    from lakehouse.ledger.rebuild_requests import RebuildRequest
    from lakehouse.ledger.row_ids import RowId
    from lakehouse.settings import Settings

#: The columns that a reading never changes.
_FIXED = ("arrival_date", "ingestion_id")


@dataclass(frozen=True)
class Readings:
    """The table of readings, and the ids of the readings that count."""

    table: DeltaTable
    ids: list[str]

    def newest(self, where: Where) -> pa.Table:
        """The number of the newest reading of each row that has one: columns ``ROW_ID`` and ``NUMBER``.

        :param where: only its columns that no reading changes are used.
        """
        fixed = {name: values for name, values in where.items() if name in _FIXED}
        rows = table_io.read_version(self.table, [*ROW_ID, NUMBER], {**fixed, READING_ID: self.ids})
        numbers = rows.group_by(list(ROW_ID)).aggregate([(NUMBER, "max")])
        return numbers.rename_columns({f"{NUMBER}_max": NUMBER})

    def whole_files(self, rows_of: Mapping[str, int], where: Where) -> list[str]:
        """The ingestions of which one reading has all rows, so that Bronze need not be read for them.

        :param rows_of: the number of rows of each ingestion in Bronze.
        :param where: only its columns that no reading changes are used.
        """
        fixed = {name: values for name, values in where.items() if name in _FIXED}
        counted: Counter[tuple[str, str]] = Counter()
        for piece in table_io.pieces_of_version(self.table, ["ingestion_id", READING_ID], {**fixed, READING_ID: self.ids}):
            numbers = piece.group_by(["ingestion_id", READING_ID]).aggregate([([], "count_all")])
            for ingestion_id, reading_id, rows in zip(*(numbers[name].to_pylist() for name in numbers.column_names)):
                counted[ingestion_id, reading_id] += rows
        return sorted({ingestion_id for (ingestion_id, _), rows in counted.items() if rows == rows_of.get(ingestion_id)})


def readings_of(settings: Settings, source: str, ids: Collection[str] | None = None) -> Readings | None:
    """The readings of a source that count; None if there are none.

    :param ids: count only readings among these inputs (R10); by default all whose requests are recorded.
    """
    table = table_io.open_table(locations.readings(settings, source), settings.storage_options)
    if table is None:
        return None
    counting = requested(settings, source, ids)
    return Readings(table, counting) if counting else None


def read(
    settings: Settings, source: str, columns: Sequence[str], where: Where | None = None, ids: Collection[str] | None = None
) -> pa.Table | None:
    """The rows in force in the form of ``table_io.read`` of Bronze; ``where`` applies to their values. None without Bronze."""
    path, options = locations.bronze(settings, source), settings.storage_options
    if readings_of(settings, source, ids) is None:
        return table_io.read(path, columns, where, options)
    if table_io.open_table(path, options) is None:
        return None
    return pa.concat_tables(pieces(settings, source, columns, where, ids), promote_options="permissive")


def pieces(
    settings: Settings, source: str, columns: Sequence[str], where: Where | None = None, ids: Collection[str] | None = None
) -> Iterator[pa.Table]:
    """The rows of :func:`read` in pieces, at least one if there is a Bronze table.

    The columns may include ``RECEIVED``, the arrival time of the row in Bronze.
    """
    path, options, readings = locations.bronze(settings, source), settings.storage_options, readings_of(settings, source, ids)
    is_plain = RECEIVED not in columns
    if readings is None and is_plain:
        yield from table_io.pieces(path, columns, where, options)
        return
    names = [name for name in dict.fromkeys([*columns, *ROW_ID, "arrival_ts"]) if name != RECEIVED]
    newest = None if readings is None else readings.newest(where or {})
    for piece in table_io.pieces(path, names, where, options):
        rows = piece if newest is None else piece.filter(pc.is_null(positions(piece, newest)))
        yield (rows if is_plain else rows.append_column(RECEIVED, rows["arrival_ts"])).select(list(columns))
    if readings is None or newest is None or not len(newest):
        return
    wanted = list(dict.fromkeys([*columns, *ROW_ID, NUMBER]))
    for piece in table_io.pieces_of_version(readings.table, wanted, {**(where or {}), READING_ID: readings.ids}):
        is_newest = pc.equal(newest[NUMBER].take(positions(piece, newest)), piece[NUMBER])
        yield piece.filter(is_newest).select(list(columns))


def every_reading(settings: Settings, source: str, columns: Sequence[str], where: Where) -> pa.Table | None:
    """The rows that meet ``where`` in Bronze and in every reading, whether in force or not; None without Bronze."""
    options = settings.storage_options
    tables = [table_io.read(path(settings, source), columns, where, options) for path in (locations.bronze, locations.readings)]
    known = [table for table in tables if table is not None]
    return pa.concat_tables(known, promote_options="permissive") if known else None


def former_keys(settings: Settings, source: str, key: str) -> set[str]:
    """The keys under which earlier readings had rows that now have ``key``, if no row has these keys now.

    Only earlier states of silver show them.
    """
    if readings_of(settings, source) is None:
        return set()
    claimed = key_log.about(settings, source, [*ROW_ID, "arrival_date"], [key])
    if claimed is None or not len(claimed):
        return set()
    where = {name: pc.unique(claimed[name]) for name in _FIXED}
    rows = every_reading(settings, source, [*ROW_ID, "record_key"], where)
    if rows is None:
        return set()
    keys = pc.unique(rows.filter(pc.is_valid(positions(rows, claimed)))["record_key"]).to_pylist()
    return {other for other in keys if other not in {None, key} and not key_log.arrival_days_of(settings, source, [other])}


def requests_of(settings: Settings, source: str, rows: Collection[RowId]) -> dict[RowId, RebuildRequest]:
    """The request of the reading in force for each of ``rows``; rows that are as Bronze has them are left out."""
    readings = readings_of(settings, source)
    if readings is None or not rows:
        return {}
    where = {"ingestion_id": {ingestion_id for ingestion_id, _ in rows}, READING_ID: readings.ids}
    listed = table_io.read_version(readings.table, [*ROW_ID, NUMBER, READING_ID], where).sort_by(NUMBER).to_pylist()
    entries = {entry.operation_id: entry for entry in rebuild_requests.all_of(settings, source)}
    newest = {(row["ingestion_id"], row["line_number"]): entries[row[READING_ID]] for row in listed}  # the last one stays
    return {row: newest[row] for row in rows if row in newest}
