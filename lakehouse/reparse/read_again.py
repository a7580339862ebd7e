"""Parses the raw records of a source again, under its present contract, and writes the rows that read differently into a folder.

Nothing in the lake changes: the folder holds the reading until ``apply`` puts it into force, or it is discarded. Few rows are
read in this process, many by tasks of Spark, by the same rule.

Each record is parsed by itself. The records of a file are joined to one text, so that the readers of files can read them: by
columns where the result is certain to be exact. A record that is not read as one record then is read alone. Where Bronze does not
hold the record exactly, because its bytes were no text or its quotes were broken, its row stays as it is. The header of a CSV
file is read from the record of the ingestion, else from the file in landing.
"""

from __future__ import annotations

import io
import json
import uuid
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse import locations, object_store, pieces
from lakehouse.bronze import landing
from lakehouse.bronze.file_formats import CsvReader, Feed, FileProblem, Record, csv_header, json_records
from lakehouse.bronze.reader import rows_by_columns
from lakehouse.bronze.row_parser import RowParser
from lakehouse.contracts.inputs import OF_A_MESSAGE
from lakehouse.delta import layout, provenance
from lakehouse.delta.columns import arrow_schema, bronze_columns, ddl, silver_columns
from lakehouse.dispositions import readings, row_frames
from lakehouse.dispositions.readings import NUMBER, READING_ID, RECEIVED
from lakehouse.errors import LakehouseError
from lakehouse.lake import table_io
from lakehouse.ledger import ingestions, key_log
from lakehouse.ledger.ids import DeliveredFile, InputKind
from lakehouse.object_store import S3
from lakehouse.reparse import changed_claims
from lakehouse.spark import commits as spark_commits
from lakehouse.spark.session import sized_for
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from datetime import date

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.ledger.ingestions import Ingestion


@contextmanager
def temporary(lake: Lake, source: str) -> Iterator[Lake]:
    """A lake whose root is a new folder below that of the deployment; the folder is deleted when the block ends.

    The folder of a process that was killed remains, without effect.
    """
    root = f"{lake.root}/staging/{source}-{uuid.uuid4().hex[:8]}"
    try:
        yield lake.with_settings(root=root)
    finally:
        with suppress(FileNotFoundError):
            _delete(lake, root)


def _delete(lake: Lake, root: str) -> None:
    if object_store.is_s3(root):
        S3.of(lake.storage_options).file_system().delete_dir(root.partition("://")[2])
    elif "://" in root:
        system, path = fs.FileSystem.from_uri(root)
        system.delete_dir(path)
    else:
        fs.LocalFileSystem().delete_dir(root)


_SAMPLED = 10


@dataclass(frozen=True)
class ReadingSummary:
    """The changes that a reading would make.

    ``reading_id`` is the id that its rebuild request will have. ``rows_read`` raw records were parsed; ``rows_otherwise`` of them
    read differently, of which ``malformed_before`` were malformed and ``malformed_after`` are malformed now. ``days`` are the
    event days that silver has to rebuild, ``keys`` the number of keys of the rows before and after. ``samples`` are sample rows,
    before and after, by column.
    """

    reading_id: str
    rows_read: int
    rows_otherwise: int = 0
    malformed_before: int = 0
    malformed_after: int = 0
    days: list[date] = field(default_factory=list)
    keys: int = 0
    samples: list[tuple[dict[str, Any], dict[str, Any]]] = field(default_factory=list)


def read_again(
    lake: Lake,
    contract: SourceContract,
    session: Callable[[], SparkSession],
    first: date | None,
    last: date | None,
    into: Lake,
) -> ReadingSummary:
    """Parse the records of arrival days ``first`` through ``last`` again; write the rows that differ from those in force, and
    their claims.

    The rows are written to the table of readings below ``into``, their judged claims to the key log there; a repeated call
    finishes the work of a stopped one.

    :param first: the first arrival day; None, also for ``last``: no limit.
    :param into: the same lake with a root of its own.
    :raises MissingHeaderError: when the header of a CSV file is no longer known.
    :raises FileProblem: when a file lacks a column of the contract.
    :raises SchemaChangeError: when a column of the contract has another type in Bronze or silver.
    """
    source = contract.dataset
    for layer, columns in ((locations.bronze, bronze_columns(contract)), (locations.silver, silver_columns(contract))):
        spark_commits.missing_columns(layer(lake, source), columns)
    entries = [
        entry
        for entry in ingestions.ingested(ingestions.all_of(lake, source)).values()
        if entry.rows and (first is None or first <= entry.arrival_date) and (last is None or entry.arrival_date <= last)
    ]
    based_on = readings.requested(lake, source)
    named = {"contract": provenance.of_contract(contract), "based_on": based_on, "first": first, "last": last}
    text = json.dumps([source, named, sorted(entry.ingestion_id for entry in entries)], default=str)
    reading_id = InputKind.REBUILD_REQUEST.id_of(text)
    summary = ReadingSummary(reading_id, sum(entry.rows for entry in entries))
    if not entries:
        return summary
    why = {**named, READING_ID: reading_id, "code": provenance.code()}
    arrivals = {entry.arrival_date for entry in entries}
    why |= {"first": first or min(arrivals), "last": last or max(arrivals)}
    _write(lake, contract, session, entries, into, why)
    return _summary(lake, contract, session, into, summary)


def _write(
    lake: Lake,
    contract: SourceContract,
    session: Callable[[], SparkSession],
    entries: Collection[Ingestion],
    into: Lake,
    why: dict[str, Any],
) -> None:
    """Write the rows that read differently, unless the folder already has them."""
    stored, columns = locations.readings(into, contract.dataset), readings.columns(contract)
    table = spark_commits.table_of(stored, columns, *layout.of_bronze(into))
    if table_io.rows_at_most(table, {}):
        return
    files = _files(lake, contract, entries)
    app_id, reading_id = f"readings:{contract.dataset}", why[READING_ID]
    where = {"arrival_date": {entry.arrival_date for entry in entries}, "ingestion_id": set(files)}
    names = [*(name for name, _ in bronze_columns(contract)), RECEIVED]
    if sum(entry.rows for entry in entries) > lake.settings.local_rows:
        with sized_for(session(), lake, many=True):
            frame = _parsed_by_spark(contract, files, row_frames.rows(session(), lake, contract, names, where))
            frame = frame.withColumns({READING_ID: F.lit(reading_id), NUMBER: F.lit(0).cast("bigint")})
            spark_commits.append_alone(frame, stored, app_id, table.version(), why)
        return
    read = readings.pieces(lake, contract.dataset, names, where)

    def differing() -> Iterator[pa.Table]:
        for piece in pieces.counted("records read again", read):
            rows = rows_read_otherwise(contract, files, piece)
            rows = rows.append_column(READING_ID, pa.repeat(reading_id, len(rows)))
            yield rows.append_column(NUMBER, pa.repeat(pa.scalar(0, pa.int64()), len(rows))).cast(arrow_schema(columns))

    spark_commits.append_rows_alone(differing(), stored, app_id, table.version(), why)


def _parsed_by_spark(contract: SourceContract, files: dict[str, RawFile], frame: DataFrame) -> DataFrame:
    def parse(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if len(batch):
                yield from rows_read_otherwise(contract, files, pa.Table.from_batches([batch])).to_batches()

    return frame.mapInArrow(parse, ddl((*bronze_columns(contract), (RECEIVED, "timestamp"))))


def _files(lake: Lake, contract: SourceContract, entries: Collection[Ingestion]) -> dict[str, RawFile]:
    header_of = of_ingestions(lake, contract, entries)
    received = {} if contract.clocks.arrival else _received(lake, contract, [entry for entry in entries if entry.malformed])
    return {
        entry.ingestion_id: RawFile(
            entry.source_file, header_of[entry.ingestion_id], received.get(entry.ingestion_id, entry.recorded_at)
        )
        for entry in entries
    }


def _received(lake: Lake, contract: SourceContract, entries: Collection[Ingestion]) -> dict[str, datetime]:
    """When the files with malformed rows were received: the arrival time of their other rows, if all of these have the same."""
    where = {"arrival_date": {entry.arrival_date for entry in entries}, "ingestion_id": [entry.ingestion_id for entry in entries]}
    columns = ["ingestion_id", "arrival_ts", "malformed_reason"]
    stored = locations.bronze(lake, contract.dataset)
    known = stored.distinct(columns, where) if entries else None
    if known is None:
        return {}
    is_read = pc.and_(pc.is_valid(known["arrival_ts"]), pc.is_null(known["malformed_reason"]))
    times = known.filter(is_read).group_by("ingestion_id")
    ranges = times.aggregate([("arrival_ts", "min"), ("arrival_ts", "max")]).to_pylist()
    return {row["ingestion_id"]: row["arrival_ts_min"] for row in ranges if row["arrival_ts_min"] == row["arrival_ts_max"]}


def _summary(
    lake: Lake,
    contract: SourceContract,
    session: Callable[[], SparkSession],
    into: Lake,
    summary: ReadingSummary,
) -> ReadingSummary:
    """Judge the rows, enter their claims into the folder's key log, and describe the differences."""
    source = contract.dataset
    stored = locations.readings(into, source)
    places = stored.distinct(["ingestion_id", "arrival_date"], None)
    if places is None or not len(places):
        return summary
    where = {name: set(places[name].to_pylist()) for name in ("ingestion_id", "arrival_date")}

    def claims_of() -> Iterator[pa.Table]:
        yield from pieces.mapped(key_log.claims, row_frames.judged_reading(lake, contract, session, into, where))

    key_log.append(into, source, where["ingestion_id"], where["arrival_date"], claims_of)
    changes = changed_claims.changes(lake, into, contract)
    return ReadingSummary(
        summary.reading_id,
        summary.rows_read,
        changes.rows,
        changes.malformed_before,
        changes.malformed_after,
        changes.days,
        changes.keys,
        changed_claims.samples(lake, into, contract, _SAMPLED),
    )


_SHOWN = 5


class MissingHeaderError(LakehouseError):
    """The header of a CSV file is neither recorded nor in landing. The message names the files and the remedies."""


def of_ingestions(lake: Lake, contract: SourceContract, entries: Collection[Ingestion]) -> dict[str, str | None]:
    """The header of each ingestion's file, by ingestion id; None for a format without headers.

    :raises MissingHeaderError: when the header of a file with rows is no longer known.
    """
    if contract.source.format != "csv":
        return {entry.ingestion_id: None for entry in entries}
    headers: dict[str, str | None] = {}
    missing = []
    for entry in entries:
        header = entry.header or landing.header_in_landing(lake, contract, entry.source_file, entry.content_hash)
        headers[entry.ingestion_id] = header
        if header is None and entry.rows:
            missing.append(entry)
    if missing:
        days = sorted({entry.arrival_date for entry in missing})
        files = join_limited([entry.source_file for entry in missing], _SHOWN, " files")
        msg = (
            f"{files}: the header is not known, because an earlier release ingested the file and landing of {contract.dataset} "
            f"no longer has it with this content: put it back, or leave its arrival day out with --start-date and --end-date "
            f"({days[0]} to {days[-1]})"
        )
        raise MissingHeaderError(msg)
    return headers


#: The reasons why a record itself cannot be read, as ``bronze.file_formats`` gives them: of its bytes, and of its quotes.
_NOT_TEXT = r"^(?:not valid UTF-8|holds a NUL|longer than)"
_BROKEN_QUOTES = r"^(?:a quote is opened|not CSV|holds a stray quote)"
_BROKEN = r"^(?:not JSON|a quote is opened|not CSV|holds a stray quote|has [0-9]+ fields)"
#: The beginning of the reason for a message whose bytes Bronze holds as base64, as ``streams.avro`` writes it.
_NOT_DECODED = "^not decoded: "
#: The form in which Bronze writes a byte that is no text.
_ESCAPED_BYTE = r"\\x[0-9a-f]{2}"
#: Longer than the calendar, and short enough for a duration of Arrow.
_LONGEST = timedelta(days=4_000_000)
#: An arrival time that no record has.
_NOBODYS = datetime(9998, 12, 31, 23, 59, 59, 999_999, timezone.utc)


@dataclass(frozen=True)
class RawFile:
    """The facts about an ingestion that its raw records do not contain: the header of its CSV file, and when it was received."""

    name: str
    header: str | None
    received_at: datetime


def rows_read_otherwise(contract: SourceContract, files: Mapping[str, RawFile], in_force: pa.Table) -> pa.Table:
    """The rows whose raw records read differently under ``contract``: columns of Bronze and ``RECEIVED``.

    :param files: by ingestion id.
    :param in_force: rows in force, with the same columns; columns that were added to the contract since may be missing.
    :raises FileProblem: when a file lacks a column of the contract.
    """
    schema = arrow_schema((*bronze_columns(contract), (RECEIVED, "timestamp")))
    rows = table_io.with_columns(in_force, schema.names).cast(schema)
    rows = rows.filter(pc.invert(_is_kept(contract, rows)))
    differing = [schema.empty_table()]
    for ingestion_id, before in table_io.split(rows, "ingestion_id").items() if len(rows) else ():
        after = _read(contract, files[ingestion_id], before)
        for name, _ in OF_A_MESSAGE if contract.source.kafka else ():
            after = after.set_column(after.column_names.index(name), after.schema.field(name), before[name])
        differing.append(after.filter(pa.array(_differs(before, after))))
    return pa.concat_tables(differing)


def _is_kept(contract: SourceContract, rows: pa.Table) -> pa.ChunkedArray:
    """Whether each row stays as it is, because Bronze does not hold its record exactly."""
    reason, raw = pc.fill_null(rows["malformed_reason"], ""), pc.fill_null(rows["raw_payload"], "")
    has_bytes = pc.and_(pc.match_substring_regex(reason, _BROKEN), pc.match_substring_regex(raw, _ESCAPED_BYTE))
    kept = pc.or_(pc.match_substring_regex(reason, _NOT_TEXT), pc.or_(has_bytes, pc.is_null(rows["raw_payload"])))
    if contract.source.kafka:  # also an empty message
        is_base64 = pc.match_substring_regex(reason, _NOT_DECODED)
        kept = pc.or_(kept, pc.or_(is_base64, pc.equal(pc.ascii_trim_whitespace(raw), "")))
    if contract.source.format != "csv":
        return kept
    quoted = pc.match_substring(raw, contract.source.quote)
    return pc.or_(kept, pc.and_(pc.match_substring_regex(reason, _BROKEN_QUOTES), quoted))


def _read(contract: SourceContract, file: RawFile, rows: pa.Table) -> pa.Table:
    """The new rows for ``rows`` of an ingestion, in their order."""
    received = pc.fill_null(rows[RECEIVED], pa.scalar(file.received_at, rows[RECEIVED].type))
    if contract.source.kafka:
        sent = rows["kafka_timestamp"]
        received = pc.coalesce(rows[RECEIVED], pc.if_else(pc.less(sent, received), sent, received), received)
    elif contract.clocks.arrival is None:
        return _read_as_received(contract, file, rows, received)
    # Few records lack an arrival time of their own: they get a marker time that no record has, and are read a second time.
    after = _read_as_received(contract, file, rows, pa.chunked_array([pa.repeat(pa.scalar(_NOBODYS, received.type), len(rows))]))
    has_nobodys = np.asarray(pc.fill_null(pc.equal(after["arrival_ts"], pa.scalar(_NOBODYS, received.type)), False))
    # The event day of a malformed row is known only if it does not lie too far after its arrival, and the row does not hold that.
    lacks = has_nobodys | np.asarray(pc.or_(pc.is_null(after["arrival_ts"]), pc.is_valid(after["malformed_reason"])))
    if contract.source.kafka and has_nobodys.any():
        settled = has_nobodys & _lie_before(after, pc.add(received, min(contract.clocks.max_ahead, _LONGEST) - timedelta(days=1)))
        arrival_ts = pc.if_else(pa.array(settled), received, after["arrival_ts"])
        after = after.set_column(after.column_names.index("arrival_ts"), after.schema.field("arrival_ts"), arrival_ts)
        lacks = lacks & ~settled
    if not lacks.any():
        return after
    again = _read_as_received(contract, file, rows.filter(pa.array(lacks)), received.filter(pa.array(lacks)))
    place = np.where(lacks, len(rows) + np.cumsum(lacks) - 1, np.arange(len(rows)))
    return pa.concat_tables([after, again]).take(pa.array(place))


def _lie_before(rows: pa.Table, moments: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Whether each event certainly lies before its moment; True for a row without an event."""
    events = pc.coalesce(rows["event_ts"], pc.cast(pc.cast(rows["event_date"], pa.timestamp("us")), moments.type))
    return np.asarray(pc.fill_null(pc.less(events, moments), True))


def _read_as_received(contract: SourceContract, file: RawFile, rows: pa.Table, received: pa.ChunkedArray) -> pa.Table:
    """The new rows, where records without an arrival time of their own get the time in ``received``."""
    places = rows.append_column("place", pa.array(np.arange(len(rows)))).append_column("received", received)
    parts, order = [], []
    for moment, part in table_io.split(places, "received").items():
        day, ingestion_id = (part[name][0].as_py() for name in ("arrival_date", "ingestion_id"))
        delivery = DeliveredFile(part["source_file"][0].as_py(), ingestion_id, day, moment, ingested_at=file.received_at)
        read = _Records(contract, file, delivery).rows(part)
        parts.append(read.append_column(pa.field(RECEIVED, part[RECEIVED].type), part[RECEIVED]))
        order.append(part["place"].to_numpy())
    return pa.concat_tables(parts).take(pa.array(np.argsort(np.concatenate(order))))


class _Records:
    """Reads raw records of one file that were received at the same time."""

    def __init__(self, contract: SourceContract, file: RawFile, delivery: DeliveredFile) -> None:
        # Raw records are read individually: without lines before them or an array around them, and with a header if needed.
        source = contract.source.model_copy(update={"skip_lines": 0, "array": False})
        contract = contract.model_copy(update={"source": source})
        self._contract, self._delivery = contract, delivery
        self._file = replace(file, header=None) if source.columns else file
        self._schema = arrow_schema(bronze_columns(contract))
        self._parser = RowParser(contract, delivery)

    def rows(self, records: pa.Table) -> pa.Table:
        """A row for each record (``line_number``, ``raw_payload``), in their order."""
        raw, numbers = records["raw_payload"].combine_chunks(), records["line_number"].to_numpy()
        together, places = self._together(raw)
        row_of_record = np.full(len(records), -1)
        row_of_record[places] = np.arange(len(together))
        alone = np.flatnonzero(row_of_record < 0)
        singles = [self._parser.row(self._alone(int(numbers[place]), raw[place].as_py())) for place in alone.tolist()]
        row_of_record[alone] = len(together) + np.arange(len(alone))
        parsed = pa.concat_tables([together, pa.Table.from_pylist(singles, schema=self._schema)]).take(pa.array(row_of_record))
        return parsed.set_column(parsed.column_names.index("line_number"), "line_number", records["line_number"])

    def _together(self, raw: pa.StringArray) -> tuple[pa.Table, NDArray[np.int64]]:
        """The rows of those records that are read as one record each when they are read as a file, and the positions of these
        records.
        """
        if self._contract.source.format == "parquet":
            return self._schema.empty_table(), np.empty(0, np.int64)
        header = b"" if self._file.header is None else f"{self._file.header}\n".encode()
        lines = pc.add(pc.count_substring(raw, "\n"), 1).to_numpy()
        starts = np.cumsum(lines) - lines + (2 if header else 1)
        content = pc.binary_join_element_wise(raw, "", "\n").buffers()[2]
        try:
            batches = list(rows_by_columns(self._contract, self._delivery, io.BytesIO(b"".join([header, content]))))
        except FileProblem as problem:
            msg = (
                f"{self._file.name} cannot be read under this contract: {problem}; or leave the arrival day "
                f"{self._delivery.arrival_date} out with --start-date and --end-date"
            )
            raise FileProblem(msg) from None
        rows = pa.Table.from_batches(batches, schema=self._schema)
        numbers = rows["line_number"].to_numpy()
        places = np.minimum(np.searchsorted(starts, numbers), len(raw) - 1)
        is_exact = pc.equal(rows["raw_payload"], raw.take(pa.array(places)))
        is_broken = pc.match_substring_regex(pc.fill_null(rows["malformed_reason"], ""), _BROKEN_QUOTES)
        is_one = (starts[places] == numbers) & np.asarray(pc.and_not(pc.fill_null(is_exact, False), is_broken))
        return rows.filter(pa.array(is_one)), places[is_one]

    def _alone(self, number: int, raw: str) -> Record:
        """A record that is read by itself."""
        if self._contract.source.format == "parquet":
            return Record(number, raw, json.loads(raw))
        if self._contract.source.format == "json":
            return replace(next(json_records([(number, raw.encode())])), raw=raw)
        lines = list(enumerate(raw.encode().split(b"\n"), start=number))
        lines = [(place, line + b"\n") for place, line in lines]
        feed, source = Feed(iter(lines)), self._contract.source
        names = csv_header(iter([(1, f"{self._file.header}\n".encode())]), source, self._contract.columns_read)
        record = CsvReader(source, names).record(feed)
        if record is None or (record.problem is None and len(feed.taken) < len(lines)):
            return Record(number, raw, None, "is not one record as the contract describes the file now")
        return replace(record, raw=raw)


def _differs(before: pa.Table, after: pa.Table) -> NDArray[np.bool_]:
    """Whether rows differ, row by row; NULL equals NULL, and NaN equals NaN."""
    differs = np.zeros(len(before), bool)
    for name in after.column_names:
        if name == RECEIVED:
            continue
        left, right = before[name], after[name]
        equal: Any = pc.fill_null(pc.equal(left, right), pc.and_(pc.is_null(left), pc.is_null(right)))
        if pa.types.is_floating(left.type):
            equal = pc.or_(equal, pc.fill_null(pc.and_(pc.is_nan(left), pc.is_nan(right)), False))
        differs |= ~np.asarray(equal)
    return differs
