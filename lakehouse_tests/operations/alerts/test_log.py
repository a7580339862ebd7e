"""Alerts are opened, notified and resolved in a real table, whatever is stopped in between."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from lakehouse import locations
from lakehouse.operations.alerts import log as alert_log
from lakehouse.operations.alerts.alert import Alert, AlertKind

if TYPE_CHECKING:
    from lakehouse.lake import Lake
    from lakehouse.operations.alerts.log import AlertRecord

SINCE = datetime(2024, 2, 1, 12, tzinfo=timezone.utc)
LATE = Alert(AlertKind.LATE_SHARE, "sales", "sales", SINCE, "too late", ["anna"], {"share": 0.5})
HELD = Alert(AlertKind.HELD, "revenue", "revenue", SINCE, "held", ["anna", "ben"], {}, "2024-02-01")


def stays(_: Alert) -> bool:
    return False


def everybody(_: Alert) -> list[str]:
    return ["log"]


def look(
    lake: Lake, *conditions: Alert, unread: tuple[str, ...] = (), to: tuple[str, ...] = ("log", "hook")
) -> list[AlertRecord]:
    return alert_log.record(lake, alert_log.all_of(lake), conditions, lambda alert: alert.contract in unread, lambda _: to)


def test_without_conditions_nothing_is_written(lake: Lake) -> None:
    assert alert_log.all_of(lake) == []
    assert look(lake) == []
    assert locations.alerts(lake).open() is None, "nothing is written either"


def test_what_is_read_is_what_was_recorded(lake: Lake) -> None:
    written = look(lake, LATE, HELD)
    assert sorted(alert_log.all_of(lake), key=str) == sorted(written, key=str)
    assert {one.alert.key for one in written} == {LATE.key, HELD.key}
    assert alert_log.all_of(lake)[0].opened_at == lake.now()


def test_an_alert_seen_again_is_the_same_one(lake: Lake) -> None:
    [first] = look(lake, LATE)
    lake.settings.now = lake.now() + timedelta(hours=1)
    later = Alert(AlertKind.LATE_SHARE, "sales", "sales", SINCE + timedelta(minutes=5), "even later", ["anna"], {"share": 0.6})
    [again] = look(lake, later)
    assert (again.alert_id, again.opened_at, again.alert.since) == (first.alert_id, first.opened_at, SINCE)
    table = locations.alerts(lake).open()
    assert table is not None
    assert table.version() == 1, "and nothing is written after the first alert"


def test_it_is_resolved_once_its_condition_is_gone_and_comes_back_as_another(lake: Lake) -> None:
    [first] = look(lake, LATE)
    lake.settings.now = lake.now() + timedelta(hours=1)
    [resolved] = look(lake)
    assert (resolved.alert_id, resolved.resolved_at) == (first.alert_id, lake.now())
    lake.settings.now = lake.now() + timedelta(hours=1)
    assert len(look(lake)) == 1, "it is not resolved again"
    old, new = look(lake, LATE)
    assert (old.resolved_at, new.resolved_at) == (resolved.resolved_at, None)
    assert old.alert_id != new.alert_id


def test_of_what_could_not_be_read_alerts_stay_open(lake: Lake) -> None:
    look(lake, LATE, HELD)
    after = {one.alert.contract: one.resolved_at for one in look(lake, unread=("sales",))}
    assert after["sales"] is None
    assert after["revenue"] is not None


def test_deliveries_are_awaited_per_target_and_per_message(lake: Lake) -> None:
    [entry] = look(lake, LATE)
    assert (entry.waiting("opened"), entry.waiting("resolved")) == (["log", "hook"], [])
    alert_log.record_delivery(lake, [entry], "opened", ["log"])
    [entry] = look(lake)
    assert (entry.waiting("opened"), entry.waiting("resolved")) == (["hook"], ["log", "hook"])
    alert_log.record_delivery(lake, [entry], "opened", ["hook"])
    alert_log.record_delivery(lake, [entry], "resolved", ["log", "hook"])
    [entry] = alert_log.all_of(lake)
    assert (entry.waiting("opened"), entry.waiting("resolved")) == ([], [])
    assert entry.message_id("opened") != entry.message_id("resolved")


def test_a_target_that_is_added_later_is_not_notified_of_old_alerts(lake: Lake) -> None:
    look(lake, LATE, to=("log",))
    both = look(lake, LATE, HELD, to=("log", "new"))
    assert {one.alert.contract: one.waiting("opened") for one in both} == {"sales": ["log"], "revenue": ["log", "new"]}


def test_two_simultaneous_evaluations_open_one_alert(lake: Lake) -> None:
    """A tick that takes too long overlaps with the next one: both find no open alert, and both record one."""
    for _ in range(2):
        alert_log.record(lake, [], [LATE], stays, everybody)
    [one] = alert_log.all_of(lake)
    known = [one]
    for _ in range(2):
        alert_log.record(lake, known, [], stays, everybody)
    assert [found.resolved_at for found in alert_log.all_of(lake)] == [lake.now()]


def test_after_the_table_is_lost_the_same_alert_has_the_same_id(lake: Lake) -> None:
    """So a receiver that was notified recognizes it."""
    [before] = look(lake, LATE)
    lake.settings.now = lake.now() + timedelta(hours=3)
    [after] = alert_log.record(lake, [], [LATE], stays, everybody)
    assert after.alert_id == before.alert_id


@pytest.mark.merge
def test_many_alerts_do_not_leave_many_files(lake: Lake) -> None:
    [one] = look(lake, LATE)
    for number in range(70):
        alert_log.record_delivery(lake, [one], "opened", [f"target{number}"])
    table = locations.alerts(lake).open()
    assert table is not None
    assert len(table.file_uris()) < 20
    assert len(alert_log.all_of(lake)[0].delivered["opened"]) == 70
