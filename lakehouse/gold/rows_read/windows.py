"""The windows of event time in which rows lie, as Spark expressions; ``sessions`` has the windows that depend on a key's rows.

A DataFrame in, a DataFrame out with a row for each window in which a row lies. A day is ``[midnight, next midnight)`` in the zone
of the window, so that a day with a clock change has 23 or 25 hours. The kinds of windows are defined in ``contracts.windows``.

The session of each row, as Spark expressions.
"""

from __future__ import annotations

from datetime import timedelta
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse.contracts.windows import WINDOW_START, SessionWindow
from lakehouse.spark import zones

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime
    from zoneinfo import ZoneInfo

    from pyspark.sql import Column, DataFrame

    from lakehouse.contracts.windows import EventWindow


_MICROSECOND = timedelta(microseconds=1)
_STEPS = ("_pause", "_unbroken", "_day_before", "_is_first")


def with_sessions(rows: DataFrame, sessions: SessionWindow) -> DataFrame:
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


_WINDOWS = "_windows"


def with_windows(rows: DataFrame, window: EventWindow | SessionWindow) -> DataFrame:
    """Rows with the first moment of their window in ``window_start``, and in ``event_date`` the day on which it begins.

    A row without an event time lies in no window: it stays, once, with NULL.

    :param rows: with ``event_date``, ``event_ts`` and the key of sessions.
    """
    if isinstance(window, SessionWindow):
        return with_sessions(rows, window)
    if not window.overlaps:
        start = _midnight("event_date", window.zone)
        passed = F.unix_micros("event_ts") - start
        return rows.withColumn(WINDOW_START, F.timestamp_micros(start + passed - passed % _micros(window.step)))
    before = F.date_sub("event_date", 1)
    days = F.concat(_covering(F.col("event_date"), window), _covering(before, window, until=_midnight("event_date", window.zone)))
    nowhere = F.array(F.struct(F.col("event_date").alias("day"), F.lit(None).cast("timestamp").alias("start")))
    every = rows.withColumn(_WINDOWS, F.explode(F.when(F.col("event_ts").isNull(), nowhere).otherwise(days)))
    placed = every.withColumn("event_date", F.col(f"{_WINDOWS}.day")).withColumn(WINDOW_START, F.col(f"{_WINDOWS}.start"))
    return placed.drop(_WINDOWS)


def is_among(starts: Collection[datetime | None]) -> Column:
    """Whether the window of a row begins at one of ``starts``."""
    known = [_literal(start) for start in starts if start is not None]
    among = [f"{WINDOW_START} IN ({', '.join(known)})"] if known else []
    return _any_of([*among, *([f"{WINDOW_START} IS NULL"] if None in starts else [])])


def lie_within(starts: Collection[datetime | None], size: timedelta) -> Column:
    """Whether a row lies in one of the spans that begin at ``starts``, so that files are skipped by their event times.

    :param starts: None stands for the rows without an event time.
    """
    spans = [f"(event_ts >= {_literal(start)} AND event_ts < {_literal(start + size)})" for start in starts if start is not None]
    return _any_of([*spans, *(["event_ts IS NULL"] if None in starts else [])])


def _literal(moment: datetime) -> str:
    """A moment in UTC, at a whole second, in SQL."""
    return f"TIMESTAMP'{moment:%Y-%m-%d %H:%M:%S}+00:00'"


def _any_of(conditions: Collection[str]) -> Column:
    return F.expr(" OR ".join(conditions) or "false")


def ends(window: EventWindow) -> Column:
    """The moment at which a window has ended, for rows with ``event_date`` and ``window_start`` from :func:`assigned`."""
    start = F.unix_micros(WINDOW_START)
    if window.overlaps:
        return F.timestamp_micros(start + _micros(window.size))
    return F.timestamp_micros(F.least(start + _micros(window.step), _midnight(F.date_add("event_date", 1), window.zone)))


def next_midnight(zone: ZoneInfo) -> Column:
    """The moment at which the event day of a row has ended."""
    return F.timestamp_micros(_midnight(F.date_add("event_date", 1), zone))


def _covering(day: Column, window: EventWindow, until: Column | None = None) -> Column:
    """The windows that begin on a day and cover the row's event time, as an array of structs ``day``, ``start``.

    :param until: the microsecond at which the day ends; not needed for the row's own day.
    """
    start, step, size = _midnight(day, window.zone), _micros(window.step), _micros(window.size)
    passed = F.unix_micros("event_ts") - start
    first = F.greatest(F.lit(0), F.floor((passed - size) / step) + 1).cast("bigint")
    last = F.floor(passed / step) if until is None else F.least(F.floor(passed / step), F.floor((until - start - 1) / step))
    numbers = F.sequence(first, F.greatest(first, last.cast("bigint")))
    found = F.transform(numbers, lambda n: F.struct(day.alias("day"), F.timestamp_micros(start + n * step).alias("start")))
    return F.when(last >= first, found).otherwise(F.slice(found, 1, 0))


def _midnight(day: Column | str, zone: ZoneInfo) -> Column:
    """The first microsecond of a day since 1970."""
    return F.unix_micros(zones.start_of_day(F.col(day) if isinstance(day, str) else day, zone))


def _micros(length: timedelta) -> int:
    return int(length.total_seconds()) * 1_000_000
