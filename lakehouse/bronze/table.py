"""Bronze: every record of every delivery, once, by arrival day (rule R1).

This module appends a delivery in one commit by Spark. Its file is read in ``delivery_reader``; the steps before and after
the append are in ``ingest``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakehouse import locations
from lakehouse.bronze.delivery_reader import delivery_rows
from lakehouse.delta.columns import arrow_schema, bronze_columns, ddl
from lakehouse.spark import commits as spark_commits
from lakehouse.spark import dataframes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.bronze.landing import LandingFile
    from lakehouse.contracts.source import SourceContract
    from lakehouse.ledger.row_ids import Delivery
    from lakehouse.settings import Settings

#: Smaller files are parsed in this process, which saves the start of a Python worker.
_PARSED_HERE_BYTES = 2**20


def app_id(source: str, content_hash: str) -> str:
    """The Delta transaction identifier with which a content is appended only once."""
    return f"bronze:{source}:{content_hash}"


def is_large(file: LandingFile) -> bool:
    """Whether a file is large enough to be parsed in a Spark task."""
    return file.size > _PARSED_HERE_BYTES


def delivery_frame(
    spark: SparkSession, settings: Settings, contract: SourceContract, delivery: Delivery, file: LandingFile
) -> DataFrame:
    """The rows of a delivery as a DataFrame of one partition: a large file is parsed by a Spark task."""
    file_path = file.path
    if not is_large(file):
        batches = list(delivery_rows(settings, contract, delivery, file_path))
        rows = pa.Table.from_batches(batches, schema=arrow_schema(bronze_columns(contract)))
        return dataframes.local(spark, rows).coalesce(1)

    def parse(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from delivery_rows(settings, contract, delivery, file_path)

    return spark.range(0, 1, 1, 1).mapInArrow(parse, ddl(bronze_columns(contract)))


def append(frame: DataFrame, settings: Settings, source: str, content_hash: str, why: dict[str, Any]) -> None:
    """Append a delivery in one commit; repeating it is a no-op."""
    spark_commits.append_once(frame, locations.bronze(settings, source), "arrival_date", app_id(source, content_hash), why)
