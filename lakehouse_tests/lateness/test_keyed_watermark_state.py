"""What the strategy ``per_key`` knows of a source, by files that are ingested without Spark."""

from __future__ import annotations

import shutil
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from lakehouse import locations
from lakehouse.contracts.source_rules import PerKeyWatermark
from lakehouse.lateness import event_watermark, watermark_per_key
from lakehouse.lateness.event_watermark import BEGINNING
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.ingested_files import at, deliver, ingest, line, source_with
from lakehouse_tests.support.keyed_watermark_model import least_newest_event
from lakehouse_tests.support.laws import law

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from lakehouse.lake import Lake
    from lakehouse.lateness.event_watermark import SourceWatermark
    from lakehouse_tests.support.keyed_watermark_model import Row

IDLE = timedelta(hours=30)
PER_KEY = {"strategy": "per_key", "key": "id", "max_lateness": "PT1H", "idle_timeout": "PT30H"}
SOURCE = source_with(PER_KEY)
STRATEGY = PerKeyWatermark.model_validate(PER_KEY)
#: Rows whose times are hours since the beginning of January; an event may lie ahead of its arrival.
ARRIVALS = st.tuples(st.integers(80, 250), st.integers(-70, 70), st.sampled_from("abc"))
ROWS = st.lists(ARRIVALS.map(lambda row: (row[0], row[0] - row[1], row[2])), min_size=1, max_size=12)


def hours(count: int) -> datetime:
    return datetime(2024, 1, 1, tzinfo=timezone.utc) + timedelta(hours=count)


def watermark(lake: Lake, moment: datetime | None = None) -> SourceWatermark:
    state = event_watermark.of_source(lake, SOURCE, moment)
    assert state is not None
    return state


def modelled(rows: Sequence[Row]) -> datetime:
    """The watermark after rows whose times are hours; an event ahead of its arrival counts as of its arrival."""
    clocked = [(arrived, min(arrived, happened), key) for arrived, happened, key in rows]
    least = least_newest_event(clocked, IDLE // timedelta(hours=1))
    assert least is not None
    return hours(least - 1)


@law(100, in_each_run=4)
@given(rows=ROWS, files=st.integers(1, 5), order=st.randoms(use_true_random=False))
def test_files_in_any_order_also_of_equal_content_give_the_watermark_of_their_rows(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Row], files: int, order: st.Random
) -> None:
    lake = lake_in(tmp_path_factory.mktemp("keys"))
    contents = [content for place in range(files) if (content := rows[place::files])]
    days = dict(enumerate(contents, start=2))
    for day in order.sample(list(days), len(days)):
        lines = [line(key, hours(happened).isoformat(), hours(arrived)) for arrived, happened, key in days[day]]
        deliver(lake, SOURCE, date(2024, 1, day), *lines)
    state = watermark(lake)
    assert state.watermark == modelled(rows)
    for step in state.steps:
        assert step.watermark == modelled([row for row in rows if hours(row[0]) <= step.arrived])
    stored = watermark_per_key.of(lake, "events", STRATEGY)
    assert not watermark_per_key.advance(lake, SOURCE)
    shutil.rmtree(locations.watermark_keys(lake).address)
    assert watermark_per_key.advance(lake, SOURCE)
    again = watermark_per_key.of(lake, "events", STRATEGY)
    assert (again.least_after, again.times.least) == (stored.least_after, stored.times.least)
    assert watermark(lake).held_by == state.held_by


def test_it_is_held_by_the_key_that_is_furthest_back_until_that_is_idle(lake: Lake) -> None:
    assert (watermark(lake).watermark, watermark(lake).held_by) == (BEGINNING, [])
    ingest(lake, SOURCE, date(2024, 1, 2), line("a", "2024-01-02T08:00:00Z", at(9)), line("b", "2024-01-02T03:00:00Z", at(9)))
    assert (watermark(lake).watermark, watermark(lake).held_by) == (at(2), ["b", "a"])
    ingest(lake, SOURCE, date(2024, 1, 3), line("a", "2024-01-03T08:00:00Z", at(9, 3)))
    assert (watermark(lake).watermark, watermark(lake).held_by) == (at(2), ["b", "a"])
    ingest(lake, SOURCE, date(2024, 1, 4), line("a", "2024-01-04T08:00:00Z", at(9, 4)))
    assert (watermark(lake).watermark, watermark(lake).held_by) == (at(7, 4), ["a"])
    assert (watermark(lake, at(9, 3)).watermark, watermark(lake, at(9, 3)).held_by) == (at(2), ())


def test_under_another_timeout_it_is_computed_again_with_the_next_ingestion(lake: Lake) -> None:
    ingest(lake, SOURCE, date(2024, 1, 2), line("a", "2024-01-02T08:00:00Z", at(9)), line("b", "2024-01-02T03:00:00Z", at(9)))
    other = source_with(PER_KEY | {"idle_timeout": "PT1H"})
    state = event_watermark.of_source(lake, other)
    assert state is not None
    assert state.watermark == BEGINNING
    ingest(lake, other, date(2024, 1, 3), line("a", "2024-01-02T18:00:00Z", at(19)))
    state = event_watermark.of_source(lake, other)
    assert state is not None
    assert (state.watermark, state.held_by) == (at(17), ["a"])


def test_the_keys_that_a_backfill_plan_brings_hold_no_watermark(lake: Lake) -> None:
    ingest(lake, SOURCE, date(2024, 1, 2), line("a", "2024-01-02T08:00:00Z", at(9)))
    deliver(lake, SOURCE, date(2024, 1, 3), line("b", "2024-01-01T08:00:00Z", at(9, 3)), backfill="bf-1")
    ingest(lake, SOURCE, date(2024, 1, 4), line("a", "2024-01-03T10:00:00Z", at(10, 3)))
    assert (watermark(lake).watermark, watermark(lake).held_by) == (at(9, 3), ["a"])
    shutil.rmtree(locations.watermark_keys(lake).address)
    assert watermark_per_key.advance(lake, SOURCE)
    assert (watermark(lake).watermark, watermark(lake).held_by) == (at(9, 3), ["a"])
