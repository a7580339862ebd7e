"""What the ledger says of each delivery, by files that are ingested without Spark."""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING

from deltalake import DeltaTable, write_deltalake

from lakehouse import locations
from lakehouse.lateness import event_watermark
from lakehouse.lateness.event_watermark import BEGINNING
from lakehouse_tests.support.ingested_files import at, ingest, line, source_with
from lakehouse_tests.support.lake import HEADER, contract

if TYPE_CHECKING:
    from lakehouse.lake import Lake

DAY = date(2024, 1, 2)
BOUNDED = {"strategy": "bounded", "max_lateness": "PT6H"}
MARKED = {"strategy": "punctuated", "marker": {"column": "id", "value": "end"}}


def test_a_delivery_tells_its_newest_times_and_how_many_events_are_ahead(lake: Lake) -> None:
    assert HEADER.split(",")[:4] == ["id", "amount", "event_time", "arrived_at"]
    entry = ingest(
        lake,
        source_with(MARKED),
        DAY,
        line("a", "2024-01-02T07:00:00Z", at(9)),
        line("ahead", "2024-01-04T00:00:00Z", at(10)),
        line("end", "2024-01-01T00:00:00Z", at(8)),
        line("gone", "", at(11), "delete"),
        line("bad", "never", at(12)),
    )
    assert (entry.rows, entry.malformed, entry.skewed) == (5, 1, 1)
    assert entry.newest_event == at(10)
    assert entry.newest_arrival == at(11)
    assert entry.newest_marker == at(0, 1)


def test_of_a_day_alone_the_end_counts_and_a_delivery_without_a_marker_has_none(lake: Lake) -> None:
    entry = ingest(lake, source_with(MARKED), DAY, line("a", "2024-01-01", at(9)), line("b", "2024-01-02", at(7)))
    assert (entry.newest_event, entry.newest_marker, entry.skewed) == (at(7), None, 0)


def test_the_watermark_of_a_source_and_what_it_was(lake: Lake) -> None:
    source = source_with(BOUNDED)
    state = event_watermark.of_source(lake, source)
    assert state is not None
    assert (state.watermark, state.moved_by) == (BEGINNING, None)
    for day, happened in ((2, "2024-01-02T07:00:00Z"), (3, "2024-01-01T07:00:00Z"), (4, "2024-01-04T07:00:00Z")):
        ingest(lake, source, date(2024, 1, day), line(f"k{day}", happened, at(9, day)))
    expected = {at(8): BEGINNING, at(9): at(1), at(9, 3): at(1), at(9, 4): at(1, 4)}
    for moment, watermark in expected.items():
        state = event_watermark.of_source(lake, source, moment)
        assert state is not None
        assert state.watermark == watermark
    assert state.moved_by is not None
    assert state.moved_by.delivery.source_file == "arrival_date=2024-01-04.csv"
    assert event_watermark.of_source(lake, contract()) is None


def test_a_ledger_of_an_earlier_release_gets_the_columns_and_its_deliveries_move_nothing(lake: Lake) -> None:
    source = source_with(BOUNDED)
    ingest(lake, source, DAY, line("a", "2024-01-02T07:00:00Z", at(9)))
    table = locations.ingestions(lake)
    older = DeltaTable(table.address).to_pyarrow_table()
    older = older.drop_columns(["newest_arrival", "newest_event", "newest_marker", "skewed"])
    write_deltalake(table.address, older, mode="overwrite", schema_mode="overwrite", partition_by=["source"])
    state = event_watermark.of_source(lake, source)
    assert state is not None
    assert state.watermark == BEGINNING
    ingest(lake, source, DAY + timedelta(days=1), line("b", "2024-01-03T07:00:00Z", at(9, 3)))
    state = event_watermark.of_source(lake, source)
    assert state is not None
    assert state.watermark == at(1, 3)
