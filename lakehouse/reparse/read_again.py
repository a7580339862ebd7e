"""Parses the raw records of a source again, under its present contract; writes the rows that read differently into a folder.

Nothing in the lake changes: ``apply`` puts the rows into force. Few rows are read in this process, many by tasks of Spark, by the
same rule (``raw_records``).

A folder of the deployment that holds a reading until it is put into force or discarded.
"""

from __future__ import annotations

import json
import uuid
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse import locations, object_store, pieces
from lakehouse.delta import partition_writer, provenance
from lakehouse.delta.columns import arrow_schema, bronze_columns, ddl, silver_columns
from lakehouse.dispositions import reading_frames, readings, row_rules
from lakehouse.dispositions.readings import NUMBER, READING_ID, RECEIVED
from lakehouse.lake import table_io
from lakehouse.ledger import ingestions, key_log
from lakehouse.ledger.ids import InputKind
from lakehouse.object_store import S3
from lakehouse.reparse import changed_claims, raw_records
from lakehouse.reparse.raw_records import RawFile, rows_read_otherwise
from lakehouse.spark import commits as spark_commits
from lakehouse.spark.session import sized_for

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from datetime import date, datetime

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
        S3.of(lake).file_system().delete_dir(root.partition("://")[2])
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
    table = spark_commits.table_of(stored, columns, "arrival_date", partition_writer.APPEND_ONLY)
    if table_io.rows_at_most(table, {}):
        return
    files = _files(lake, contract, entries)
    app_id, reading_id = f"readings:{contract.dataset}", why[READING_ID]
    where = {"arrival_date": {entry.arrival_date for entry in entries}, "ingestion_id": set(files)}
    names = [*(name for name, _ in bronze_columns(contract)), RECEIVED]
    if sum(entry.rows for entry in entries) > lake.settings.local_rows:
        with sized_for(session(), lake, many=True):
            frame = _parsed_by_spark(contract, files, reading_frames.rows(session(), lake, contract, names, where))
            frame = frame.withColumns({READING_ID: F.lit(reading_id), NUMBER: F.lit(0).cast("bigint")})
            spark_commits.append_alone(frame, stored, app_id, table.version(), why)
        return
    read = readings.pieces(lake, contract.dataset, names, where)
    differing = [rows_read_otherwise(contract, files, piece) for piece in pieces.counted("records read again", read)]
    rows = pa.concat_tables(differing)
    rows = rows.append_column(READING_ID, pa.repeat(reading_id, len(rows)))
    rows = rows.append_column(NUMBER, pa.repeat(pa.scalar(0, pa.int64()), len(rows)))
    if len(rows):
        spark_commits.append_rows_alone([rows.cast(arrow_schema(columns))], stored, app_id, table.version(), why)


def _parsed_by_spark(contract: SourceContract, files: dict[str, RawFile], frame: DataFrame) -> DataFrame:
    def parse(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if len(batch):
                yield from rows_read_otherwise(contract, files, pa.Table.from_batches([batch])).to_batches()

    return frame.mapInArrow(parse, ddl((*bronze_columns(contract), (RECEIVED, "timestamp"))))


def _files(lake: Lake, contract: SourceContract, entries: Collection[Ingestion]) -> dict[str, RawFile]:
    header_of = raw_records.of_ingestions(lake, contract, entries)
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
        yield from pieces.mapped(key_log.claims, row_rules.judged_reading(lake, contract, session, into, where))

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
