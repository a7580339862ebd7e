"""Which files count as held: those whose newest delivery was held, by time and, at the same time, before others."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from itertools import permutations

from lakehouse.ledger import ingestions
from lakehouse.ledger.ingestions import Ingestion

NOW = datetime(2024, 2, 10, tzinfo=timezone.utc)


def delivery(content: str, status: str, at: datetime = NOW) -> Ingestion:
    return Ingestion("events", content, content, date(2024, 2, 1), "a.csv", 1, None, status, "run", at)  # type: ignore[arg-type]


def test_a_held_file_that_is_replaced_at_the_same_time_is_no_longer_held() -> None:
    for entries in permutations([delivery("broken", "held"), delivery("mended", "ingested")]):
        assert ingestions.still_held(entries) == []


def test_a_file_that_breaks_later_is_held() -> None:
    later = delivery("broken", "held", NOW + timedelta(hours=1))
    for entries in permutations([delivery("sound", "ingested"), later]):
        assert ingestions.still_held(entries) == [later]
