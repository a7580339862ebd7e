"""Alerts are opened, notified and resolved in a real table, whatever is stopped in between."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from lakehouse import locations
from lakehouse.delta import table_io
from lakehouse.operations.alerts import log as alert_log
from lakehouse.operations.alerts.alert import Alert, AlertKind

if TYPE_CHECKING:
    from lakehouse.operations.alerts.log import AlertRecord
    from lakehouse.settings import Settings

SINCE = datetime(2024, 2, 1, 12, tzinfo=timezone.utc)
LATE = Alert(AlertKind.LATE_SHARE, "sales", "sales", SINCE, "too late", ["anna"], {"share": 0.5})
HELD = Alert(AlertKind.HELD, "revenue", "revenue", SINCE, "held", ["anna", "ben"], {}, "2024-02-01")


def stays(_: Alert) -> bool:
    return False


def everybody(_: Alert) -> list[str]:
    return ["log"]


def look(
    settings: Settings, *conditions: Alert, unread: tuple[str, ...] = (), to: tuple[str, ...] = ("log", "hook")
) -> list[AlertRecord]:
    return alert_log.record(
        settings, alert_log.all_of(settings), conditions, lambda alert: alert.contract in unread, lambda _: to
    )


def test_without_conditions_nothing_is_written(settings: Settings) -> None:
    assert alert_log.all_of(settings) == []
    assert look(settings) == []
    assert table_io.open_table(locations.alerts(settings)) is None, "nothing is written either"


def test_what_is_read_is_what_was_recorded(settings: Settings) -> None:
    written = look(settings, LATE, HELD)
    assert sorted(alert_log.all_of(settings), key=str) == sorted(written, key=str)
    assert {one.alert.key for one in written} == {LATE.key, HELD.key}
    assert alert_log.all_of(settings)[0].opened_at == settings.clock()


def test_an_alert_seen_again_is_the_same_one(settings: Settings) -> None:
    [first] = look(settings, LATE)
    settings.now = settings.clock() + timedelta(hours=1)
    later = Alert(AlertKind.LATE_SHARE, "sales", "sales", SINCE + timedelta(minutes=5), "even later", ["anna"], {"share": 0.6})
    [again] = look(settings, later)
    assert (again.alert_id, again.opened_at, again.alert.since) == (first.alert_id, first.opened_at, SINCE)
    table = table_io.open_table(locations.alerts(settings))
    assert table is not None
    assert table.version() == 1, "and nothing is written after the first alert"


def test_it_is_resolved_once_its_condition_is_gone_and_comes_back_as_another(settings: Settings) -> None:
    [first] = look(settings, LATE)
    settings.now = settings.clock() + timedelta(hours=1)
    [resolved] = look(settings)
    assert (resolved.alert_id, resolved.resolved_at) == (first.alert_id, settings.clock())
    settings.now = settings.clock() + timedelta(hours=1)
    assert len(look(settings)) == 1, "it is not resolved again"
    old, new = look(settings, LATE)
    assert (old.resolved_at, new.resolved_at) == (resolved.resolved_at, None)
    assert old.alert_id != new.alert_id


def test_of_what_could_not_be_read_alerts_stay_open(settings: Settings) -> None:
    look(settings, LATE, HELD)
    after = {one.alert.contract: one.resolved_at for one in look(settings, unread=("sales",))}
    assert after["sales"] is None
    assert after["revenue"] is not None


def test_deliveries_are_awaited_per_target_and_per_message(settings: Settings) -> None:
    [entry] = look(settings, LATE)
    assert (entry.waiting("opened"), entry.waiting("resolved")) == (["log", "hook"], [])
    alert_log.record_delivery(settings, [entry], "opened", ["log"])
    [entry] = look(settings)
    assert (entry.waiting("opened"), entry.waiting("resolved")) == (["hook"], ["log", "hook"])
    alert_log.record_delivery(settings, [entry], "opened", ["hook"])
    alert_log.record_delivery(settings, [entry], "resolved", ["log", "hook"])
    [entry] = alert_log.all_of(settings)
    assert (entry.waiting("opened"), entry.waiting("resolved")) == ([], [])
    assert entry.message_id("opened") != entry.message_id("resolved")


def test_a_target_that_is_added_later_is_not_notified_of_old_alerts(settings: Settings) -> None:
    look(settings, LATE, to=("log",))
    both = look(settings, LATE, HELD, to=("log", "new"))
    assert {one.alert.contract: one.waiting("opened") for one in both} == {"sales": ["log"], "revenue": ["log", "new"]}


def test_two_simultaneous_evaluations_open_one_alert(settings: Settings) -> None:
    """A tick that takes too long overlaps with the next one: both find no open alert, and both record one."""
    for _ in range(2):
        alert_log.record(settings, [], [LATE], stays, everybody)
    [one] = alert_log.all_of(settings)
    known = [one]
    for _ in range(2):
        alert_log.record(settings, known, [], stays, everybody)
    assert [found.resolved_at for found in alert_log.all_of(settings)] == [settings.clock()]


def test_after_the_table_is_lost_the_same_alert_has_the_same_id(settings: Settings) -> None:
    """So a receiver that was notified recognizes it."""
    [before] = look(settings, LATE)
    settings.now = settings.clock() + timedelta(hours=3)
    [after] = alert_log.record(settings, [], [LATE], stays, everybody)
    assert after.alert_id == before.alert_id


@pytest.mark.merge
def test_many_alerts_do_not_leave_many_files(settings: Settings) -> None:
    [one] = look(settings, LATE)
    for number in range(70):
        alert_log.record_delivery(settings, [one], "opened", [f"target{number}"])
    table = table_io.open_table(locations.alerts(settings))
    assert table is not None
    assert len(table.file_uris()) < 20
    assert len(alert_log.all_of(settings)[0].delivered["opened"]) == 70
