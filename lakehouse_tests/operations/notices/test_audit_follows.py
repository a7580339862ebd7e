"""Which audit rows are marked as notified: those whose change is in numbers that all consumers were notified of. No Spark."""

from __future__ import annotations

import json
from datetime import timedelta
from shutil import rmtree
from typing import TYPE_CHECKING

import pytest

from lakehouse import locations
from lakehouse.calendar.periods import Calendar, Kind
from lakehouse.contracts.series import Series
from lakehouse.gold.publication import held_numbers
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.operations.notices import log as notice_log
from lakehouse_tests.support.audit_of_earlier_release import audit_of_earlier_release
from lakehouse_tests.support.notified_lake import (
    NotifiedLake,
    RecordingChannel,
    metric,
    numbers_from_silver,
    published_lake,
    restated_figures,
)
from lakehouse_tests.support.two_dataset_versions import day

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _added_up() -> Iterator[None]:
    with numbers_from_silver():
        yield


@pytest.mark.merge
def test_a_target_that_was_given_up_is_never_recorded_as_notified(lake) -> None:
    """The notice of ``trailing`` is too old to be sent; that of ``total``, about the same change, was sent a day later."""
    trailing = metric("trailing", "forecast", window=2)
    sample, channel = published_lake(lake, metric("total", "board"), trailing), RecordingChannel(broken="trailing")
    sample.add_rows(("late", 1, 5))
    sample.publish("trailing")
    given_up = lake.now() + notice_log.NOTIFY_WITHIN + timedelta(seconds=1)
    sample.at(5)
    sample.publish("total")
    assert (sample.dispatch(channel).delivered, sample.notified()) == (1, {"late": [False]})
    lake.settings.now = given_up
    channel.broken = None
    assert (sample.dispatch(channel).audited, len(channel.messages)) == (0, 1)
    assert sample.notified() == {"late": [False]}


@pytest.mark.merge
@pytest.mark.parametrize("meanwhile", [True, False])
def test_a_held_number_is_notified_when_it_is_signed_off(lake, meanwhile: bool) -> None:
    limit = {"change": [{"measure": "total", "absolute": 5}]}
    sample, channel = published_lake(lake, metric("total", "board", checks=limit)), RecordingChannel()
    sample.add_rows(("late", 1, 100))
    assert sample.publish()[0].held == [day(1)]
    if meanwhile:
        sample.add_rows(("other", 2, 1))
        sample.publish()
    sample.dispatch(channel)
    assert [restated_figures(message) for message in channel.messages] == [[("2024-02-02", 20, 21, 1, "5.00")]] * meanwhile
    assert sample.notified() == {"late": [False]} | ({"other": [True]} if meanwhile else {})
    run = Run("signed", by="anna")
    held_numbers.sign_off(lake, Series(sample.metrics[0]), Calendar().containing(day(1), Kind.DAY), 2, run, "a big order")
    sample.dispatch(channel)
    assert restated_figures(channel.messages[-1]) == [("2024-02-01", 10, 110, 100, "1000.00")]
    assert set(map(tuple, sample.notified().values())) == {(True,)}


def test_a_change_that_moves_no_number_was_notified_to_nobody(lake) -> None:
    sample, channel = published_lake(lake, metric("total", "board")), RecordingChannel()
    sample.correct("a", source_system="'till'")
    assert sample.publish()[0].revisions == []
    sample.add_rows(("late", 1, 5))
    sample.publish()
    sample.dispatch(channel)
    assert len(channel.messages) == 1
    assert sample.notified() == {"a": [False], "late": [True]}


@pytest.mark.merge
def test_the_audit_waits_for_every_metric_with_consumers(lake) -> None:
    """``total`` is sent at once; ``trailing`` has not followed silver yet, then its target is broken, then all are sent."""
    trailing = metric("trailing", "forecast", window=2)
    sample, channel = published_lake(lake, metric("total", "board"), trailing, metric("unread")), RecordingChannel()
    sample.add_rows(("late", 1, 5))
    sample.publish("total")
    assert sample.dispatch(channel).audited == 0
    channel.broken = "trailing"
    sample.publish("trailing")
    told = sample.dispatch(channel)
    assert (told.audited, told.waiting, told.problems) == (0, 1, ["box is broken"])
    channel.broken = None
    assert sample.dispatch(channel).audited == 1
    assert restated_figures(channel.messages[-1]) == [("2024-02-01", 10, 15, 5, "50.00"), ("2024-02-02", 30, 35, 5, "16.67")]
    assert channel.messages[-1].data["changed_rows"] is None, "a window counts a row on each of its days"
    assert sample.notified() == {"late": [True]}


def test_the_audit_does_not_wait_for_a_number_that_is_held(lake) -> None:
    other = metric("other", "forecast", checks={"change": [{"measure": "total", "absolute": 0}]})
    sample, channel = published_lake(lake, metric("total", "board"), other), RecordingChannel()
    sample.add_rows(("late", 1, 5))
    sample.publish("total")
    assert sample.dispatch(channel).audited == 0
    sample.publish("other")  # it has followed; its number is held
    assert (sample.dispatch(channel).audited, len(channel.messages)) == (1, 1)


def test_audit_rows_that_were_written_late_are_followed_too(lake) -> None:
    """A run was stopped between silver's commit and its audit, and gold followed silver meanwhile."""
    sample, channel = published_lake(lake, metric("total", "board")), RecordingChannel()
    with pytest.MonkeyPatch.context() as stopped:
        stopped.setattr(NotifiedLake, "audit", lambda _: None)
        sample.add_rows(("late", 1, 5))
    sample.publish()
    assert sample.dispatch(channel).audited == 1
    assert sample.notified() == {"late": [True]}


@pytest.mark.merge
def test_what_an_earlier_release_notified_is_not_notified_again(lake) -> None:
    """It was stopped after it marked the audit row, before it recorded that in the notices."""
    sample, channel = published_lake(lake, metric("total", "board")), RecordingChannel()
    sample.add_rows(("late", 1, 5))
    sample.publish()
    assert (sample.dispatch(channel).delivered, sample.notified()) == (1, {"late": [True]})
    audit_of_earlier_release(lake, ["late"])
    rmtree(locations.audit_notifications(lake).address)
    for entry in notice_log.of(lake):
        notice_log.delivered(lake, entry, lake.now())
    dispatch = sample.dispatch(channel)
    assert (dispatch.delivered, dispatch.audited, len(channel.messages)) == (0, 0, 1)
    assert sample.notified() == {"late": [True]}
    sample.add_rows(("later", 1, 6))
    sample.publish()
    assert sample.dispatch(channel).audited == 1
    assert sample.notified() == {"late": [True], "later": [True]}


def test_a_notification_names_its_notices(lake) -> None:
    sample, channel = published_lake(lake, metric("total", "board", "shop")), RecordingChannel()
    sample.add_rows(("late", 1, 5))
    sample.publish()
    sample.dispatch(channel)
    (recorded,) = locations.audit_notifications(lake).read().to_pylist()
    assert json.loads(recorded["notices"]) == sorted(message.message_id for message in channel.messages)
    assert recorded["notified_at"] == lake.now()
