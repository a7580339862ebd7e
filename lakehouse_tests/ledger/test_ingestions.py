"""Which files count as held: those whose newest delivery was held, by time and, at the same time, before others."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from itertools import permutations
from typing import TYPE_CHECKING

import pytest

from lakehouse.ledger import ingestions
from lakehouse.ledger.ingestions import Ingestion

if TYPE_CHECKING:
    from lakehouse.lake import Lake

NOW = datetime(2024, 2, 10, tzinfo=timezone.utc)


def test_a_held_file_ends_when_it_is_gone_or_given_up_and_may_be_held_again(lake: Lake) -> None:
    held = delivery("broken", "held", lake.now())
    ingestions.record(lake, held)
    for hours, status in ((1, "gone"), (2, "held"), (3, "gone"), (4, "held")):
        ingestions.record_later(lake, delivery("broken", status, lake.now() + timedelta(hours=hours)))
        assert bool(ingestions.still_held(ingestions.all_of(lake, "events"))) == (status == "held")
    lake.settings.now = lake.now() + timedelta(hours=5)
    with pytest.raises(ingestions.UnheldFileError, match=r"no file b.csv of events is held; held are a.csv"):
        ingestions.give_up(lake, "events", "b.csv", "anna", "lost")
    assert ingestions.give_up(lake, "events", "a.csv", "anna", "lost").message == "given up by anna: lost"
    assert ingestions.still_held(ingestions.all_of(lake, "events")) == []


def delivery(content: str, status: str, at: datetime = NOW) -> Ingestion:
    return Ingestion("events", content, content, date(2024, 2, 1), "a.csv", 1, None, status, "run", at)  # type: ignore[arg-type]


def test_a_held_file_that_is_replaced_at_the_same_time_is_no_longer_held() -> None:
    for entries in permutations([delivery("broken", "held"), delivery("mended", "ingested")]):
        assert ingestions.still_held(entries) == []


def test_a_file_that_breaks_later_is_held() -> None:
    later = delivery("broken", "held", NOW + timedelta(hours=1))
    for entries in permutations([delivery("sound", "ingested"), later]):
        assert ingestions.still_held(entries) == [later]
