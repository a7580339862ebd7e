"""Consumers with bounds are told of what moves beyond them since they last heard; the rest is recorded. No Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.lake import Lake
from lakehouse.operations.delivery import targets
from lakehouse.operations.notices import log as ledger
from lakehouse.operations.notices.log import NoticeStatus
from lakehouse.settings import Settings
from lakehouse_tests.support.laws import law
from lakehouse_tests.support.notified_lake import (
    NotifiedLake,
    RecordingChannel,
    metric,
    numbers_from_silver,
    published_lake,
    restated_figures,
)
from lakehouse_tests.support.webhook_server import webhook_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakehouse.contracts.metric import MetricContract

BOUNDED = {"board": {"total": {"absolute": 4}}}


@pytest.fixture(autouse=True)
def _added_up() -> Iterator[None]:
    with numbers_from_silver():
        yield


def bounded(bounds: Any = None, *others: str, **more: Any) -> MetricContract:
    return metric("total", "board", *others, materiality=bounds or BOUNDED, **more)


def add(sample: NotifiedLake, amount: int, day: int = 1) -> None:
    """One late row, published."""
    sample.add_rows((f"late {amount} {sample.lake.now()} {len(sample.notified())}", day, amount))
    sample.publish()


def moves(channel: RecordingChannel) -> list[tuple[Any, Any]]:
    """The numbers before and after in each message about one period."""
    return [figures[1:3] for message in channel.messages for figures in restated_figures(message)]


def test_a_small_change_is_recorded_and_not_told(lake) -> None:
    sample, channel = published_lake(lake, bounded(None, "shop")), RecordingChannel()
    add(sample, 4)
    told = sample.dispatch(channel)
    assert (told.delivered, told.waiting) == (1, 0)
    assert channel.sent == [("total restated for 2024-02-01: late_data", "shop")]
    recorded = {entry.consumer: (entry.target, entry.status, entry.unheard) for entry in ledger.of(lake)}
    assert recorded == {
        "board": ("none", NoticeStatus.WITHIN_BOUNDS, {"total_v2024-02-01.r2": "total_v2024-02-01.r1"}),
        "shop": ("box", NoticeStatus.AUDITED, {}),
    }
    assert sample.dispatch(channel).delivered == 0


@pytest.mark.merge
def test_small_changes_that_add_up_are_told_as_one(lake) -> None:
    sample, channel = published_lake(lake, bounded()), RecordingChannel()
    for amount in (2, 2):
        add(sample, amount)
        assert sample.dispatch(channel).delivered == 0
    assert sample.notified().popitem()[1] == [False], "nobody was told"
    add(sample, 1)
    sample.dispatch(channel)
    assert moves(channel) == [(10, 15)]
    (period,) = channel.messages[0].data["restated"]
    assert (period["before"], period["after"]) == ("total_v2024-02-01.r1", "total_v2024-02-01.r4")
    assert (period["changed_rows"], period["earlier_changes"]) == (3, 2)
    assert "with earlier changes that lay within your bounds: 2" in channel.messages[0].text
    assert set(map(tuple, sample.notified().values())) == {(True,)}, "the audit knows of all three"
    add(sample, 3)
    assert sample.dispatch(channel).delivered == 0, "what was told is what the next change is compared with"
    add(sample, 2)
    sample.dispatch(channel)
    assert moves(channel)[1:] == [(15, 20)]


@pytest.mark.merge
def test_changes_that_cancel_out_are_not_told(lake) -> None:
    sample, channel = published_lake(lake, bounded()), RecordingChannel()
    for amount in (3, -3, -3, 3, 4, -8):
        add(sample, amount)
        assert sample.dispatch(channel).delivered == 0
    add(sample, -1)
    sample.dispatch(channel)
    assert moves(channel) == [(10, 5)]


def test_only_the_periods_beyond_the_bounds_are_told(lake) -> None:
    sample, channel = published_lake(lake, bounded()), RecordingChannel()
    sample.add_rows(("small", 1, 1), ("large", 2, 50), ("small too", 3, -4))
    sample.publish()
    sample.dispatch(channel)
    assert channel.sent == [("total restated for 2024-02-02: late_data", "board")]
    within = next(entry for entry in ledger.of(lake) if entry.status is NoticeStatus.WITHIN_BOUNDS)
    assert within.data["window"]["periods"] == ["2024-02-01", "2024-02-03"]
    assert sample.notified() == {"small": [False], "large": [True], "small too": [False]}


@pytest.mark.parametrize(
    ("bounds", "amount", "is_told"),
    [
        ({"percent": 50}, 5, False),
        ({"percent": 49.9}, 5, True),
        ({"percent": 50, "absolute": 4}, 5, True),
        ({"percent": 10, "absolute": 9}, 5, True),
        ({"percent": 50, "absolute": 5}, 5, False),
        ({"absolute": 5}, -5, False),
        ({"absolute": 5}, -6, True),
    ],
)
def test_a_change_on_its_bound_is_within_it_and_both_bounds_hold(lake, bounds: Any, amount: int, is_told: bool) -> None:
    sample, channel = published_lake(lake, bounded({"board": {"total": bounds}})), RecordingChannel()
    add(sample, amount)
    assert sample.dispatch(channel).delivered == is_told


@pytest.mark.merge
def test_a_consumer_without_bounds_or_whose_bounds_end_is_told_of_the_last_step(lake) -> None:
    sample, channel = published_lake(lake, bounded()), RecordingChannel()
    add(sample, 3)
    sample.dispatch(channel)
    sample.metrics = [metric("total", "board")]
    add(sample, 1)
    sample.dispatch(channel)
    assert moves(channel) == [(13, 14)]


@pytest.mark.merge
def test_adjustments_of_a_closed_day_add_up_too(lake) -> None:
    sample, channel = published_lake(lake, bounded(publication={"after_close": "adjust"})), RecordingChannel()
    sample.at(12)
    sample.publish()
    add(sample, 3)
    assert sample.dispatch(channel).delivered == 0
    add(sample, 2)
    sample.dispatch(channel)
    assert moves(channel) == [(10, 15)]
    (period,) = channel.messages[0].data["restated"]
    assert (period["before"].partition(".")[2], period["after"].partition(".")[2]) == ("r2", "r2.a2")


@pytest.mark.merge
def test_the_close_of_a_day_in_between_changes_nothing(lake) -> None:
    sample, channel = published_lake(lake, bounded()), RecordingChannel()
    add(sample, 3)
    sample.dispatch(channel)
    sample.at(12)
    sample.publish()
    sample.dispatch(channel)
    add(sample, 2)
    sample.dispatch(channel)
    assert moves(channel) == [(10, 15)]


@pytest.mark.merge
def test_the_growth_of_a_running_week_is_no_change(lake) -> None:
    sample = published_lake(lake, bounded(publication={"rollups": ["week"]}))
    channel = RecordingChannel()
    sample.at(5)
    sample.add_rows(("d", 5, 40), late=0)
    sample.publish()
    sample.dispatch(channel)
    add(sample, 3, day=5)
    sample.dispatch(channel)
    sample.at(6)
    sample.add_rows(("e", 6, 50), late=0)
    sample.publish()
    assert sample.dispatch(channel).delivered == 0
    add(sample, 2, day=6)
    sample.dispatch(channel)
    assert [figures[:3] for message in channel.messages for figures in restated_figures(message)] == [("2024-W06", 90, 95)]
    assert channel.messages[0].data["changed_rows"] == 2


@pytest.mark.merge
def test_what_was_told_in_another_month_is_known(lake) -> None:
    sample, channel = published_lake(lake, bounded()), RecordingChannel()
    add(sample, 3)
    sample.dispatch(channel)
    lake.settings.now = lake.now().replace(month=5)
    add(sample, 2)
    sample.dispatch(channel)
    assert moves(channel) == [(10, 15)]


@pytest.mark.merge
def test_a_webhook_receives_what_added_up(lake) -> None:
    with webhook_server() as receiver:
        lake.settings.alert_targets = [f"chat+{receiver.url}"]
        sample = published_lake(lake, bounded())
        for amount in (3, 2):
            add(sample, amount)
            sample.dispatch(*targets(lake))
    [sent] = receiver.taken
    assert "  total 10 -&gt; 15 (+5, +50.00 %)" in sent["text"]


def model(amounts: list[int], bound: int) -> list[tuple[int, int]]:
    """What a consumer is told, one published number after the other."""
    number = heard = 10
    notices = []
    for amount in amounts:
        number += amount
        if abs(number - heard) > bound:
            notices.append((heard, number))
            heard = number
    return notices


@pytest.mark.merge
@law(100, in_each_run=2)
@given(st.lists(st.tuples(st.integers(-6, 6).filter(bool), st.booleans()), min_size=1, max_size=6))
def test_what_is_told_does_not_depend_on_when_somebody_looks(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, bool]]
) -> None:
    lake = Lake(Settings(root=str(tmp_path_factory.mktemp("lake"))))
    sample, channel = published_lake(lake, bounded()), RecordingChannel()
    for amount, looks in steps:
        add(sample, amount)
        if looks:
            sample.dispatch(channel)
    sample.dispatch(channel)
    assert moves(channel) == model([amount for amount, _ in steps], 4)
