"""The reconciliation of closed days: each revision once, the check and the alert of a difference, the end of live numbers."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.live import closing, reconciliation_log, table
from lakehouse.live.reconcile import reconcile
from lakehouse.operations.alerts import signals
from lakehouse.operations.alerts.alert import AlertKind
from lakehouse_tests.support.live_lake import LIVE, LiveLake
from lakehouse_tests.support.united_lake import metric
from lakehouse_tests.support.windowed_lake import FIRST, TUMBLING, Event

if TYPE_CHECKING:
    from lakehouse.settings import Settings

pytestmark = [pytest.mark.spark, pytest.mark.own_spark, pytest.mark.merge]

LATE = [[Event("a", 1, 80), Event("b", 70, 1)], [Event("c", 200, 1)], [Event("d", 201, 1)], [Event("late", 2, 3)]]


def test_a_closed_day_is_reconciled_once_for_each_revision(settings: Settings, spark: Any) -> None:
    terms = {"live": {**LIVE["live"], "keep": "P1D"}, "reconcile": {"threshold": 0.02}}
    lake = LiveLake(settings, spark, metrics=[metric(TUMBLING, **terms)])
    for events in LATE:
        lake.land_events(*events)
        lake.update("orders")
    lake.stream()

    def reconciled() -> list[Any]:
        return closing.reconcile_due(lake.session, settings, lake.hourly, lake.sources["orders"], [FIRST])

    assert reconciled() == [], "nothing is published"
    lake.publish()
    (checked,) = reconciled()
    assert (checked.check, checked.day, checked.passed, checked.warns) == ("live_equals_books", FIRST, False, True)
    assert checked.numbers == {"numbers": 6, "closed": 4, "different": 2, "beyond_threshold": 2, "unexplained": 0}
    assert checked.explanation == "row_count at 22:00 UTC was 1 and is 2: late_dropped 1"
    assert reconciled() == []

    alerts = signals.of_metric(settings, lake.catalog, lake.hourly)
    (alert,) = [one for one in alerts if one.kind is AlertKind.LIVE_DIFFERENCE]
    assert alert.text == (
        "2 live numbers of hourly 2024-10-25 differ more from the published ones than the contract tolerates. "
        "The largest difference is 3, of total at 22:00 UTC: late_dropped 3. "
        "'lakehouse reconcile hourly --date 2024-10-25' shows all."
    )

    # The windows before the last one are closed, and have been kept for long enough.
    assert {row["window_start"].hour for row in _live(lake)} == {1}
    lake.send(Event("late", 2, 4, "correct"))
    (again,) = reconciled()
    assert again.explanation == "row_count at 22:00 UTC was 1 and is 2: late_dropped 1"
    (total,) = [entry for entry in reconciliation_log.newest(settings, "hourly", FIRST) if entry.measure == "total" and entry.gap]
    assert (total.live, total.books, total.number) == ("80", "84", 2)
    assert {**total.causes} == {"late_dropped": "3", "corrected": "1"}


def test_without_a_threshold_a_difference_is_no_failure(settings: Settings, spark: Any) -> None:
    lake = LiveLake(settings, spark)
    for events in LATE:
        lake.land_events(*events)
        lake.update("orders")
    lake.stream()
    lake.publish()
    found = reconcile(lake.session, settings, lake.hourly, lake.sources["orders"], FIRST)
    assert closing.checked(FIRST, found.entries).passed
    assert closing.check_names(lake.hourly)
    assert closing.check_names(metric(TUMBLING)) == {}
    assert len(_live(lake)) == 3, "live numbers are kept"
    settings.now = settings.clock() + timedelta(days=1)
    assert closing.due(settings, lake.hourly, [FIRST]) == []


def _live(lake: LiveLake) -> list[dict[str, Any]]:
    found = table.read(lake.settings, lake.hourly)
    return [] if found is None else found.to_pylist()
