"""The reconciliation of closed days: each revision once, the check and the alert of a difference, the end of live numbers."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.live import batches, table
from lakehouse.live import reconcile as closing
from lakehouse.live.reconcile import reconcile
from lakehouse.operations.alerts import signals
from lakehouse.operations.alerts.alert import AlertKind
from lakehouse_tests.support.live_lake import LIVE, LiveLake
from lakehouse_tests.support.united_lake import metric
from lakehouse_tests.support.windowed_lake import FIRST, TUMBLING, Event

if TYPE_CHECKING:
    from lakehouse.lake import Lake

pytestmark = [pytest.mark.spark, pytest.mark.own_spark, pytest.mark.merge]

LATE = [[Event("a", 1, 80), Event("b", 70, 1)], [Event("c", 200, 1)], [Event("d", 201, 1)], [Event("late", 2, 3)]]


def test_a_closed_day_is_reconciled_once_for_each_revision(lake: Lake, spark: Any) -> None:
    terms = {"live": {**LIVE["live"], "keep": "P1D"}, "reconcile": {"threshold": 0.02}}
    sample = LiveLake(lake, spark, metrics=[metric(TUMBLING, **terms)])
    for events in LATE:
        sample.land_events(*events)
        sample.update("orders")
    sample.stream()

    def reconciled() -> list[Any]:
        return closing.reconcile_due(sample.session, lake, sample.hourly, sample.sources["orders"], [FIRST])

    assert reconciled() == [], "nothing is published"
    sample.publish()
    (checked,) = reconciled()
    assert (checked.check, checked.day, checked.passed, checked.warns) == ("live_equals_books", FIRST, False, True)
    assert checked.numbers == {"numbers": 6, "closed": 4, "different": 2, "beyond_threshold": 2, "unexplained": 0}
    assert checked.explanation == "row_count at 22:00 UTC was 1 and is 2: late_dropped 1"
    assert reconciled() == []

    alerts = signals.of_metric(lake, sample.catalog, sample.hourly)
    (alert,) = [one for one in alerts if one.kind is AlertKind.LIVE_DIFFERENCE]
    assert alert.text == (
        "2 live numbers of hourly 2024-10-25 differ more from the published ones than the contract tolerates. "
        "The largest difference is 3, of total at 22:00 UTC: late_dropped 3. "
        "'lakehouse live reconcile hourly --date 2024-10-25' shows all."
    )

    # The windows before the last one are closed, and have been kept for long enough.
    assert {row["window_start"].hour for row in _live(sample)} == {1}
    sample.send(Event("late", 2, 4, "correct"))
    (again,) = reconciled()
    assert again.explanation == "row_count at 22:00 UTC was 1 and is 2: late_dropped 1"
    (total,) = [entry for entry in batches.newest_reconciliation(lake, "hourly", FIRST) if entry.measure == "total" and entry.gap]
    assert (total.live, total.books, total.number) == ("80", "84", 2)
    assert {**total.causes} == {"late_dropped": "3", "corrected": "1"}


def test_without_a_threshold_a_difference_is_no_failure(lake: Lake, spark: Any) -> None:
    sample = LiveLake(lake, spark)
    for events in LATE:
        sample.land_events(*events)
        sample.update("orders")
    sample.stream()
    sample.publish()
    found = reconcile(sample.session, lake, sample.hourly, sample.sources["orders"], FIRST)
    assert closing.checked(FIRST, found.entries).passed
    assert closing.check_names(sample.hourly)
    assert closing.check_names(metric(TUMBLING)) == {}
    assert len(_live(sample)) == 3, "live numbers are kept"
    lake.settings.now = lake.now() + timedelta(days=1)
    assert closing.due(lake, sample.hourly, [FIRST]) == []


def _live(sample: LiveLake) -> list[dict[str, Any]]:
    found = table.read(sample.lake, sample.hourly)
    return [] if found is None else found.to_pylist()
