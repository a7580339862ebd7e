"""Consumers with bounds are told of what moves beyond them since they last heard; the rest is recorded. No Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.operations.channels import targets
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


def add(lake: NotifiedLake, amount: int, day: int = 1) -> None:
    """One late row, published."""
    lake.add_rows((f"late {amount} {lake.settings.clock()} {len(lake.notified())}", day, amount))
    lake.publish()


def moves(channel: RecordingChannel) -> list[tuple[Any, Any]]:
    """The numbers before and after in each message about one period."""
    return [figures[1:3] for message in channel.messages for figures in restated_figures(message)]


def test_a_small_change_is_recorded_and_not_told(settings) -> None:
    lake, channel = published_lake(settings, bounded(None, "shop")), RecordingChannel()
    add(lake, 4)
    told = lake.dispatch(channel)
    assert (told.delivered, told.waiting) == (1, 0)
    assert channel.sent == [("total restated for 2024-02-01: late_data", "shop")]
    recorded = {entry.consumer: (entry.target, entry.status, entry.unheard) for entry in ledger.of(settings)}
    assert recorded == {
        "board": ("none", NoticeStatus.WITHIN_BOUNDS, {"total_v2024-02-01.r2": "total_v2024-02-01.r1"}),
        "shop": ("box", NoticeStatus.AUDITED, {}),
    }
    assert lake.dispatch(channel).delivered == 0


@pytest.mark.merge
def test_small_changes_that_add_up_are_told_as_one(settings) -> None:
    lake, channel = published_lake(settings, bounded()), RecordingChannel()
    for amount in (2, 2):
        add(lake, amount)
        assert lake.dispatch(channel).delivered == 0
    assert lake.notified().popitem()[1] == [False], "nobody was told"
    add(lake, 1)
    lake.dispatch(channel)
    assert moves(channel) == [(10, 15)]
    (period,) = channel.messages[0].data["restated"]
    assert (period["before"], period["after"]) == ("total_v2024-02-01.r1", "total_v2024-02-01.r4")
    assert (period["changed_rows"], period["earlier_changes"]) == (3, 2)
    assert "with earlier changes that lay within your bounds: 2" in channel.messages[0].text
    assert set(map(tuple, lake.notified().values())) == {(True,)}, "the audit knows of all three"
    add(lake, 3)
    assert lake.dispatch(channel).delivered == 0, "what was told is what the next change is compared with"
    add(lake, 2)
    lake.dispatch(channel)
    assert moves(channel)[1:] == [(15, 20)]


@pytest.mark.merge
def test_changes_that_cancel_out_are_not_told(settings) -> None:
    lake, channel = published_lake(settings, bounded()), RecordingChannel()
    for amount in (3, -3, -3, 3, 4, -8):
        add(lake, amount)
        assert lake.dispatch(channel).delivered == 0
    add(lake, -1)
    lake.dispatch(channel)
    assert moves(channel) == [(10, 5)]


def test_only_the_periods_beyond_the_bounds_are_told(settings) -> None:
    lake, channel = published_lake(settings, bounded()), RecordingChannel()
    lake.add_rows(("small", 1, 1), ("large", 2, 50), ("small too", 3, -4))
    lake.publish()
    lake.dispatch(channel)
    assert channel.sent == [("total restated for 2024-02-02: late_data", "board")]
    within = next(entry for entry in ledger.of(settings) if entry.status is NoticeStatus.WITHIN_BOUNDS)
    assert within.data["window"]["periods"] == ["2024-02-01", "2024-02-03"]
    assert lake.notified() == {"small": [False], "large": [True], "small too": [False]}


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
def test_a_change_on_its_bound_is_within_it_and_both_bounds_hold(settings, bounds: Any, amount: int, is_told: bool) -> None:
    lake, channel = published_lake(settings, bounded({"board": {"total": bounds}})), RecordingChannel()
    add(lake, amount)
    assert lake.dispatch(channel).delivered == is_told


@pytest.mark.merge
def test_a_consumer_without_bounds_or_whose_bounds_end_is_told_of_the_last_step(settings) -> None:
    lake, channel = published_lake(settings, bounded()), RecordingChannel()
    add(lake, 3)
    lake.dispatch(channel)
    lake.metrics = [metric("total", "board")]
    add(lake, 1)
    lake.dispatch(channel)
    assert moves(channel) == [(13, 14)]


@pytest.mark.merge
def test_adjustments_of_a_closed_day_add_up_too(settings) -> None:
    lake, channel = published_lake(settings, bounded(publication={"after_close": "adjust"})), RecordingChannel()
    lake.at(12)
    lake.publish()
    add(lake, 3)
    assert lake.dispatch(channel).delivered == 0
    add(lake, 2)
    lake.dispatch(channel)
    assert moves(channel) == [(10, 15)]
    (period,) = channel.messages[0].data["restated"]
    assert (period["before"].partition(".")[2], period["after"].partition(".")[2]) == ("r2", "r2.a2")


@pytest.mark.merge
def test_the_close_of_a_day_in_between_changes_nothing(settings) -> None:
    lake, channel = published_lake(settings, bounded()), RecordingChannel()
    add(lake, 3)
    lake.dispatch(channel)
    lake.at(12)
    lake.publish()
    lake.dispatch(channel)
    add(lake, 2)
    lake.dispatch(channel)
    assert moves(channel) == [(10, 15)]


@pytest.mark.merge
def test_the_growth_of_a_running_week_is_no_change(settings) -> None:
    lake = published_lake(settings, bounded(publication={"rollups": ["week"]}))
    channel = RecordingChannel()
    lake.at(5)
    lake.add_rows(("d", 5, 40), late=0)
    lake.publish()
    lake.dispatch(channel)
    add(lake, 3, day=5)
    lake.dispatch(channel)
    lake.at(6)
    lake.add_rows(("e", 6, 50), late=0)
    lake.publish()
    assert lake.dispatch(channel).delivered == 0
    add(lake, 2, day=6)
    lake.dispatch(channel)
    assert [figures[:3] for message in channel.messages for figures in restated_figures(message)] == [("2024-W06", 90, 95)]
    assert channel.messages[0].data["changed_rows"] == 2


@pytest.mark.merge
def test_what_was_told_in_another_month_is_known(settings) -> None:
    lake, channel = published_lake(settings, bounded()), RecordingChannel()
    add(lake, 3)
    lake.dispatch(channel)
    settings.now = settings.clock().replace(month=5)
    add(lake, 2)
    lake.dispatch(channel)
    assert moves(channel) == [(10, 15)]


@pytest.mark.merge
def test_a_webhook_receives_what_added_up(settings) -> None:
    with webhook_server() as receiver:
        settings.alert_targets = [f"chat+{receiver.url}"]
        lake = published_lake(settings, bounded())
        for amount in (3, 2):
            add(lake, amount)
            lake.dispatch(*targets(settings))
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
    settings = Settings(root=str(tmp_path_factory.mktemp("lake")))
    lake, channel = published_lake(settings, bounded()), RecordingChannel()
    for amount, looks in steps:
        add(lake, amount)
        if looks:
            lake.dispatch(channel)
    lake.dispatch(channel)
    assert moves(channel) == model([amount for amount, _ in steps], 4)
