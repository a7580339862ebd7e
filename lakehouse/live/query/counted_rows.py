"""The rows of Bronze that the stream of a metric counts, as Spark expressions that work for a stream and for a table.

The stream counts every well-formed insert with an event time, once in each of its windows. It ignores corrections, deletes,
duplicates, row rules and decisions: ``reconciliation`` explains the differences that result. Which of these rows Spark drops as
late is defined in ``late_rule``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse.contracts.windows.event_window import EventWindow
from lakehouse.delta.columns import silver_columns
from lakehouse.gold.rows_read import windows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract

#: The moment at which the window of a row has ended.
WINDOW_END = "window_end"
#: The event time that advances the watermark. A sender's clock that is ahead must not close the windows of all other senders.
EVENT_TIME = "event_time"


def columns_read(metric: MetricContract, contract: SourceContract) -> list[str]:
    """The columns of Bronze that the stream reads."""
    names = metric.columns_read([name for name, _ in silver_columns(contract)])
    of_marker = [contract.marker_field.name] if contract.marker_field else []
    return list(dict.fromkeys([*names, "event_ts", "arrival_ts", "change_op", "malformed_reason", *of_marker]))


def inserts(bronze: DataFrame, contract: SourceContract) -> DataFrame:
    """The records of the kind that the stream counts: well-formed inserts that are not marker records."""
    rows = bronze.where("change_op = 'insert' AND malformed_reason IS NULL")
    if contract.marker is None or contract.marker_field is None:
        return rows
    return rows.where(~F.col(contract.marker_field.name).cast("string").eqNullSafe(contract.marker.value))


def counted(bronze: DataFrame, contract: SourceContract) -> DataFrame:
    """The rows that the stream counts unless they are late, with :data:`EVENT_TIME`."""
    rows = inserts(bronze, contract).where("event_ts IS NOT NULL AND event_date IS NOT NULL")
    return rows.withColumn(EVENT_TIME, F.least("event_ts", "arrival_ts"))


def in_windows(rows: DataFrame, metric: MetricContract) -> DataFrame:
    """Rows in each of their windows, or on their event day; see ``rows_read.windows``."""
    return windows.assigned(rows, metric.event_window) if metric.event_window else rows


def window_end(metric: MetricContract, contract: SourceContract) -> Column:
    """When the window of a row of :func:`in_windows` has ended; for a metric without windows, when its event day has."""
    if isinstance(metric.event_window, EventWindow):
        return windows.ends(metric.event_window)
    return windows.next_midnight(ZoneInfo(contract.clocks.timezone))
