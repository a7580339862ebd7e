"""Which publications are told, to whom, and what a notice says of them. No Spark; the commits are real."""

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
from lakehouse_tests.support.notified_lake import Box, Shop, added_up, figures, metric, opened
from lakehouse_tests.support.two_dataset_versions import promote

if TYPE_CHECKING:
    from collections.abc import Iterator

ONE = "total restated for 2024-02-01: late_data"


@pytest.fixture(autouse=True)
def _added_up() -> Iterator[None]:
    with added_up():
        yield


def test_each_consumer_is_told_once_what_the_number_was_and_is(settings) -> None:
    shop, box = opened(settings), Box()
    shop.sell(("late", 1, 5))
    shop.publish()
    told = shop.tell(box)
    assert (told.delivered, told.waiting, told.audited, told.problems) == (2, 0, 1, [])
    assert box.said == [(ONE, "board"), (ONE, "shop")]
    assert [figures(message) for message in box.messages] == [[("2024-02-01", 10, 15, 5, "50.00")]] * 2
    (one,) = box.messages[0].data["restated"]
    assert (one["before"], one["after"]) == ("total_v2024-02-01.r1", "total_v2024-02-01.r2")
    assert (one["state"], one["reason"], one["changed_rows"]) == ("preliminary", "late_data", 1)
    assert box.messages[0].data["publication_id"] == publications.of(settings, "total")[-1].publication_id
    assert shop.notified() == {"late": [True]}
    version = DeltaTable(locations.notices(settings)).version()
    assert (shop.tell(box).delivered, len(box.messages)) == (0, 2)
    assert DeltaTable(locations.notices(settings)).version() == version, "a look that finds nothing writes nothing"


def test_first_numbers_and_changes_of_state_are_not_told(settings) -> None:
    shop, box = opened(settings), Box()
    shop.sell(("d", 4, 40))
    shop.publish()
    shop.at(5)
    assert {one.reason.value for one in shop.publish()[0].revisions} == {"daily_finalization"}
    shop.at(11)
    shop.publish()
    assert (shop.tell(box).delivered, box.messages, ledger.of(settings)) == (0, [], [])
    assert shop.notified() == {"d": [False]}, "it came late, and moved no number that anybody had seen"


def test_one_publication_is_one_notice_of_all_its_periods(settings) -> None:
    shop, box = opened(settings, metric("total", "board")), Box()
    shop.sell(("late 1", 1, 5), ("late 3", 3, 3), ("new", 4, 1))
    shop.correct("c", amount="10")
    shop.publish()
    shop.tell(box)
    assert box.said == [("total restated for 2 periods, 2024-02-01 to 2024-02-03: correction, late_data", "board")]
    assert figures(box.messages[0]) == [("2024-02-01", 10, 15, 5, "50.00"), ("2024-02-03", 30, 13, -17, "-56.67")]
    assert box.messages[0].data["changed_rows"] == 3


def test_what_was_published_before_the_first_look_is_not_told(settings) -> None:
    shop, box = Shop(settings), Box()
    shop.at(4)
    for number in range(3):
        shop.sell((f"{number}", 1, 1))
        shop.publish()
    assert shop.tell(box).delivered == 0
    shop.sell(("late", 1, 5))
    shop.publish()
    assert (shop.tell(box).delivered, box.said) == (2, [(ONE, "board"), (ONE, "shop")])
    assert shop.notified() == {"0": [False], "1": [False], "2": [False], "late": [True]}


def test_a_metric_that_is_new_is_told_of_from_its_first_restatement_on(settings) -> None:
    shop, box = Shop(settings), Box()
    shop.at(4)
    assert shop.tell(box).delivered == 0, "there is no table yet"
    shop.sell(("a", 1, 10))
    shop.publish()
    shop.sell(("late", 1, 5))
    shop.publish()
    shop.tell(box)
    assert box.said == [(ONE, "board"), (ONE, "shop")]


def test_what_a_replay_publishes_is_no_news(settings) -> None:
    shop, box = opened(settings), Box()
    shop.sell(("late", 1, 5))
    shop.publish()
    settings.now = settings.clock() + notice_pending.NOTIFY_WITHIN + timedelta(seconds=1)
    assert (shop.tell(box).delivered, ledger.of(settings)) == (0, [])


def test_what_could_not_be_delivered_for_seven_days_is_given_up(settings) -> None:
    shop, box = opened(settings), Box(broken="restated")
    shop.sell(("late", 1, 5))
    shop.publish()
    assert (shop.tell(box).waiting, shop.notified()) == (2, {"late": [False]})
    box.broken = None
    settings.now = settings.clock() + notice_pending.NOTIFY_WITHIN + timedelta(seconds=1)
    told = shop.tell(box)
    assert (told.delivered, told.waiting, box.messages) == (0, 0, [])
    assert [entry.status for entry in ledger.of(settings)] == [NoticeStatus.WAITING] * 2
    assert shop.notified() == {"late": [False]}


def test_a_longer_period_waits_for_its_target_too(settings) -> None:
    shop, box = opened(settings, metric("total", "board", publication={"rollups": ["week"]})), Box(broken="weekly")
    shop.sell(("late", 1, 5))
    shop.publish()
    told = shop.tell(box)
    assert (told.delivered, told.waiting, told.audited) == (1, 1, 1), "the audit does not wait for longer periods"
    box.broken = None
    assert (shop.tell(box).delivered, shop.tell(box).delivered) == (1, 0)
    assert box.said[-1] == ("total_weekly restated for 2024-W05: late_data", "board")


def test_a_metric_that_nobody_reads_is_told_to_nobody(settings) -> None:
    shop, box = opened(settings, metric("total"), metric("beside", "board", dataset_version=2)), Box()
    shop.sell(("late", 1, 5))
    shop.publish()
    assert (shop.tell(box).delivered, ledger.has_begun(settings)) == (0, False)
    assert shop.notified() == {"late": [False]}


def test_without_targets_nothing_waits_for_one(settings) -> None:
    shop, box = opened(settings), Box()
    shop.sell(("late", 1, 5))
    shop.publish()
    shop.tell()
    assert (shop.tell(box).delivered, ledger.of(settings), shop.notified()) == (0, [], {"late": [False]})


def test_more_publications_than_fit_into_one_look_are_told_in_the_next(settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notice_pending, "_AT_ONCE", 2)
    shop, box = opened(settings, metric("total", "board")), Box()
    for number in range(5):
        shop.sell((f"late {number}", 1, 1))
        shop.publish()
    assert [shop.tell(box).delivered for _ in range(4)] == [2, 2, 1, 0]
    assert [figures(message)[0][1:3] for message in box.messages] == [(10 + number, 11 + number) for number in range(5)]
    assert set(map(tuple, shop.notified().values())) == {(True,)}


def test_an_adjustment_is_told_with_what_the_books_say(settings) -> None:
    shop, box = opened(settings, metric("total", "board", publication={"after_close": "adjust"})), Box()
    shop.at(12)
    shop.publish()
    for number in (5, 7):
        shop.sell((f"late {number}", 1, number))
        shop.publish()
    shop.tell(box)
    assert [figures(message) for message in box.messages] == [
        [("2024-02-01", 10, 15, 5, "50.00")],
        [("2024-02-01", 15, 22, 7, "46.67")],
    ]
    told = [message.data["restated"][0] for message in box.messages]
    assert [(one["before"].partition(".")[2], one["after"].partition(".")[2]) for one in told] == [
        ("r2", "r2.a1"),
        ("r2.a1", "r2.a2"),
    ]
    assert {(one["state"], one["booked_on"]) for one in told} == {("final", "2024-02-12")}
    assert "the closed number stays" in box.messages[0].text
    assert shop.notified() == {"late 5": [True], "late 7": [True]}
    shop.metrics = [metric("total", "board")]
    shop.sell(("late 9", 1, 9))
    shop.publish()
    shop.tell(box)
    assert figures(box.messages[-1]) == [("2024-02-01", 22, 31, 9, "40.91")], "a restatement takes in what was booked"


def test_longer_periods_have_notices_of_their_own_and_growing_is_no_restatement(settings) -> None:
    shop, box = opened(settings, metric("total", "board", publication={"rollups": ["week"]})), Box()
    shop.at(5)
    shop.sell(("d", 5, 40), late=0)
    shop.publish()
    shop.sell(("e", 6, 50), late=0)
    shop.publish()
    shop.at(6)
    shop.correct("d", source_system="'till'")
    shop.publish()
    assert shop.tell(box).delivered == 0
    shop.sell(("late", 5, 5), ("late too", 5, 1))
    shop.publish()
    shop.tell(box)
    assert sorted(subject for subject, _ in box.said) == [
        "total restated for 2024-02-05: late_data",
        "total_weekly restated for 2024-W06: late_data",
    ]
    weekly = next(message for message in box.messages if "weekly" in message.subject)
    assert figures(weekly) == [("2024-W06", 90, 96, 6, "6.67")]
    assert (weekly.data["changed_rows"], weekly.data["metric"]) == (2, "total")
    assert {entry.status for entry in ledger.of(settings)} == {NoticeStatus.AUDITED}


def test_a_promotion_is_told_with_its_reason_and_what_is_filled_beside_is_not(settings) -> None:
    shop, box = opened(settings, metric("total", "board")), Box()
    shop.metrics.append(metric("total", "board", dataset_version=2))
    shop.publish("total_v2")
    shop.sell(("late", 1, 5))
    shop.publish("total_v2")
    assert shop.tell(box).delivered == 0
    promote(settings, shop.catalog)
    shop.tell(box)
    assert [figures(message) for message in box.messages] == [[("2024-02-01", 10, 15, 5, "50.00")]]
    assert "manual: promoted to v2 by ana: net of refunds" in box.messages[0].text


def test_a_contract_of_a_promoted_version_that_is_gone_is_a_sentence_and_stops_no_other(settings) -> None:
    shop, box = opened(settings, metric("total", "board"), metric("other", "board")), Box()
    shop.metrics.append(metric("total", "board", dataset_version=2))
    shop.publish("total_v2")
    promote(settings, shop.catalog)
    shop.sell(("late", 1, 5))
    shop.publish("other")
    shop.metrics.pop()
    told = shop.tell(box)
    assert box.said == [("other restated for 2024-02-01: late_data", "board")]
    assert len(told.problems) == 1
    assert "put its file back" in told.problems[0]
