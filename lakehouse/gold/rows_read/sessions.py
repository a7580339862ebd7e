"""The session of each row, as Spark expressions.

A DataFrame in, a DataFrame with the same rows out. The definition of a session, and how far it extends over days, is in
``contracts.windows.session_window``.
"""

from __future__ import annotations

from datetime import timedelta
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse.contracts.windows.event_window import WINDOW_START

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakehouse.contracts.windows.session_window import SessionWindow

_MICROSECOND = timedelta(microseconds=1)
_STEPS = ("_pause", "_unbroken", "_day_before", "_is_first")


def assigned(rows: DataFrame, sessions: SessionWindow) -> DataFrame:
    """Rows with the first moment of their session in ``window_start``, and in ``event_date`` the day on which it begins.

    The sessions that begin on a day are correct if the rows of the two days before and of the next day are included. A row
    without an event time, or without a value in a column of the key, lies in no session: it stays on its day, with NULL. Rows
    without a key do not belong to one visitor, and would otherwise form one session that never ends.

    :param rows: with ``event_date``, ``event_ts`` and the key of the sessions.
    """
    placed = reduce(and_, (F.col(name).isNotNull() for name in ("event_ts", *sessions.key)))
    # Rows that lie in no session are a partition of their own, so that they do not interrupt others.
    own = [*sessions.key, placed]
    in_order, of_day = Window.partitionBy(*own).orderBy("event_ts"), Window.partitionBy(*own, "event_date")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    elapsed = F.unix_micros("event_ts") - F.unix_micros(F.lag("event_ts").over(in_order))
    rows = rows.withColumn("_pause", F.coalesce(elapsed > sessions.gap // _MICROSECOND, F.lit(True)))
    rows = rows.withColumn("_unbroken", ~F.max("_pause").over(of_day))
    rows = rows.withColumn("_day_before", F.lag("event_date").over(in_order))
    # A session that continued over the previous midnight, and did not pause on this day, ends with the day.
    has_lasted = F.lag("_unbroken").over(in_order) & (F.col("_day_before") != F.col("event_date"))
    rows = rows.withColumn("_is_first", F.col("_pause") | has_lasted)
    began = [
        F.last(F.when(F.col("_is_first"), F.col(name)), ignorenulls=True).over(so_far) for name in ("event_ts", "event_date")
    ]
    rows = rows.withColumns({"_began": began[0], "_began_on": began[1]})
    rows = rows.withColumn(WINDOW_START, F.when(placed, F.col("_began")))
    rows = rows.withColumn("event_date", F.when(placed, F.col("_began_on")).otherwise(F.col("event_date")))
    return rows.drop(*_STEPS, "_began", "_began_on")
