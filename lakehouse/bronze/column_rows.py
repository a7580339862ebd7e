"""Turns the records of a block, given as columns of text, into rows of Bronze: the rules of ``row_parser`` for columns.

A record for which a rule is not certain to hold is not explained here: ``row_parser`` parses it again, and gives the reason. The
rows of both ways are joined in file order.
"""

from __future__ import annotations

from datetime import timedelta
from functools import reduce
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.bronze.column_values import Converted, change_keys, convert, everywhere, record_keys, synthetic_keys
from lakehouse.bronze.csv_columns import flags
from lakehouse.bronze.row_parser import NEVER_CHANGED, RowParser
from lakehouse.bronze.type_conversion import SHORTENED_KEY
from lakehouse.delta.columns import MOMENT, arrow_schema, bronze_columns, business_days, starts_of_days

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lakehouse.bronze.csv_columns import Block
    from lakehouse.contracts.source import SourceContract
    from lakehouse.ledger.ids import DeliveredFile


#: Longer than the calendar, and short enough for a duration of Arrow.
_LONGEST = timedelta(days=4_000_000)


class RowBuilder:
    """Builds the rows of one delivery."""

    def __init__(self, contract: SourceContract, delivery: DeliveredFile) -> None:
        self._contract = contract
        self._zone = ZoneInfo(contract.clocks.timezone)
        self._received_at = pa.scalar(delivery.received_at, MOMENT)
        self._latest_arrival = pa.scalar(delivery.latest_arrival_time(contract.clocks.max_ahead, self._zone), MOMENT)
        self._schema = arrow_schema(bronze_columns(contract))
        self._constant = {
            "arrival_date": pa.scalar(delivery.arrival_date, pa.date32()),
            "source_system": pa.scalar(contract.source.system or contract.dataset),
            "source_file": pa.scalar(delivery.path),
            "ingestion_id": pa.scalar(delivery.ingestion_id),
        }
        self._ops = _ops(contract)

    def rows(
        self,
        texts: Mapping[str, pa.StringArray],
        line_numbers: pa.Int64Array,
        raw: pa.StringArray,
        received_at: pa.TimestampArray | None = None,
    ) -> tuple[pa.RecordBatch, pa.BooleanArray]:
        """The rows, and for which of them the parser of single records is certain to give the same result.

        :param texts: the values of the records by the file's column names, for each column that the contract needs; null for
            none and for the contract's words for null.
        :param received_at: the arrival time of each record; by default that of the delivery.
        """
        count = len(line_numbers)
        columns = _Columns(texts, count, self._received_at if received_at is None else received_at)
        change = self._change(columns)
        whole = pc.not_equal(change["change_op"], "delete")
        if self._contract.is_dimension:
            whole = pc.and_not(whole, change["key_ends"])
        is_partial = pc.and_(change["is_correction"], self._contract.has_partial_corrections)
        fields = self._fields(columns, pc.and_not(whole, is_partial))
        clocks = self._clocks_of_change(columns, whole) if self._contract.is_dimension else self._clocks(columns, whole)
        row = {**self._constant, "line_number": line_numbers, "raw_payload": raw, **fields, **clocks, **change}
        key = self._keys(fields, clocks)
        columns.require(key.certain)
        self._leave_markers(columns)
        row["record_key"] = key.values
        arrays = [_filled(row.get(field.name), field.type, count) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema), columns.certain

    def _leave_markers(self, columns: _Columns) -> None:
        """Leave marker records, which need not be complete, to the exact parser."""
        marker, of_marker = self._contract.marker, self._contract.marker_field
        if marker is not None and of_marker is not None:
            values = columns.converted(of_marker.in_file, of_marker.type).values
            columns.require(pc.fill_null(pc.not_equal(values.cast(pa.string()), marker.value), fill_value=True))

    def _keys(self, fields: Mapping[str, pa.Array], clocks: Mapping[str, pa.Array]) -> Converted:
        recipe = self._contract.synthetic_key
        if recipe:
            return synthetic_keys(recipe, fields, clocks["event_ts"], clocks["event_date"])
        values = [fields[name] for name in self._contract.primary_key]
        return change_keys(values, clocks["event_ts"]) if self._contract.is_dimension else record_keys(values)

    def _change(self, columns: _Columns) -> dict[str, Any]:
        changes, count = self._contract.changes, columns.count
        correction = pc.fill_null(columns.typed(changes.is_correction, "boolean"), fill_value=False)
        word = pc.ascii_lower(columns.typed(changes.op, "string"))
        op = pc.if_else(correction, "correct", "insert")
        if changes.op:
            known = pc.index_in(word, value_set=pa.array(list(self._ops), pa.string()))
            columns.require(pc.or_(pc.is_null(word), pc.is_valid(known)))
            op = pc.coalesce(pa.array(list(self._ops.values()), pa.string()).take(known), op)
        ends: dict[str, Any] = {}
        if self._contract.is_dimension:
            ends["key_ends"] = pc.equal(op, "end")
            op = pc.if_else(ends["key_ends"], pc.if_else(correction, "correct", "insert"), op)
        sequence = pa.repeat(pa.scalar(0, pa.int64()), count)
        for item in self._contract.order.sequence:  # one, or none
            is_time = item.type == "time"
            values = self._moments(columns, item.column) if is_time else columns.typed(item.column, "bigint")
            columns.require(pc.is_valid(values))
            if is_time:
                columns.require(pc.fill_null(pc.less_equal(values, self._latest_arrival), fill_value=True))
            sequence = values.cast(pa.int64())
        corrects_key = self._corrected_keys(columns)
        if self._contract.clocks.arrival and not self._contract.order.sequence:
            never_sent = pc.and_(pc.is_null(self._moments(columns, self._contract.clocks.arrival)), pc.is_null(corrects_key))
            is_insert = pc.and_not(pc.equal(op, "insert"), pc.or_(correction, ends.get("key_ends", pa.scalar(False))))
            sequence = pc.if_else(pc.and_(never_sent, is_insert), NEVER_CHANGED, sequence)
        return {
            **ends,
            "change_op": op,
            "is_correction": pc.or_(correction, pc.equal(op, "correct")),
            "corrects_key": corrects_key,
            "source_sequence": sequence,
            "corrected_by": columns.typed(changes.corrected_by, "string"),
            "correction_reason": columns.typed(changes.correction_reason, "string"),
            "corrected_field": columns.typed(changes.corrected_field, "string"),
        }

    def _corrected_keys(self, columns: _Columns) -> pa.StringArray:
        column = self._contract.changes.corrects_event_id
        if not column:
            return pa.nulls(columns.count, pa.string())
        kind = next(field.type for field in self._contract.model.fields if field.name == self._contract.primary_key[0])
        values = columns.typed(column, kind)
        self._require_whole(columns, values)
        return record_keys([values]).values

    @staticmethod
    def _require_whole(columns: _Columns, keys: pa.Array) -> None:
        """Leave records to the exact parser whose key a spreadsheet may have shortened."""
        if pa.types.is_string(keys.type):
            columns.require(pc.fill_null(pc.invert(pc.match_substring_regex(keys, SHORTENED_KEY)), fill_value=True))

    def _fields(self, columns: _Columns, whole: pa.BooleanArray) -> dict[str, pa.Array]:
        """:param whole: whether every required field must have a value; a delete and a partial correction need only their key."""
        fields = {}
        for spec in self._contract.model.fields:
            values = columns.typed(spec.in_file, spec.type)
            if spec.name in self._contract.primary_key:
                columns.require(pc.is_valid(values))
                self._require_whole(columns, values)
            elif spec.required:
                columns.require(pc.or_(pc.is_valid(values), pc.invert(whole)))
            default = self._constant.get(spec.name)  # of a field source_system
            fields[spec.name] = values if default is None else pc.fill_null(values, default)
        return fields

    def _clocks(self, columns: _Columns, whole: pa.BooleanArray) -> dict[str, pa.Array]:
        clocks = self._contract.clocks
        sent_at = self._moments(columns, clocks.arrival)
        columns.require(pc.fill_null(pc.less_equal(sent_at, self._latest_arrival), fill_value=True))
        arrival_ts = pc.coalesce(sent_at, columns.received_at)
        event_ts, event_date, begins = self._event(columns)
        if self._contract.is_dimension:
            event_ts = begins
        columns.require(pc.or_(pc.is_valid(event_date), pc.invert(whole)))
        ahead = pc.subtract(begins, arrival_ts)
        max_ahead = pa.scalar(min(clocks.max_ahead, _LONGEST), pa.duration("us"))
        columns.require(pc.fill_null(pc.less_equal(ahead, max_ahead), fill_value=True))
        first = pa.scalar(self._contract.first_event_day, pa.date32())
        columns.require(pc.fill_null(pc.greater_equal(event_date, first), fill_value=True))
        return {"arrival_ts": arrival_ts, "event_ts": event_ts, "event_date": event_date}

    def _clocks_of_change(self, columns: _Columns, whole: pa.BooleanArray) -> dict[str, pa.Array]:
        """:param whole: whether a change has content; other changes have no end of their own."""
        clocks = self._clocks(columns, everywhere(columns.count))
        of_dimension = self._contract.dimension
        ends_at = self._moments(columns, of_dimension.valid_to, after=of_dimension.valid_to_is_last_day)
        ends_at = pc.if_else(whole, ends_at, None)
        columns.require(pc.fill_null(pc.greater(ends_at, clocks["event_ts"]), fill_value=True))
        return clocks | {"ends_at": ends_at}

    def _moments(self, columns: _Columns, column: str | None, *, after: bool = False) -> pa.TimestampArray:
        """The times of a column; for a day, its start, or the start of the day after it."""
        moments, days = columns.converted(column, "timestamp"), columns.converted(column, "date")
        columns.require(pc.or_(moments.certain, days.certain))
        starts = pc.add(days.values.cast(pa.int32()), pa.scalar(1, pa.int32())).cast(pa.date32()) if after else days.values
        return pc.coalesce(moments.values, starts_of_days(starts, self._zone))

    def _event(self, columns: _Columns) -> tuple[pa.Array, pa.Array, pa.Array]:
        """Event time (null if the value is only a day), event day, and the earliest possible time of the event."""
        column = self._contract.event_column
        moments = columns.converted(column, "timestamp")
        event_date = business_days(moments.values, self._zone)
        if pc.all(moments.certain, min_count=0).as_py():
            return moments.values, event_date, moments.values
        days = columns.converted(column, "date")
        columns.require(pc.or_(moments.certain, days.certain))
        begins = pc.coalesce(moments.values, starts_of_days(days.values, self._zone))
        return moments.values, pc.coalesce(event_date, days.values), begins


class _Columns:
    """The columns of a block, and the records for which every rule so far was certain to hold."""

    def __init__(self, texts: Mapping[str, pa.StringArray], count: int, received_at: pa.Scalar | pa.TimestampArray) -> None:
        self._texts, self.received_at = texts, received_at
        self._converted: dict[tuple[str, str], Converted] = {}
        self._conditions = [everywhere(count)]
        self.count = count

    @property
    def certain(self) -> pa.BooleanArray:
        return reduce(pc.and_, self._conditions)

    def require(self, condition: pa.BooleanArray) -> None:
        self._conditions.append(condition)

    def typed(self, column: str | None, spark_type: str) -> pa.Array:
        """The values of a column, which are required to be certain."""
        converted = self.converted(column, spark_type)
        self.require(converted.certain)
        return converted.values

    def converted(self, column: str | None, spark_type: str) -> Converted:
        """The values of a column; a column without a name holds nulls."""
        if column is None:
            return convert(pa.nulls(self.count, pa.string()), spark_type)
        if (column, spark_type) not in self._converted:
            self._converted[column, spark_type] = convert(self._texts[column], spark_type)
        return self._converted[column, spark_type]


def _ops(contract: SourceContract) -> dict[str, str]:
    """The words for operations; words with surrounding spaces, which the parser would not recognize in a file, are left out."""
    changes = contract.changes
    deleting = {"end": changes.delete_words, "delete": changes.retract_words}
    words = {"insert": changes.insert_words, "correct": changes.correct_words}
    words |= deleting if contract.is_dimension else {"delete": changes.delete_words}
    lowered = {word.lower(): op for op, of_op in words.items() for word in of_op}
    return {word: op for word, op in lowered.items() if word == word.strip()}


def _filled(values: Any, kind: pa.DataType, count: int) -> pa.Array:
    """A column of the batch from a column, a constant, or nothing."""
    if values is None:
        return pa.nulls(count, kind)
    if isinstance(values, pa.Scalar):
        return pa.repeat(values, count)
    return values


def rows_of_blocks(contract: SourceContract, delivery: DeliveredFile, blocks: Iterable[Block]) -> Iterator[pa.RecordBatch]:
    """The rows of each block that has any, as one batch of ``bronze_columns``."""
    schema = arrow_schema(bronze_columns(contract))
    builder, parser = RowBuilder(contract, delivery), RowParser(contract, delivery)
    for block in blocks:
        rows, certain = builder.rows(block.texts, block.line_numbers, block.raw, block.received_at)
        doubtful = np.flatnonzero(~flags(certain))
        records = [*block.exact, *(block.exactly(int(row)) for row in doubtful)]
        if records:
            exact = pa.RecordBatch.from_pylist([parser.row(record) for record in records], schema=schema)
            both = pa.Table.from_batches([rows.filter(certain), exact])
            order = np.argsort(both["line_number"].to_numpy(), kind="stable")
            rows = both.take(pa.array(order)).combine_chunks().to_batches()[0]
        if len(rows):
            yield rows
