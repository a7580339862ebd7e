"""The start of a day in a zone, as a Spark expression, and a check that Spark's Java and Python have the same zone rules.

Python and Java each have a time zone database. Days are counted with Python's, windows and joins in Spark with Java's: where the
two differ, the same row would have two different days.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse.spark import dataframes
from lakehouse.spark.jars import SetupProblem

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from pyspark.sql import Column

#: From 1970 to the year 2100, in days.
DAYS = (datetime(2101, 1, 1, tzinfo=timezone.utc) - datetime(1970, 1, 1, tzinfo=timezone.utc)).days
#: The number of days ahead on which the two must agree; later differences, such as a recently announced change, are a warning.
_NEAR = timedelta(days=366)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_OFFSET = "(unix_seconds(from_utc_timestamp(timestamp_seconds({0} * 86400L), '{1}')) - {0} * 86400L)"
_log = logging.getLogger(__name__)


def start_of_day(day: Column, zone: ZoneInfo) -> Column:
    """The first moment of a day in a zone, independent of the session's zone.

    :raises SetupProblem: if Java's rules for the zone differ from Python's.
    """
    _check(zone)
    return F.to_utc_timestamp(dataframes.first_moment(day), zone.key)


@lru_cache(maxsize=1_000)  # once per process
def _check(zone: ZoneInfo) -> None:
    spark = SparkSession.getActiveSession()
    if zone.key == "UTC" or spark is None:
        return
    before, after = (_OFFSET.format(day, zone.key) for day in ("(i - 1)", "i"))
    changes = f"filter(sequence(1, {DAYS}), i -> {after} <> {before})"
    try:
        row = spark.sql(f"SELECT transform({changes}, i -> struct(i, {after}))").first()
    except PySparkException:
        msg = f"the Java of Spark does not know the zone {zone.key}, and Python does; update Java (its time zone data, tzdata)"
        raise SetupProblem(msg) from None
    differing = differences(zone, {} if row is None else dict(row[0]))
    if not differing:
        return
    first = (_EPOCH + timedelta(days=differing[0])).date()
    text = (
        f"the time zone data of Python and of Spark's Java differ for {zone.key} from {first} on; "
        "update the Python package tzdata and Java to the same version of the IANA database"
    )
    if first <= (datetime.now(timezone.utc) + _NEAR).date():
        raise SetupProblem(text)
    _log.warning("%s before that day comes", text)


def differences(zone: ZoneInfo, changes: dict[int, int]) -> list[int]:
    """The days since 1970 on which another database and Python's change the clock of a zone differently, in order.

    :param changes: the other database's offset in seconds, by each day at whose UTC midnight it differs from the previous day's.
    """
    offsets = [_offset(day, zone) for day in range(DAYS + 1)]
    ours = {day: offsets[day] for day in range(1, DAYS + 1) if offsets[day] != offsets[day - 1]}
    return sorted(day for day in {*ours, *changes} if ours.get(day) != changes.get(day))


def _offset(day: int, zone: ZoneInfo) -> int:
    offset = (_EPOCH + timedelta(days=day)).astimezone(zone).utcoffset()
    return 0 if offset is None else int(offset.total_seconds())
