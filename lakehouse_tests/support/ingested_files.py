"""Small CSV files of the source ``events`` that are ingested without Spark."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.bronze.ingest import Ingest
from lakehouse.ledger import ingestions
from lakehouse_tests.support.lake import contract, csv_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date

    from lakehouse.bronze.ingest import DayReport
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.ledger.ingestions import Ingestion

CLOCKS = {"event": "event_time", "arrival": "arrived_at", "max_ahead": "P3D"}


def at(hour: int, day: int = 2) -> datetime:
    """An hour of a day of January 2024."""
    return datetime(2024, 1, day, hour, tzinfo=timezone.utc)


def line(key: str, happened: str, arrived: datetime, op: str = "insert") -> str:
    """A line of a file."""
    return f"{key},1,{happened},{arrived.isoformat()},{op},,1"


def source_with(watermark: dict[str, Any]) -> SourceContract:
    """The contract of the source with an event-time watermark."""
    return contract(clocks=CLOCKS | {"watermark": watermark})


def deliver(lake: Lake, source: SourceContract, day: date, *lines: str, backfill: str | None = None) -> DayReport:
    """Ingest the file of an arrival day, whatever becomes of it; as a run of a backfill plan, if one is named."""
    Path(f"{lake.settings.landing}").mkdir(parents=True, exist_ok=True)
    Path(f"{lake.settings.landing}", f"arrival_date={day}.csv").write_bytes(csv_file(lines))
    return Ingest(lake, source, _no_session, "run", backfill=backfill).day(day)


def deliver_text(lake: Lake, source: SourceContract, day: date, text: str) -> DayReport:
    """Ingest the file of an arrival day, with its own header."""
    Path(f"{lake.settings.landing}").mkdir(parents=True, exist_ok=True)
    Path(f"{lake.settings.landing}", f"arrival_date={day}.csv").write_text(text, encoding="utf-8")
    return Ingest(lake, source, _no_session, "run").day(day)


def deliver_files(lake: Lake, source: SourceContract, day: date, files: Mapping[str, Sequence[str]]) -> DayReport:
    """Ingest several files of an arrival day in one run.

    :param files: their lines, by a part of their names.
    """
    Path(f"{lake.settings.landing}").mkdir(parents=True, exist_ok=True)
    for name, lines in files.items():
        Path(f"{lake.settings.landing}", f"arrival_date={day}-{name}.csv").write_bytes(csv_file(lines))
    return Ingest(lake, source, _no_session, "run").day(day)


def ingest(lake: Lake, source: SourceContract, day: date, *lines: str) -> Ingestion:
    """Ingest the file of an arrival day, whose content is new.

    :returns: its entry, as the ledger has it.
    """
    [entry] = deliver(lake, source, day, *lines).ingested
    [recorded] = [known for known in ingestions.all_of(lake, "events") if known.ingestion_id == entry.ingestion_id]
    assert recorded == entry
    return entry


def _no_session() -> Any:
    pytest.fail("a small file starts no Spark")
