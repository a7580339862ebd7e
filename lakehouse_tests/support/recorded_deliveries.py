"""Deliveries of a source as an ingestion records them in the ledger; for tests of what follows from the ledger."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lakehouse.ledger import ingestions
from lakehouse.ledger.ingestions import Ingestion

if TYPE_CHECKING:
    from datetime import datetime

    from lakehouse.lake import Lake

MINUTE = timedelta(minutes=1)


def delivery(number: int, arrived: datetime, newest_event: datetime | None = None, **fields: Any) -> Ingestion:
    """The n-th file, which a run ingested when it arrived; other fields replace what follows from this."""
    content = f"{number:08}"
    recorded = {"ingestion_id": content, "content_hash": content, "arrival_date": arrived.date(), "source_file": f"{number}.csv"}
    recorded |= {
        "source": "events",
        "bytes": 100,
        "modified": None,
        "status": "ingested",
        "run_id": "run",
        "recorded_at": arrived,
    }
    return Ingestion(**(recorded | {"rows": 1, "newest_arrival": arrived, "newest_event": newest_event} | fields))


def held_file(number: int, arrived: datetime, name: str, message: str) -> Ingestion:
    """A file that was not ingested."""
    return delivery(number, arrived, status="held", source_file=name, message=message, rows=0, newest_arrival=None)


def record(lake: Lake, *deliveries: Ingestion) -> None:
    """Record the deliveries of one source."""
    ingestions.record(lake, *deliveries)
