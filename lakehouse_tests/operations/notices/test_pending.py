"""Which publications are notified, to whom, and with which contents. No Spark; the commits are real."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from lakehouse import locations
from lakehouse.ledger import publications
from lakehouse.operations.notices import log as ledger
from lakehouse.operations.notices import pending as notice_pending
from lakehouse.operations.notices.log import NoticeStatus
from lakehouse_tests.support.notified_lake import (
    NotifiedLake,
    RecordingChannel,
    metric,
    numbers_from_silver,
    published_lake,
    restated_figures,
)
from lakehouse_tests.support.two_dataset_versions import promote

if TYPE_CHECKING:
    from collections.abc import Iterator

ONE = "total restated for 2024-02-01: late_data"


@pytest.fixture(autouse=True)
def _added_up() -> Iterator[None]:
    with numbers_from_silver():
        yield


def test_each_consumer_is_notified_once_of_the_old_and_the_new_number(lake) -> None:
    sample, channel = published_lake(lake), RecordingChannel()
    sample.add_rows(("late", 1, 5))
    sample.publish()
    told = sample.dispatch(channel)
    assert (told.delivered, told.waiting, told.audited, told.problems) == (2, 0, 1, [])
    assert channel.sent == [(ONE, "board"), (ONE, "shop")]
    assert [restated_figures(message) for message in channel.messages] == [[("2024-02-01", 10, 15, 5, "50.00")]] * 2
    (one,) = channel.messages[0].data["restated"]
    assert (one["before"], one["after"]) == ("total_v2024-02-01.r1", "total_v2024-02-01.r2")
    assert (one["state"], one["reason"], one["changed_rows"]) == ("preliminary", "late_data", 1)
    assert channel.messages[0].data["publication_id"] == publications.of(lake, "total")[-1].publication_id
    assert sample.notified() == {"late": [True]}
    version = DeltaTable(locations.notices(lake).address).version()
    assert (sample.dispatch(channel).delivered, len(channel.messages)) == (0, 2)
    assert DeltaTable(locations.notices(lake).address).version() == version, "a look that finds nothing writes nothing"


@pytest.mark.merge
def test_first_numbers_and_changes_of_state_are_not_notified(lake) -> None:
    sample, channel = published_lake(lake), RecordingChannel()
    sample.add_rows(("d", 4, 40))
    sample.publish()
    sample.at(5)
    assert {one.reason.value for one in sample.publish()[0].revisions} == {"daily_finalization"}
    sample.at(11)
    sample.publish()
    assert (sample.dispatch(channel).delivered, channel.messages, ledger.of(lake)) == (0, [], [])
    assert sample.notified() == {"d": [False]}, "it came late, and moved no number that anybody had seen"


def test_one_publication_is_one_notice_of_all_its_periods(lake) -> None:
    sample, channel = published_lake(lake, metric("total", "board")), RecordingChannel()
    sample.add_rows(("late 1", 1, 5), ("late 3", 3, 3), ("new", 4, 1))
    sample.correct("c", amount="10")
    sample.publish()
    sample.dispatch(channel)
    assert channel.sent == [("total restated for 2 periods, 2024-02-01 to 2024-02-03: correction, late_data", "board")]
    assert restated_figures(channel.messages[0]) == [("2024-02-01", 10, 15, 5, "50.00"), ("2024-02-03", 30, 13, -17, "-56.67")]
    assert channel.messages[0].data["changed_rows"] == 3


@pytest.mark.merge
def test_publications_before_the_first_scan_are_not_notified(lake) -> None:
    sample, channel = NotifiedLake(lake), RecordingChannel()
    sample.at(4)
    for number in range(3):
        sample.add_rows((f"{number}", 1, 1))
        sample.publish()
    assert sample.dispatch(channel).delivered == 0
    sample.add_rows(("late", 1, 5))
    sample.publish()
    assert (sample.dispatch(channel).delivered, channel.sent) == (2, [(ONE, "board"), (ONE, "shop")])
    assert sample.notified() == {"0": [False], "1": [False], "2": [False], "late": [True]}


def test_a_new_metric_is_notified_from_its_first_restatement_on(lake) -> None:
    sample, channel = NotifiedLake(lake), RecordingChannel()
    sample.at(4)
    assert sample.dispatch(channel).delivered == 0, "there is no table yet"
    sample.add_rows(("a", 1, 10))
    sample.publish()
    sample.add_rows(("late", 1, 5))
    sample.publish()
    sample.dispatch(channel)
    assert channel.sent == [(ONE, "board"), (ONE, "shop")]


def test_what_a_replay_publishes_is_no_news(lake) -> None:
    sample, channel = published_lake(lake), RecordingChannel()
    sample.add_rows(("late", 1, 5))
    sample.publish()
    lake.settings.now = lake.now() + ledger.NOTIFY_WITHIN + timedelta(seconds=1)
    assert (sample.dispatch(channel).delivered, ledger.of(lake)) == (0, [])


def test_undelivered_messages_are_given_up_after_seven_days(lake) -> None:
    sample, channel = published_lake(lake), RecordingChannel(broken="restated")
    sample.add_rows(("late", 1, 5))
    sample.publish()
    assert (sample.dispatch(channel).waiting, sample.notified()) == (2, {"late": [False]})
    channel.broken = None
    lake.settings.now = lake.now() + ledger.NOTIFY_WITHIN + timedelta(seconds=1)
    told = sample.dispatch(channel)
    assert (told.delivered, told.waiting, channel.messages) == (0, 0, [])
    assert [entry.status for entry in ledger.of(lake)] == [NoticeStatus.WAITING] * 2
    assert sample.notified() == {"late": [False]}


@pytest.mark.merge
def test_a_longer_period_waits_for_its_target_too(lake) -> None:
    sample, channel = (
        published_lake(lake, metric("total", "board", publication={"rollups": ["week"]})),
        RecordingChannel(broken="weekly"),
    )
    sample.add_rows(("late", 1, 5))
    sample.publish()
    told = sample.dispatch(channel)
    assert (told.delivered, told.waiting, told.audited) == (1, 1, 1), "the audit does not wait for longer periods"
    channel.broken = None
    assert (sample.dispatch(channel).delivered, sample.dispatch(channel).delivered) == (1, 0)
    assert channel.sent[-1] == ("total_weekly restated for 2024-W05: late_data", "board")


@pytest.mark.merge
def test_a_metric_without_consumers_notifies_nobody(lake) -> None:
    sample, channel = published_lake(lake, metric("total"), metric("beside", "board", dataset_version=2)), RecordingChannel()
    sample.add_rows(("late", 1, 5))
    sample.publish()
    assert (sample.dispatch(channel).delivered, ledger.has_begun(lake)) == (0, False)
    assert sample.notified() == {"late": [False]}


def test_without_targets_nothing_waits_for_one(lake) -> None:
    sample, channel = published_lake(lake), RecordingChannel()
    sample.add_rows(("late", 1, 5))
    sample.publish()
    sample.dispatch()
    assert (sample.dispatch(channel).delivered, ledger.of(lake), sample.notified()) == (0, [], {"late": [False]})


@pytest.mark.merge
def test_more_publications_than_fit_into_one_scan_are_notified_by_the_next(lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notice_pending, "_AT_ONCE", 2)
    sample, channel = published_lake(lake, metric("total", "board")), RecordingChannel()
    for number in range(5):
        sample.add_rows((f"late {number}", 1, 1))
        sample.publish()
    assert [sample.dispatch(channel).delivered for _ in range(4)] == [2, 2, 1, 0]
    assert [restated_figures(message)[0][1:3] for message in channel.messages] == [
        (10 + number, 11 + number) for number in range(5)
    ]
    assert set(map(tuple, sample.notified().values())) == {(True,)}


@pytest.mark.merge
def test_an_adjustment_is_notified_as_it_is_booked(lake) -> None:
    sample, channel = published_lake(lake, metric("total", "board", publication={"after_close": "adjust"})), RecordingChannel()
    sample.at(12)
    sample.publish()
    for number in (5, 7):
        sample.add_rows((f"late {number}", 1, number))
        sample.publish()
    sample.dispatch(channel)
    assert [restated_figures(message) for message in channel.messages] == [
        [("2024-02-01", 10, 15, 5, "50.00")],
        [("2024-02-01", 15, 22, 7, "46.67")],
    ]
    restated = [message.data["restated"][0] for message in channel.messages]
    assert [(one["before"].partition(".")[2], one["after"].partition(".")[2]) for one in restated] == [
        ("r2", "r2.a1"),
        ("r2.a1", "r2.a2"),
    ]
    assert {(one["state"], one["booked_on"]) for one in restated} == {("final", "2024-02-12")}
    assert "the closed number stays" in channel.messages[0].text
    assert sample.notified() == {"late 5": [True], "late 7": [True]}
    sample.metrics = [metric("total", "board")]
    sample.add_rows(("late 9", 1, 9))
    sample.publish()
    sample.dispatch(channel)
    assert restated_figures(channel.messages[-1]) == [("2024-02-01", 22, 31, 9, "40.91")], (
        "a restatement takes in what was booked"
    )


@pytest.mark.merge
def test_longer_periods_have_notices_of_their_own_and_growing_is_no_restatement(lake) -> None:
    sample, channel = published_lake(lake, metric("total", "board", publication={"rollups": ["week"]})), RecordingChannel()
    sample.at(5)
    sample.add_rows(("d", 5, 40), late=0)
    sample.publish()
    sample.add_rows(("e", 6, 50), late=0)
    sample.publish()
    sample.at(6)
    sample.correct("d", source_system="'till'")
    sample.publish()
    assert sample.dispatch(channel).delivered == 0
    sample.add_rows(("late", 5, 5), ("late too", 5, 1))
    sample.publish()
    sample.dispatch(channel)
    assert sorted(subject for subject, _ in channel.sent) == [
        "total restated for 2024-02-05: late_data",
        "total_weekly restated for 2024-W06: late_data",
    ]
    weekly = next(message for message in channel.messages if "weekly" in message.subject)
    assert restated_figures(weekly) == [("2024-W06", 90, 96, 6, "6.67")]
    assert (weekly.data["changed_rows"], weekly.data["metric"]) == (2, "total")
    assert {entry.status for entry in ledger.of(lake)} == {NoticeStatus.AUDITED}


@pytest.mark.merge
def test_a_promotion_is_notified_with_its_reason_and_filling_another_version_is_not(lake) -> None:
    sample, channel = published_lake(lake, metric("total", "board")), RecordingChannel()
    sample.metrics.append(metric("total", "board", dataset_version=2))
    sample.publish("total_v2")
    sample.add_rows(("late", 1, 5))
    sample.publish("total_v2")
    assert sample.dispatch(channel).delivered == 0
    promote(lake, sample.catalog)
    sample.dispatch(channel)
    assert [restated_figures(message) for message in channel.messages] == [[("2024-02-01", 10, 15, 5, "50.00")]]
    assert "manual: promoted to v2 by ana: net of refunds" in channel.messages[0].text


@pytest.mark.merge
def test_a_missing_contract_of_a_promoted_version_is_reported_and_stops_no_other(lake) -> None:
    sample, channel = published_lake(lake, metric("total", "board"), metric("other", "board")), RecordingChannel()
    sample.metrics.append(metric("total", "board", dataset_version=2))
    sample.publish("total_v2")
    promote(lake, sample.catalog)
    sample.add_rows(("late", 1, 5))
    sample.publish("other")
    sample.metrics.pop()
    told = sample.dispatch(channel)
    assert channel.sent == [("other restated for 2024-02-01: late_data", "board")]
    assert len(told.problems) == 1
    assert "put its file back" in told.problems[0]
