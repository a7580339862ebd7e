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
from lakehouse.delta import table_io
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
def test_a_target_that_was_given_up_is_never_recorded_as_notified(settings) -> None:
    """The notice of ``trailing`` is too old to be sent; that of ``total``, about the same change, was sent a day later."""
    trailing = metric("trailing", "forecast", window=2)
    lake, channel = published_lake(settings, metric("total", "board"), trailing), RecordingChannel(broken="trailing")
    lake.add_rows(("late", 1, 5))
    lake.publish("trailing")
    given_up = settings.clock() + notice_log.NOTIFY_WITHIN + timedelta(seconds=1)
    lake.at(5)
    lake.publish("total")
    assert (lake.dispatch(channel).delivered, lake.notified()) == (1, {"late": [False]})
    settings.now = given_up
    channel.broken = None
    assert (lake.dispatch(channel).audited, len(channel.messages)) == (0, 1)
    assert lake.notified() == {"late": [False]}


@pytest.mark.merge
@pytest.mark.parametrize("meanwhile", [True, False])
def test_a_held_number_is_notified_when_it_is_signed_off(settings, meanwhile: bool) -> None:
    limit = {"change": [{"measure": "total", "absolute": 5}]}
    lake, channel = published_lake(settings, metric("total", "board", checks=limit)), RecordingChannel()
    lake.add_rows(("late", 1, 100))
    assert lake.publish()[0].held == [day(1)]
    if meanwhile:
        lake.add_rows(("other", 2, 1))
        lake.publish()
    lake.dispatch(channel)
    assert [restated_figures(message) for message in channel.messages] == [[("2024-02-02", 20, 21, 1, "5.00")]] * meanwhile
    assert lake.notified() == {"late": [False]} | ({"other": [True]} if meanwhile else {})
    run = Run("signed", by="anna")
    held_numbers.sign_off(settings, Series(lake.metrics[0]), Calendar().containing(day(1), Kind.DAY), 2, run, "a big order")
    lake.dispatch(channel)
    assert restated_figures(channel.messages[-1]) == [("2024-02-01", 10, 110, 100, "1000.00")]
    assert set(map(tuple, lake.notified().values())) == {(True,)}


def test_a_change_that_moves_no_number_was_notified_to_nobody(settings) -> None:
    lake, channel = published_lake(settings, metric("total", "board")), RecordingChannel()
    lake.correct("a", source_system="'till'")
    assert lake.publish()[0].revisions == []
    lake.add_rows(("late", 1, 5))
    lake.publish()
    lake.dispatch(channel)
    assert len(channel.messages) == 1
    assert lake.notified() == {"a": [False], "late": [True]}


@pytest.mark.merge
def test_the_audit_waits_for_every_metric_with_consumers(settings) -> None:
    """``total`` is sent at once; ``trailing`` has not followed silver yet, then its target is broken, then all are sent."""
    trailing = metric("trailing", "forecast", window=2)
    lake, channel = published_lake(settings, metric("total", "board"), trailing, metric("unread")), RecordingChannel()
    lake.add_rows(("late", 1, 5))
    lake.publish("total")
    assert lake.dispatch(channel).audited == 0
    channel.broken = "trailing"
    lake.publish("trailing")
    told = lake.dispatch(channel)
    assert (told.audited, told.waiting, told.problems) == (0, 1, ["box is broken"])
    channel.broken = None
    assert lake.dispatch(channel).audited == 1
    assert restated_figures(channel.messages[-1]) == [("2024-02-01", 10, 15, 5, "50.00"), ("2024-02-02", 30, 35, 5, "16.67")]
    assert channel.messages[-1].data["changed_rows"] is None, "a window counts a row on each of its days"
    assert lake.notified() == {"late": [True]}


def test_the_audit_does_not_wait_for_a_number_that_is_held(settings) -> None:
    other = metric("other", "forecast", checks={"change": [{"measure": "total", "absolute": 0}]})
    lake, channel = published_lake(settings, metric("total", "board"), other), RecordingChannel()
    lake.add_rows(("late", 1, 5))
    lake.publish("total")
    assert lake.dispatch(channel).audited == 0
    lake.publish("other")  # it has followed; its number is held
    assert (lake.dispatch(channel).audited, len(channel.messages)) == (1, 1)


def test_audit_rows_that_were_written_late_are_followed_too(settings) -> None:
    """A run was stopped between silver's commit and its audit, and gold followed silver meanwhile."""
    lake, channel = published_lake(settings, metric("total", "board")), RecordingChannel()
    with pytest.MonkeyPatch.context() as stopped:
        stopped.setattr(NotifiedLake, "audit", lambda _: None)
        lake.add_rows(("late", 1, 5))
    lake.publish()
    assert lake.dispatch(channel).audited == 1
    assert lake.notified() == {"late": [True]}


@pytest.mark.merge
def test_what_an_earlier_release_notified_is_not_notified_again(settings) -> None:
    """It was stopped after it marked the audit row, before it recorded that in the notices."""
    lake, channel = published_lake(settings, metric("total", "board")), RecordingChannel()
    lake.add_rows(("late", 1, 5))
    lake.publish()
    assert (lake.dispatch(channel).delivered, lake.notified()) == (1, {"late": [True]})
    audit_of_earlier_release(settings, ["late"])
    rmtree(locations.audit_notifications(settings))
    for entry in notice_log.of(settings):
        notice_log.delivered(settings, entry, settings.clock())
    dispatch = lake.dispatch(channel)
    assert (dispatch.delivered, dispatch.audited, len(channel.messages)) == (0, 0, 1)
    assert lake.notified() == {"late": [True]}
    lake.add_rows(("later", 1, 6))
    lake.publish()
    assert lake.dispatch(channel).audited == 1
    assert lake.notified() == {"late": [True], "later": [True]}


def test_a_notification_names_its_notices(settings) -> None:
    lake, channel = published_lake(settings, metric("total", "board", "shop")), RecordingChannel()
    lake.add_rows(("late", 1, 5))
    lake.publish()
    lake.dispatch(channel)
    (recorded,) = table_io.read(locations.audit_notifications(settings)).to_pylist()
    assert json.loads(recorded["notices"]) == sorted(message.message_id for message in channel.messages)
    assert recorded["notified_at"] == settings.clock()
