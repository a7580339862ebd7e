"""When the stream drops a row as late: Spark's rule for aggregations behind a watermark, as measured for Spark 4.2.

A batch drops the rows of the windows that had ended at the watermark *of the batch before it*, and then removes from its state
the windows that have ended at its own watermark. The watermark of a batch is the newest event time of all batches before it,
less the delay. ``lakehouse_tests/live/query`` compares the rule with Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

if TYPE_CHECKING:
    from datetime import timedelta

    from pyspark.sql import Column, DataFrame

#: The mark by which Spark recognizes the grouping column that its watermark applies to. Spark gives it to the column that
#: ``withWatermark`` names and to ``window`` structs; the ends of windows that are aligned at local midnights need it as well.
_MARK = "spark.watermarkDelayMs"


def behind_watermark(rows: DataFrame, event_time: str, ends: Column, window_end: str, delay: timedelta) -> DataFrame:
    """Rows with the end of their window as the column that the watermark applies to.

    :param event_time: the column that advances the watermark.
    :param ends: the end of a row's window; the column gets the name ``window_end``.
    """
    milliseconds = round(delay.total_seconds() * 1000)
    marked = rows.withWatermark(event_time, f"{milliseconds} milliseconds")
    return marked.withColumn(window_end, ends.alias(window_end, metadata={_MARK: milliseconds}))


def is_dropped(window_end: Column, watermark_before: Column) -> Column:
    """Whether a batch drops the rows of a window; never NULL.

    :param watermark_before: the watermark of the previous batch; NULL in the first batch.
    """
    return F.coalesce(window_end <= watermark_before, F.lit(False))
