"""Reads a landing file into rows of Bronze, as Arrow batches, also only to preview it.

A preview parses the file as Bronze does and writes nothing. Row rules are left out, because they are evaluated by Spark. Which
published numbers the file affects is in ``impact``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.bronze.column_rows import rows_of_blocks
from lakehouse.bronze.csv_columns import can_split, csv_blocks, row_group_parts, section, text_parts
from lakehouse.bronze.file_formats import read_records, unzipped
from lakehouse.bronze.json_columns import json_blocks
from lakehouse.bronze.landing import open_file
from lakehouse.bronze.parquet import ParquetRows, can_read, parquet_blocks, records_of
from lakehouse.bronze.row_parser import RowParser
from lakehouse.delta.columns import arrow_schema, bronze_columns
from lakehouse.dispositions import claims, judged_rows
from lakehouse.late_events import left_out as late_events
from lakehouse.ledger import key_log
from lakehouse.ledger.ids import DeliveredFile
from lakehouse.ledger.row_states import AdmissionStatus, QuarantineReason

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from datetime import date

    from lakehouse.bronze.csv_columns import Block, Part
    from lakehouse.bronze.file_formats import Record
    from lakehouse.bronze.landing import Fingerprint, LandingFile
    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake


#: The bytes of a text file that are read at once, unless a record is longer.
BLOCK_BYTES = 2**21
_BATCH_ROWS = 10_000


def delivery_rows(
    lake: Lake, contract: SourceContract, delivery: DeliveredFile, file_path: str, part: Part | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of one delivery, in file order, as Arrow batches of :func:`bronze_columns`.

    :param file_path: the full path of the landing file.
    :param part: one of :func:`delivery_parts`; the whole file by default.
    :raises FileProblem: when the file as a whole cannot be read; batches may have been yielded before.
    """
    with open_file(lake, contract, file_path, seekable=part is not None) as stream:
        yield from rows_by_columns(contract, delivery, stream, part=part)


def delivery_parts(lake: Lake, contract: SourceContract, file_path: str, size: int) -> Sequence[Part | None]:
    """Parts of a landing file of about ``size`` bytes, which together have all its rows; one None if it must be read whole.

    A text file is read once to count its lines.
    """
    with open_file(lake, contract, file_path, seekable=True) as stream:
        return parts_of(contract, stream, size)


def parts_of(contract: SourceContract, stream: BinaryIO, size: int) -> Sequence[Part | None]:
    """The result of :func:`delivery_parts` for an open file."""
    source = contract.source
    if not can_read_by_columns(contract):  # only a line of JSON is a record for certain
        return (source.format == "json" and not source.array and text_parts(stream, source, size)) or [None]
    if source.format == "parquet":
        rows = ParquetRows(stream)
        return (can_read(rows.schema, contract.columns_read) and row_group_parts(rows.file, size)) or [None]
    return (is_read_by_columns(contract) and text_parts(stream, source, size)) or [None]


def rows_by_columns(
    contract: SourceContract,
    delivery: DeliveredFile,
    stream: BinaryIO,
    block_bytes: int = BLOCK_BYTES,
    part: Part | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of :func:`exact_rows`, read by columns where the result is certain to be the same.

    :param block_bytes: the size of a block of a text file; several blocks are in memory at once.
    :param part: one of :func:`parts_of`; its rows only.
    :raises FileProblem: as :func:`delivery_rows`.
    """
    source, columns = contract.source, contract.columns_read
    blocks: Iterator[Block] | None = None
    if not can_read_by_columns(contract):
        stream, before = (stream, 0) if part is None else (section(stream, part), part.before)
        yield from exact_rows(contract, delivery, stream, before)
        return
    if source.format == "parquet":
        rows = ParquetRows(stream)
        if can_read(rows.schema, columns):
            blocks = parquet_blocks(rows, contract, part)
    elif source.format == "json":
        content, before = (unzipped(stream), 0) if part is None else (section(stream, part), part.before)
        blocks = json_blocks(content, contract, block_bytes, before)
    elif can_split(source) and part and part.begin:
        blocks = csv_blocks(unzipped(stream), source, columns, block_bytes, (partial(section, stream, part), part.before))
    elif can_split(source):
        blocks = csv_blocks(section(stream, part) if part else unzipped(stream), source, columns, block_bytes)
    yield from exact_rows(contract, delivery, stream) if blocks is None else rows_of_blocks(contract, delivery, blocks)


def can_read_by_columns(contract: SourceContract) -> bool:
    """Whether the reader by columns supports the format of the contract's records and changes."""
    order, source = contract.order, contract.source
    return source.is_plain and source.envelope is None and (not order.sequence or order.is_one_number)


def is_read_by_columns(contract: SourceContract) -> bool:
    """Whether files are read by columns, unless one has another form than the contract says."""
    return can_read_by_columns(contract) and (contract.source.format in {"json", "parquet"} or can_split(contract.source))


def exact_rows(contract: SourceContract, delivery: DeliveredFile, stream: BinaryIO, before: int = 0) -> Iterator[pa.RecordBatch]:
    """The rows, each parsed individually.

    :param before: the number of lines in a text file before the stream.
    :raises FileProblem: as :func:`delivery_rows`.
    """
    schema = arrow_schema(bronze_columns(contract))
    if contract.source.format == "parquet":
        records = _parquet_records(ParquetRows(stream))
    else:
        records = read_records(stream, contract.source, contract.columns_read, before)
    rows = RowParser(contract, delivery).rows(records)
    while batch := list(islice(rows, _BATCH_ROWS)):
        yield pa.RecordBatch.from_pylist(batch, schema=schema)


def _parquet_records(file: ParquetRows) -> Iterator[Record]:
    first = 1
    for batch in file.batches():
        yield from records_of(batch, first)
        first += len(batch)


_NO_DAY = "without an event day"
_OF_MALFORMED, _SHOWN = ("line_number", "malformed_reason", "raw_payload"), 3


@dataclass(frozen=True)
class Preview:
    """The rows of a file that may contend for their keys, by event day, and these keys.

    ``out`` counts the other rows, by the reason why they may not contend; ``beyond`` those that the contract holds or drops
    because they come beyond the cutoff, ``behind`` those that come too late to count in a metric with late events. ``event_days``
    are those of all well-formed rows, ``values`` their values by column; ``malformed`` has line number, reason and raw text of
    the first malformed rows.
    """

    rows: dict[date, int]
    keys: pa.Array
    out: dict[str, int]
    values: dict[str, pa.Array] = field(default_factory=dict)
    malformed: list[dict[str, Any]] = field(default_factory=list)
    beyond: int = 0
    behind: int = 0
    event_days: frozenset[date] = frozenset()


def preview_file(
    lake: Lake,
    contract: SourceContract,
    file: LandingFile,
    fingerprint: Fingerprint,
    values_of: Collection[str] = (),
    *,
    admit_history: bool = False,
    metrics: Collection[MetricContract] = (),
) -> Preview:
    """Read a file that has not been ingested, as if it arrived now.

    :param values_of: columns whose values are wanted.
    :param admit_history: whether the rows that come beyond the cutoff are admitted as history.
    :param metrics: those in which rows may come too late to count.
    """
    delivery = DeliveredFile(file.name, fingerprint.ingestion_id, file.arrival_date, lake.now())
    columns = {*judged_rows.columns_to_judge(contract), *values_of, *_OF_MALFORMED, "arrival_ts"}
    schema = arrow_schema(tuple(column for column in bronze_columns(contract) if column[0] in columns))
    batches = delivery_rows(lake, contract, delivery, file.path)
    rows = pa.Table.from_batches((batch.select(schema.names) for batch in batches), schema)
    judged = judged_rows.judged(contract, rows)
    beyond = pc.sum(pc.equal(judged["reason"], QuarantineReason.BEYOND_WATERMARK.value)).as_py() or 0
    if beyond and admit_history:
        judged = judged_rows.judged(contract, rows, pa.array([fingerprint.ingestion_id]))
    admitted = claims.admitted_by_contract(key_log.claims(judged))
    days = claims.rows_by_event_day(admitted)
    malformed = pc.sum(pc.is_valid(rows["malformed_reason"])).as_py() or 0
    out = Counter({"malformed": malformed, _NO_DAY: days.pop(None, 0)})
    standings = pc.value_counts(judged["standing"])
    out.update(dict(zip(standings.field("values").to_pylist(), standings.field("counts").to_pylist())))
    del out[AdmissionStatus.ADMITTED.value]
    by_day = {day: count for day, count in sorted(days.items()) if day is not None}
    well_formed = rows.filter(pc.is_null(rows["malformed_reason"]))
    values = {name: pc.unique(well_formed[name]).drop_null() for name in values_of}
    unread = rows.filter(pc.is_valid(rows["malformed_reason"])).select(_OF_MALFORMED).slice(0, _SHOWN).to_pylist()
    left_out = {reason: count for reason, count in out.items() if count}
    event_days = frozenset(pc.unique(well_formed["event_date"]).drop_null().to_pylist())
    behind = late_events.number_behind(lake, metrics, contract, well_formed)
    return Preview(by_day, pc.unique(admitted["record_key"]), left_out, values, unread, beyond, behind, event_days)
