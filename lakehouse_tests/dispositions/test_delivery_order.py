"""The order of deliveries, from the entries of the ledger alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.dispositions import account, deliveries
from lakehouse.lake import SimulatedClock
from lakehouse.ledger import ingestions
from lakehouse.ledger.ingestions import Ingestion
from lakehouse_tests.support import kafka_lake
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.ingested_files import deliver, deliver_files
from lakehouse_tests.support.lake import SampleLake, contract, csv_file
from lakehouse_tests.support.laws import law

if TYPE_CHECKING:
    from lakehouse.contracts.source import SourceContract

NOON = datetime(2024, 2, 9, 12, tzinfo=timezone.utc)
DAY = date(2024, 1, 1)


def entry(content: str, day: int, name: str, *, again: bool = False) -> Ingestion:
    arrival, file = date(2024, 2, day), f"{day}/{name}"
    first = Ingestion("events", content, content, arrival, file, 1, None, status="ingested", run_id="r", recorded_at=NOON)
    return replace(first, status="redelivered", touched_days=[DAY]) if again else first


def order_of(path: pytest.TempPathFactory, source: SourceContract, entries: list[Ingestion]) -> list[str]:
    lake = lake_in(path.mktemp("lake"))
    ingestions.record(lake, *entries)
    return deliveries.of(lake, source)["ingestion_id"].to_pylist()


@law(50, in_each_run=10)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 4)), min_size=1, max_size=6, unique=True), st.randoms())
def test_a_content_has_the_place_of_its_newest_delivery(tmp_path_factory, sent, chance) -> None:
    firsts: set[str] = set()
    entries = []
    for content, day in sent:
        entries.append(entry(content, day, content, again=content in firsts))
        firsts.add(content)
    newest = {content: max(day for one, day in sent if one == content) for content in firsts}
    chance.shuffle(entries)
    assert order_of(tmp_path_factory, contract(), entries) == sorted(firsts, key=lambda one: (newest[one], one))


def test_ranges_of_messages_are_in_the_order_of_their_offsets(tmp_path_factory: pytest.TempPathFactory) -> None:
    source = kafka_lake.contract("t", "localhost:1")
    entries = [entry("a01", 1, "t/x/0@9-10"), entry("a02", 1, "t/x/0@10-20")]
    assert order_of(tmp_path_factory, source, entries) == ["a01", "a02"]
    assert order_of(tmp_path_factory, contract(), entries) == ["a02", "a01"], "files are in the order of their names"


NO_CLOCK = {"clocks": {"event": "event_time", "timezone": "Europe/Berlin"}}


@pytest.mark.parametrize("ingested", [[(5, 5), (6, 6)], [(6, 6), (5, 8)], [(5, 9), (6, 9)], [(6, 9), (5, 9)]])
def test_a_late_file_of_an_older_arrival_day_overwrites_no_newer_correction(lake, ingested: list[tuple[int, int]]) -> None:
    """Whenever the daemon ingests them; the clock of a replay stops in each arrival day."""
    source = contract(changes={}, **NO_CLOCK)
    for arrived, on in ingested:
        clock = SimulatedClock(datetime(2024, 2, on, 12, tzinfo=timezone.utc))
        deliver(lake.at(clock), source, date(2024, 2, arrived), f"k,{arrived},2024-02-04T12:00:00Z,,,,")
    [row] = [row for row in account.rows(lake, source) if row.lives]
    assert row.source_file == "arrival_date=2024-02-06.csv"


@pytest.mark.spark
def test_silver_agrees_however_it_is_computed(lake, spark) -> None:
    source = contract(changes={}, **NO_CLOCK)
    for arrived, on in [(6, 6), (5, 8)]:
        clock = SimulatedClock(datetime(2024, 2, on, 12, tzinfo=timezone.utc))
        sample = SampleLake(lake.at(clock), source, spark)
        sample.deliver(date(2024, 2, arrived), csv_file([f"k,{arrived},2024-02-04T12:00:00Z,,,,"]))
        sample.ingest(date(2024, 2, arrived))
        sample.update()
        assert sample.rebuilt([date(2024, 2, 4)]) == sample.silver()
        assert [row[2] for row in sample.silver()] == [6]


def test_files_of_one_arrival_day_keep_the_order_in_which_they_came_while_it_lasted(lake) -> None:
    """The names of folders may be days in UTC: in Auckland, that day ends at noon in UTC."""
    source = contract(changes={}, clocks={"event": "event_time", "timezone": "Pacific/Auckland"})
    for hour, name in ((15, "b"), (20, "a")):
        clock = SimulatedClock(datetime(2024, 2, 5, hour, tzinfo=timezone.utc))
        deliver_files(lake.at(clock), source, date(2024, 2, 5), {name: [f"k,{hour},2024-02-04T12:00:00Z,,,,"]})
    [row] = [row for row in account.rows(lake, source) if row.lives]
    assert row.source_file == "arrival_date=2024-02-05-a.csv"
