"""Runs of Bronze for a source of Kafka: each run ingests all available messages, whatever their arrival days.

Bronze's partitions are arrival days, as for files. A run for a partition materializes that day, and logs a materialization of
every other arrival day of its messages.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import TYPE_CHECKING

from lakehouse.bronze.ingest import DayReport
from lakehouse.streams import service

if TYPE_CHECKING:
    import dagster as dg
    from pyspark.sql import SparkSession

    from lakehouse.contracts.inputs import KafkaTopic
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake


def taken(
    context: dg.AssetExecutionContext,
    lake: Lake,
    contract: SourceContract,
    kafka: KafkaTopic,
    session: Callable[[], SparkSession],
) -> dict[date, DayReport]:
    """Ingest the messages of a topic, and report them by arrival day. Gaps are logged as errors, and recorded by the ingestion.

    :raises StreamProblem: if the topic cannot be read.
    """
    reports: dict[date, DayReport] = {}
    gaps: dict[str, None] = {}
    for batch in service.take(lake, contract, kafka, session, context.run.run_id):
        for entry in batch.recorded:
            reports.setdefault(entry.arrival_date, DayReport()).ingested.append(entry)
        gaps |= dict.fromkeys(entry.text for entry in batch.gaps)
        for remark in batch.remarks:
            context.log.warning(remark)
    for text in gaps:
        context.log.error("%s: to read on behind it: lakehouse source stream accept-gap %s", text, contract.dataset)
    return reports
