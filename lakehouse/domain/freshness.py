"""How fresh what arrived is: by the clock of whoever asks, of what the ledger knows."""

from __future__ import annotations

from datetime import datetime, time, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import date
    from zoneinfo import ZoneInfo


def arrived_at(arrival_day: date, taken_in_at: datetime, zone: ZoneInfo) -> datetime:
    """When a file arrived: when it was taken in, and at the end of its arrival day at the latest.

    So an old day that is caught up today does not count as fresh.
    """
    return min(taken_in_at, datetime.combine(arrival_day + timedelta(days=1), time.min, zone))
