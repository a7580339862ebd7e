"""Counts and lists of late rows say of each row whether it counts, also since its day is closed. No Spark."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pytest

from lakehouse.contracts.series import Series
from lakehouse.gold.publication import late_at_close
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.restatement import days as restatement_days
from lakehouse.late_events import late_rows
from lakehouse.ledger.ids import row_id_of
from lakehouse.operations.alerts import signals
from lakehouse.operations.alerts.alert import AlertKind
from lakehouse.orchestration.assets.metric_assets import late_metadata
from lakehouse.stewardship import admit_late
from lakehouse_tests.support.late_lake import LateLake, late
from lakehouse_tests.support.numbers_without_spark import ScriptedNumbers, without_spark
from lakehouse_tests.support.windowed_lake import FIRST, TUMBLING, Event

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakehouse.lake import Lake

_DAY = 24 * 60
_ALERT = {"late_dropped": {"above": 0.1, "needs_rows": 1}, "restatements": None}
_WITHOUT_WINDOW = {name: value for name, value in TUMBLING.items() if name != "window"} | {"alerts": _ALERT}


@pytest.fixture(name="sample")
def _sample(lake: Lake) -> Iterator[LateLake]:
    """Two rows came too late for the first day and one for the second; the first day is closed."""
    with without_spark():
        sample = LateLake(lake, None, [late(_WITHOUT_WINDOW, "recompute", 0)])
        sample.classify_at(0, Event("a", 5), Event("push", 2 * _DAY + 60))
        sample.classify_at(1, Event("beyond", 10), Event("beyond too", 11), Event("waits", _DAY + 5))
        [metric], now = sample.metrics, lake.now()
        scripted = ScriptedNumbers(lake, metric)
        scripted.by_day[FIRST] = scripted.table(3)
        lake.settings.now = datetime(2025, 2, 1, tzinfo=timezone.utc)
        done = restatement_days.restate(lake, sample.sources["orders"], Series(metric), scripted.session, [FIRST], Run("close"))
        assert [revision.state.value for revision in done.revisions] == ["final"]
        lake.settings.now = now
        sample.classify_at(2, Event("after the close", 12))
        yield sample


def test_counts_say_how_many_rows_count_since_their_days_are_closed(sample: LateLake) -> None:
    [metric] = sample.metrics
    daily = Series(metric)
    counts = late_at_close.counts(sample.lake, daily, metric)
    assert (counts.on_time, counts.late_accepted, counts.late_dropped) == (2, 0, 4)
    assert (counts.late_counted_at_close, counts.late_not_counted) == (3, 1)
    shown = counts.as_json()
    assert (shown["late_not_counted"], shown["late_not_counted_rate"]) == (1, 1 / 6)
    about = late_metadata(sample.lake, daily, [FIRST])[FIRST]
    assert (about["late_dropped"], about["late_counted_at_close"], about["late_not_counted"]) == (3, 3, 0)
    rows = late_at_close.with_close(sample.lake, daily, late_rows.read(sample.lake, "orders"))
    assert late_at_close.not_counted(rows)["record_key"].to_pylist() == ["waits"]


def test_only_rows_that_do_not_count_alert(sample: LateLake) -> None:
    [metric] = sample.metrics
    found = [one for one in signals.of_metric(sample.lake, sample.catalog, metric) if one.kind is AlertKind.LATE_DROPPED]
    assert [alert.numbers["dropped"] for alert in found] == [1]


def test_a_steward_admits_only_rows_that_do_not_count_already(sample: LateLake) -> None:
    [metric] = sample.metrics
    daily, source = Series(metric), sample.sources["orders"]
    late = late_at_close.with_close(sample.lake, daily, late_rows.read(sample.lake, "orders"))
    [waits] = [row_id_of(row) for row in late.to_pylist() if row["record_key"] == "waits"]
    assert admit_late.selected(late, None, counts=True) == ([waits], 3)
    closed = [row_id_of(row) for row in late.to_pylist() if row["record_key"] == "beyond"]
    assert admit_late.selected(late, [*closed, waits], counts=True) == ([waits], 1)
    done = admit_late.decide(sample.lake, metric, source, [waits], counts=True, by="anna", reason="offline")
    assert (done.rows, done.repeated) == (1, 0)
    counts = late_at_close.counts(sample.lake, daily, metric)
    assert (counts.late_accepted, counts.late_counted_at_close, counts.late_not_counted) == (1, 3, 0)
