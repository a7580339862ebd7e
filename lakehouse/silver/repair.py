"""Repairs days of silver with damaged data files: their rows are computed again from Bronze (rule R2).

Followers of silver detect that the change feed of the commit is incomplete, and compare content: a day with equal content changes
nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse import locations
from lakehouse.delta import damaged_files, partition_writer, provenance
from lakehouse.dispositions.living_rows import Slice
from lakehouse.ledger import lost_rows
from lakehouse.silver import merge as silver_merge
from lakehouse.spark import commits as spark_commits
from lakehouse.spark.session import sized_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import date

    from pyspark.sql import SparkSession

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake


def repair(lake: Lake, contract: SourceContract, session: Callable[[], SparkSession], run_id: str) -> list[date]:
    """Write the damaged days of a source's silver tables again, each in one commit; repeat it if it was stopped.

    :returns: the days.
    :raises LostRowsError: when Bronze lacks rows of files that were ingested.
    """
    repaired: set[date] = set()
    for table in contract.silver_tables:
        repaired.update(_repair_table(lake, table, session, run_id))
    return sorted(repaired)


@spark_commits.recomputed_on_conflict
def _repair_table(lake: Lake, contract: SourceContract, session: Callable[[], SparkSession], run_id: str) -> list[date]:
    stored = locations.silver_of(lake, contract)
    table = stored.snapshot()
    files = [] if table is None else damaged_files.of_table(table)
    if table is None or not files:
        return []
    lost_rows.require_none(lake, contract.dataset)
    damaged_files.set_aside(table, files)
    rows_by_day: dict[date, int] = {}
    for file in files:
        rows_by_day[file.partition] = rows_by_day.get(file.partition, 0) + file.rows
    for day, count in sorted(rows_by_day.items()):
        why = {"run_id": run_id, "method": "repair", "days": [f"{day}"], **provenance.stamp(contract)}
        with sized_for(session(), lake, many=count > lake.settings.local_rows):
            rows = silver_merge.state(session(), lake, contract, Slice([day])).toArrow()
        partition_writer.replace(table, rows, [day], why=why)
        table.update_incremental()
    return sorted(rows_by_day)
