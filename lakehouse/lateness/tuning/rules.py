"""The daily step by which tuning moves ``max_lateness``, and the trade-off between waiting and completeness.

Plain Python. The proposal itself, the value that catches the wanted share of rows, is ``lateness.rules.propose``.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from lakehouse.calendar.event_day import end_of_day
from lakehouse.lateness.rules import evidence, nearest_rank

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import date, datetime
    from zoneinfo import ZoneInfo

_MINUTE = timedelta(minutes=1)


def step(current: timedelta, wanted: timedelta, band: float) -> timedelta:
    """The value after one day's move from ``current`` towards ``wanted``: by at most the band.

    :param band: the greatest change, as a share of the current value; the change is rounded down to minutes, and is at least a
        minute.
    """
    most = max(current * band // _MINUTE * _MINUTE, _MINUTE)
    return min(max(wanted, current - most), current + most)


@dataclass(frozen=True)
class TradeOff:
    """The consequences of a ``max_lateness``.

    :param share: the share of rows that came within it. Such a row is never older than the watermark when it arrives.
    :param delay: the median time from the end of a day until the watermark passed that end; None if it passed none.
    :param open_days: the number of event days that were not over at the newest arrival, the running one included.
    """

    max_lateness: timedelta
    share: float
    delay: timedelta | None
    open_days: int


def trade_offs(
    seconds: Sequence[int],
    newest_events: Sequence[tuple[datetime, datetime]],
    days: Collection[date],
    zone: ZoneInfo,
    also: Collection[timedelta | None] = (),
) -> tuple[TradeOff, ...]:
    """The consequences of each step of :data:`lateness.rules.LADDER`, and of each value in ``also``.

    :param seconds: how late each row came, sorted; parts of a second count as a whole one.
    :param newest_events: per arrival, in order, the watermark that a ``max_lateness`` of zero gives.
    :param days: the event days whose delay counts; those that ended before the first arrival came as a backlog, and do not.
    """
    watermarks = [watermark for _, watermark in newest_events]
    ends = [end for end in (end_of_day(day, zone) for day in days) if newest_events and end > newest_events[0][0]]

    def delay(max_lateness: timedelta) -> timedelta | None:
        places = [(end, bisect_left(watermarks, end + max_lateness)) for end in ends]
        waited = sorted(newest_events[place][0] - end for end, place in places if place < len(watermarks))
        return waited[nearest_rank(len(waited), "0.5")] if waited else None

    def open_days(max_lateness: timedelta) -> int:
        if not newest_events:
            return 0
        arrived, watermark = newest_events[-1]
        return (arrived.astimezone(zone).date() - (watermark - max_lateness).astimezone(zone).date()).days + 1

    return tuple(
        TradeOff(line.watermark, line.share, delay(line.watermark), open_days(line.watermark)) for line in evidence(seconds, also)
    )
