"""The event-time watermark by each strategy: monotone, and the same in whichever order and grouping deliveries were recorded."""

from __future__ import annotations

import itertools
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from lakehouse.contracts.source_rules import (
    BoundedWatermark,
    Marker,
    ProcessingTimeWatermark,
    PunctuatedWatermark,
    WatermarkStrategy,
)
from lakehouse.lateness.event_watermark import BEGINNING, SourceWatermark, by_steps, passed_at, steps
from lakehouse.ledger.ingestions import Ingestion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehouse.lateness.event_watermark import WatermarkStep

NOON = datetime(2024, 2, 1, 12, tzinfo=timezone.utc)
MINUTE = timedelta(minutes=1)
#: Minutes since noon of an arrival and of its event, and whether it is a marker.
Row = tuple[int, int, bool]
ROWS = st.lists(st.tuples(st.integers(0, 60), st.integers(-90, 90), st.booleans()), max_size=20).map(sorted)
STRATEGIES = [
    BoundedWatermark(strategy="bounded", max_lateness=5 * MINUTE),
    PunctuatedWatermark(strategy="punctuated", marker=Marker(column="kind", value="end")),
    ProcessingTimeWatermark(strategy="processing_time", delay=7 * MINUTE),
]


def delivery(rows: Sequence[Row], number: int = 0) -> Ingestion:
    def newest(times: list[int]) -> datetime | None:
        return NOON + max(times) * MINUTE if times else None

    return Ingestion(
        *("events", f"{number:03}", f"{number:03}", date(2024, 2, 1), f"{number}.csv", 1, None, "ingested", "run", NOON),
        newest_arrival=newest([arrived for arrived, _, _ in rows]),
        newest_event=newest([min(arrived, happened) for arrived, happened, _ in rows]),
        newest_marker=newest([min(arrived, happened) for arrived, happened, is_marker in rows if is_marker]),
    )


def modelled(strategy: WatermarkStrategy, rows: Sequence[Row]) -> datetime:
    """The watermark by rows, one after the other."""
    watermark = BEGINNING
    for arrived, happened, is_marker in rows:
        if isinstance(strategy, BoundedWatermark):
            watermark = max(watermark, NOON + min(arrived, happened) * MINUTE - strategy.max_lateness)
        elif isinstance(strategy, ProcessingTimeWatermark):
            watermark = max(watermark, NOON + arrived * MINUTE - strategy.delay)
        elif is_marker:
            watermark = max(watermark, NOON + min(arrived, happened) * MINUTE)
    return watermark


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(rows=ROWS, cuts=st.lists(st.integers(0, 20), max_size=4).map(sorted), order=st.randoms(use_true_random=False))
def test_any_grouping_and_order_of_deliveries_gives_the_watermark_of_the_rows(
    strategy: WatermarkStrategy, rows: list[Row], cuts: list[int], order: st.Random
) -> None:
    bounds = [0, *(min(cut, len(rows)) for cut in cuts), len(rows)]
    groups = [rows[first:last] for first, last in itertools.pairwise(bounds)]
    deliveries = [delivery(group, number) for number, group in enumerate(groups)]
    order.shuffle(deliveries)
    taken = steps(strategy, [*deliveries, *deliveries[:1]])
    watermarks = [BEGINNING, *(step.watermark for step in taken)]
    assert watermarks == sorted(watermarks)
    assert watermarks[-1] == modelled(strategy, rows)
    assert all(step.watermark <= step.arrived for step in taken)
    for step in taken:
        before = [row for group in groups for row in group if NOON + row[0] * MINUTE < step.arrived]
        assert modelled(strategy, before) <= step.watermark


def test_the_worked_example_of_five_minutes() -> None:
    events = [-2, -5, 1, -1, 3]  # 9:58, 9:55, 10:01, 9:59, 10:03, if noon were ten
    taken = steps(STRATEGIES[0], [delivery([(10 + number, event, False)], number) for number, event in enumerate(events)])
    assert [step.watermark - NOON for step in taken] == [minutes * MINUTE for minutes in (-7, -7, -4, -4, -2)]


def test_only_processing_time_follows_the_clock() -> None:
    now = NOON + timedelta(days=3)
    for strategy in STRATEGIES:
        taken = steps(strategy, [delivery([(1, 0, True)])])
        follows = isinstance(strategy, ProcessingTimeWatermark)
        assert by_steps(strategy, taken, now) == (now - 7 * MINUTE if follows else taken[-1].watermark)
        assert by_steps(strategy, [], now) == (now - 7 * MINUTE if follows else BEGINNING)


def test_while_nothing_arrives_a_bounded_watermark_follows_the_clock_behind_its_timeout() -> None:
    hour = 60 * MINUTE
    shop = BoundedWatermark(strategy="bounded", max_lateness=6 * hour, idle_timeout=12 * hour)
    of_saturday = steps(shop, [delivery([(0, -10, False)])])
    stands = NOON - 10 * MINUTE - 6 * hour
    assert by_steps(shop, of_saturday, NOON + 12 * hour) == stands, "silence of less than the timeout moves nothing"
    assert by_steps(shop, of_saturday, NOON + 36 * hour) == NOON + 18 * hour
    of_monday = steps(shop, [delivery([(0, -10, False)]), delivery([(48 * 60, 47 * 60, False)], 1)])
    assert [step.watermark for step in of_monday] == [stands, NOON + 41 * hour]
    late = steps(shop, [delivery([(0, -10, False)]), delivery([(48 * 60, 0, False)], 1)])
    assert late[-1].watermark == NOON + 30 * hour, "what comes after the pause does not take the watermark back"
    assert by_steps(shop, [], NOON) == BEGINNING


def test_when_the_watermark_passed_a_moment_is_when_it_was_first_there() -> None:
    """By a delivery, or by the clock in a pause; the same moment that the watermark itself gives, to the minute."""
    hour = 60 * MINUTE
    shop = BoundedWatermark(strategy="bounded", max_lateness=6 * hour, idle_timeout=12 * hour)
    taken = steps(shop, [delivery([(0, -10, False)]), delivery([(48 * 60, 47 * 60, False)], 1)])
    now = NOON + 50 * hour
    state = SourceWatermark("shop", shop, now, by_steps(shop, taken, now), taken)
    for hours in range(-20, 60, 3):
        moment = NOON + hours * hour
        passed = passed_at(state, moment)
        there = [at for at in (NOON + minutes * MINUTE for minutes in range(50 * 60 + 1)) if at_time(shop, taken, at) >= moment]
        if passed is None:
            assert not there
        else:
            assert timedelta(0) <= there[0] - passed <= MINUTE
    assert passed_at(state, NOON + 24 * hour) == NOON + 42 * hour, "by the clock"
    assert passed_at(state, NOON + 40 * hour) == NOON + 48 * hour, "by Monday's delivery"
    assert passed_at(state, NOON + 42 * hour) is None


def at_time(strategy: WatermarkStrategy, taken: Sequence[WatermarkStep], at: datetime) -> datetime:
    return by_steps(strategy, [step for step in taken if step.arrived <= at], at)


def test_a_delivery_without_a_sound_row_moves_nothing() -> None:
    assert steps(STRATEGIES[0], [delivery([])]) == []


def test_a_strategy_names_what_it_needs() -> None:
    adapter = TypeAdapter(WatermarkStrategy)
    assert adapter.validate_python({"strategy": "bounded", "max_lateness": "PT5M"}) == STRATEGIES[0]
    with pytest.raises(ValidationError, match="max_lateness"):
        adapter.validate_python({"strategy": "bounded"})
    with pytest.raises(ValidationError, match="bounded"):
        adapter.validate_python({"strategy": "guessed"})
