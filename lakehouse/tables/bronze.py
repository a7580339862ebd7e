"""Bronze: every record of every delivery, once, by arrival day (rule R1).

Here are reading a delivery into rows and appending them. What is done around it, file by file, is in ``ingest``.
"""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse.domain.records import Record, read_records
from lakehouse.domain.rows import Delivery, RowParser
from lakehouse.tables import delta, frames
from lakehouse.tables.landing import open_file
from lakehouse.tables.schema import arrow_schema, bronze_columns, ddl

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.contracts.source import SourceContract
    from lakehouse.settings import Settings
    from lakehouse.tables.landing import LandingFile

_BATCH_ROWS = 10_000
#: Smaller files are parsed in this process, which saves the start of a Python worker.
_PARSED_HERE_BYTES = 2**20


def path(settings: Settings, source: str) -> str:
    """The address of the source's bronze table."""
    return settings.table("bronze", source)


def app_id(source: str, content_hash: str) -> str:
    """What makes the append of a content happen once (Delta's transaction identifier)."""
    return f"bronze:{source}:{content_hash}"


def is_large(file: LandingFile) -> bool:
    """Whether a file is worth a task of its own."""
    return file.size > _PARSED_HERE_BYTES


def delivery_rows(settings: Settings, contract: SourceContract, delivery: Delivery, file_path: str) -> Iterator[pa.RecordBatch]:
    """The rows of one delivery, as Arrow batches of :func:`bronze_columns`."""
    schema = arrow_schema(bronze_columns(contract))
    parser = RowParser(contract, delivery)
    with open_file(settings, contract, file_path) as stream:
        if contract.source.format == "parquet":
            records = _parquet_records(pq.ParquetFile(stream))
        else:
            records = read_records(stream, contract.source, contract.columns_read)
        rows = parser.rows(records)
        while batch := list(islice(rows, _BATCH_ROWS)):
            yield pa.RecordBatch.from_pylist(batch, schema=schema)


def delivery_frame(
    spark: SparkSession, settings: Settings, contract: SourceContract, delivery: Delivery, file: LandingFile
) -> DataFrame:
    """The same as a DataFrame of one partition: a large file is parsed by a task, wherever Spark runs it."""
    file_path = file.path
    if not is_large(file):
        batches = list(delivery_rows(settings, contract, delivery, file_path))
        rows = pa.Table.from_batches(batches, schema=arrow_schema(bronze_columns(contract)))
        return frames.local(spark, rows).coalesce(1)

    def parse(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from delivery_rows(settings, contract, delivery, file_path)

    return spark.range(0, 1, 1, 1).mapInArrow(parse, ddl(bronze_columns(contract)))


def append(frame: DataFrame, settings: Settings, source: str, content_hash: str, why: dict[str, Any]) -> None:
    """Append a delivery in one commit; again, it is a no-op."""
    delta.append_once(frame, path(settings, source), "arrival_date", app_id(source, content_hash), why)


def _parquet_records(file: pq.ParquetFile) -> Iterator[Record]:
    """Rows of a Parquet file; the raw text of a row is its JSON."""
    number = 0
    for batch in file.iter_batches():
        for values in batch.to_pylist():
            number += 1
            yield Record(number, json.dumps(values, default=str, ensure_ascii=False), values)
