"""``bronze/<source>_readings``: rows whose raw records were parsed again, under a later contract, with another result.

The row in force for a record of Bronze is the row of the newest reading that has the record, else Bronze's own row.

The empty fields of a partial correction are filled from the record that it corrects, in Arrow. Only a source with
``changes.corrections: partial`` has them. A field of a record has the value that the record gives; where a correction gives none,
that of the record before it in the total order of its key (R2). A record that is no correction, or that follows a delete, begins
the values of its key again. A correction that names a field (``changes.corrected_field``) and leaves it empty empties it. Right
for any set of rows that is complete for the keys it holds; ``row_frames.completed`` is the same for DataFrames.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.delta.columns import ORDER, bronze_columns
from lakehouse.dispositions.winners import groups, numpy_of, positions, sortable
from lakehouse.lake import table_io
from lakehouse.ledger import key_log, rebuild_requests

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from deltalake import DeltaTable
    from numpy.typing import NDArray

    from lakehouse.contracts.source import FieldSpec, SourceContract
    from lakehouse.delta.columns import Columns
    from lakehouse.lake import Lake
    from lakehouse.lake.table_io import Where
    from lakehouse.ledger.ids import RowId
    from lakehouse.ledger.rebuild_requests import RebuildRequest


#: The columns that identify a row.
ROW_ID = ("ingestion_id", "line_number")
#: No field of a contract begins with an underscore.
READING_ID, NUMBER = "_reading_id", "_reading_number"
#: The arrival time of the row in Bronze: records without an arrival time of their own keep it. NULL for a malformed row.
RECEIVED = "_received_at"


def columns(contract: SourceContract) -> Columns:
    """The columns of Bronze and those of the reading: later readings have greater numbers."""
    return (*bronze_columns(contract), (RECEIVED, "timestamp"), (READING_ID, "string"), (NUMBER, "bigint"))


def requested(lake: Lake, source: str, ids: Collection[str] | None = None) -> list[str]:
    """The readings whose rebuild requests are recorded.

    :param ids: only readings among these inputs.
    """
    entries = rebuild_requests.all_of(lake, source)
    known = [entry.operation_id for entry in entries if entry.operation == rebuild_requests.REPARSE]
    return [reading_id for reading_id in known if ids is None or reading_id in ids]


def next_number(lake: Lake, source: str) -> int:
    """The number of the next reading."""
    numbers = locations.readings(lake, source).distinct([NUMBER], None)
    return 1 + ((pc.max(numbers[NUMBER]).as_py() or 0) if numbers is not None else 0)


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


def readings_of(lake: Lake, source: str, ids: Collection[str] | None = None) -> Readings | None:
    """The readings of a source that count; None if there are none.

    :param ids: count only readings among these inputs (R10); by default all whose requests are recorded.
    """
    table = locations.readings(lake, source).open()
    if table is None:
        return None
    counting = requested(lake, source, ids)
    return Readings(table, counting) if counting else None


def read(
    lake: Lake, source: str, columns: Sequence[str], where: Where | None = None, ids: Collection[str] | None = None
) -> pa.Table | None:
    """The rows in force in the form of ``Table.read`` of Bronze; ``where`` applies to their values. None without Bronze."""
    stored = locations.bronze(lake, source)
    if readings_of(lake, source, ids) is None:
        return stored.read(columns, where)
    if stored.open() is None:
        return None
    return pa.concat_tables(pieces(lake, source, columns, where, ids), promote_options="permissive")


def pieces(
    lake: Lake, source: str, columns: Sequence[str], where: Where | None = None, ids: Collection[str] | None = None
) -> Iterator[pa.Table]:
    """The rows of :func:`read` in pieces, at least one if there is a Bronze table.

    The columns may include ``RECEIVED``, the arrival time of the row in Bronze.
    """
    table, readings = locations.bronze(lake, source), readings_of(lake, source, ids)
    is_plain = RECEIVED not in columns
    if readings is None and is_plain:
        yield from table.pieces(columns, where)
        return
    more = [*ROW_ID, "arrival_ts", *([] if is_plain else ["malformed_reason"])]
    names = [name for name in dict.fromkeys([*columns, *more]) if name != RECEIVED]
    newest = None if readings is None else readings.newest(where or {})
    for piece in table.pieces(names, where):
        rows = piece if newest is None else piece.filter(pc.is_null(positions(piece, newest)))
        if not is_plain:
            received = pc.if_else(pc.is_null(rows["malformed_reason"]), rows["arrival_ts"], None)
            rows = rows.append_column(RECEIVED, received)
        yield rows.select(list(columns))
    if readings is None or newest is None or not len(newest):
        return
    wanted = list(dict.fromkeys([*columns, *ROW_ID, NUMBER]))
    for piece in table_io.pieces_of_version(readings.table, wanted, {**(where or {}), READING_ID: readings.ids}):
        is_newest = pc.equal(newest[NUMBER].take(positions(piece, newest)), piece[NUMBER])
        yield piece.filter(is_newest).select(list(columns))


def every_reading(lake: Lake, source: str, columns: Sequence[str], where: Where) -> pa.Table | None:
    """The rows that meet ``where`` in Bronze and in every reading, whether in force or not; None without Bronze."""
    tables = [path(lake, source).read(columns, where) for path in (locations.bronze, locations.readings)]
    known = [table for table in tables if table is not None]
    return pa.concat_tables(known, promote_options="permissive") if known else None


def former_keys(lake: Lake, source: str, key: str) -> set[str]:
    """The keys under which earlier readings had rows that now have ``key``, if no row has these keys now.

    Only earlier states of silver show them.
    """
    if readings_of(lake, source) is None:
        return set()
    claimed = key_log.about(lake, source, [*ROW_ID, "arrival_date"], [key])
    if claimed is None or not len(claimed):
        return set()
    where = {name: pc.unique(claimed[name]) for name in _FIXED}
    rows = every_reading(lake, source, [*ROW_ID, "record_key"], where)
    if rows is None:
        return set()
    keys = pc.unique(rows.filter(pc.is_valid(positions(rows, claimed)))["record_key"]).to_pylist()
    return {other for other in keys if other not in {None, key} and not key_log.arrival_days_of(lake, source, [other])}


def requests_of(lake: Lake, source: str, rows: Collection[RowId]) -> dict[RowId, RebuildRequest]:
    """The request of the reading in force for each of ``rows``; rows that are as Bronze has them are left out."""
    readings = readings_of(lake, source)
    if readings is None or not rows:
        return {}
    where = {"ingestion_id": {ingestion_id for ingestion_id, _ in rows}, READING_ID: readings.ids}
    listed = table_io.read_version(readings.table, [*ROW_ID, NUMBER, READING_ID], where).sort_by(NUMBER).to_pylist()
    entries = {entry.operation_id: entry for entry in rebuild_requests.all_of(lake, source)}
    newest = {(row["ingestion_id"], row["line_number"]): entries[row[READING_ID]] for row in listed}  # the last one stays
    return {row: newest[row] for row in rows if row in newest}


#: What stands between the names of several fields.
SEPARATORS = r"[\s,;|]+"
_SEPARATORS = re.compile(SEPARATORS)


def fields(contract: SourceContract) -> list[FieldSpec]:
    """The fields that a correction may leave empty: all but the key."""
    return [spec for spec in contract.typed_fields if spec.name not in contract.primary_key]


def names_of(spec: FieldSpec) -> set[str]:
    """The names by which a correction may name a field: that of the contract, and that of the file."""
    return {spec.name.lower(), spec.in_file.lower()}


def named(contract: SourceContract, text: str | None) -> set[str]:
    """The fields that a correction names; words that are no fields are left out."""
    words = {word.lower() for word in _SEPARATORS.split(text or "")} | {(text or "").strip().lower()}
    return {spec.name for spec in contract.model.fields if words & names_of(spec)}


def completed(contract: SourceContract, claims: pa.Table, rows: pa.Table) -> pa.Table:
    """Rows with the empty fields of corrections filled, in the order of their keys.

    :param claims: the claims that rows make about their own keys, in the order of their deliveries (see ``deliveries.ordered``);
        rows that make none of them are left out.
    :param rows: with silver's columns; all records of their keys that count.
    """
    place = positions(rows, claims)
    rows, claims = rows.filter(pc.is_valid(place)), claims.take(place.drop_null())
    key = groups(rows["record_key"])
    in_order = np.lexsort((*(sortable(claims[name]) for name in reversed(ORDER)), key))
    rows, key = rows.take(pa.array(in_order)), key[in_order]
    count = np.arange(len(rows))
    begins = np.diff(key, prepend=-1) != 0
    begins |= ~numpy_of(pc.fill_null(rows["is_correction"], False))
    begins[1:] |= numpy_of(pc.equal(rows["change_op"], "delete"))[:-1]  # a delete may have values; they are not carried on
    texts = rows["corrected_field"].dictionary_encode().combine_chunks()
    known = [named(contract, text) for text in texts.dictionary.to_pylist()]
    for spec in fields(contract):
        emptied = _are_among(texts.indices, [number for number, of_text in enumerate(known) if spec.name in of_text])
        gives = begins | emptied | numpy_of(pc.is_valid(rows[spec.name]))
        source = np.maximum.accumulate(np.where(gives, count, 0)) if len(count) else count
        column = rows.column_names.index(spec.name)
        rows = rows.set_column(column, rows.schema.field(spec.name), rows[spec.name].take(pa.array(source)))
    return rows


def _are_among(indices: pa.Array, numbers: list[int]) -> NDArray[np.bool_]:
    among: NDArray[np.bool_] = numpy_of(pc.fill_null(pc.is_in(indices, value_set=pa.array(numbers, indices.type)), False))
    return among
