"""A source whose event-time watermark is tuned: its contract, and rows that arrived with known lags. Written without Spark."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from lakehouse.ledger import ingestions
from lakehouse.ledger.ingestions import Ingestion
from lakehouse_tests.support.api_client import write_source_rows
from lakehouse_tests.support.lake import contract

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake


def tuned_source(max_lateness: str, **tuning: Any) -> SourceContract:
    """The source of ``support.lake`` with a bounded watermark, owned by anna."""
    watermark = {"strategy": "bounded", "max_lateness": max_lateness, "tuning": {"rows": 100, **tuning}}
    return contract(clocks={"event": "event_time", "arrival": "arrived_at", "watermark": watermark}, owner="anna")


def arrive_daily(lake: Lake, source: SourceContract, days: Sequence[date], lags: Sequence[timedelta]) -> None:
    """Rows that arrive at 23:00 of each day in one file a day, one row for each lag; in Bronze and in the ledger."""
    rows = []
    for day in days:
        arrived = datetime(day.year, day.month, day.day, 23, tzinfo=timezone.utc)
        rows += [(f"{day}:{line}", arrived - lag, arrived, "insert", "admitted") for line, lag in enumerate(lags)]
        entry = Ingestion(
            *(source.dataset, f"of {day}", f"hash of {day}", day, f"arrival_date={day}.csv", 1, None, "ingested", "run", arrived),
            rows=len(lags),
            newest_arrival=arrived,
            newest_event=arrived - max(min(lags), timedelta(0)),
            skewed=sum(lag < timedelta(0) for lag in lags),
        )
        ingestions.record(lake, entry)
    write_source_rows(lake, source, rows)
