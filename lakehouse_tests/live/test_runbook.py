"""The runbook of docs/live.md, walked through on real Spark: each section in the order in which somebody may need them."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.live import checkpoint, run, status
from lakehouse.live.checkpoint import LiveCheckpointError
from lakehouse.operations.alerts import signals
from lakehouse.operations.alerts.alert import AlertKind
from lakehouse_tests.support.live_lake import LIVE, LiveLake
from lakehouse_tests.support.united_lake import metric
from lakehouse_tests.support.windowed_lake import TUMBLING, Event

if TYPE_CHECKING:
    from lakehouse.live.status import StreamStatus
    from lakehouse.settings import Settings

pytestmark = [pytest.mark.spark, pytest.mark.own_spark, pytest.mark.merge]


def known(lake: LiveLake) -> StreamStatus:
    found = status.of(lake.settings, "hourly")
    assert found is not None
    return found


def alerts(lake: LiveLake) -> dict[AlertKind, str]:
    found = signals.stream_signals.of_metric(lake.settings, lake.hourly, signals.AlertSubject("hourly", "hourly"))
    return {alert.kind: alert.text for alert in found}


def test_each_case_of_the_runbook(settings: Settings, spark: Any) -> None:
    watched = {"alerts": {"live_unread_after": "PT5M"}}
    lake = LiveLake(settings, spark, metrics=[metric(TUMBLING, **LIVE, **watched)])

    def deliver(*events: Event) -> None:
        lake.land_events(*events)
        lake.update("orders")

    def totals() -> list[int]:
        return [total for _, (total, _) in sorted(lake.live_numbers().items())]

    deliver(Event("a", 1, 5), Event("b", 2, 7))
    lake.stream()

    # Crash: within a batch, behind its numbers and before Spark noted that it is done.
    deliver(Event("c", 3, 11))
    lake.stream()
    commits = checkpoint.folder_of(settings, lake.hourly, lake.sources["orders"]) / "spark" / "commits"
    newest = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    (commits / f"{newest}").unlink()
    (commits / f".{newest}.crc").unlink()
    status.write(settings, replace(known(lake), state="running"))
    assert known(lake).state == "killed"
    assert "lakehouse live start hourly" in alerts(lake)[AlertKind.LIVE_STOPPED]
    deliver(Event("d", 4, 13))
    lake.stream()
    assert (totals(), alerts(lake)) == ([36], {})

    # Lag beyond its SLO, and drain: rows wait while the stream is busy; it is stopped, and reads all that is left.
    deliver(Event("e", 5, 17))
    deliver(Event("f", 61, 19))
    settings.now += timedelta(minutes=6)
    with status.running(settings, "hourly"):
        status.write(settings, replace(known(lake), state="running"))
        assert "5 min are tolerated" in alerts(lake)[AlertKind.LIVE_STOPPED]
    lake.stream()
    assert (totals(), alerts(lake), known(lake).state) == ([53, 19], {}, "stopped")

    # Schema change: another measure.
    total, *_ = TUMBLING["measures"]
    largest = {"name": "largest", "sql": "max(amount)", "type": "bigint"}
    lake.metrics[0] = metric({**TUMBLING, "measures": [total, largest]}, **LIVE, **watched)
    with pytest.raises(LiveCheckpointError, match=r"the contract has changed .*run 'lakehouse live rebuild hourly'"):
        lake.stream()
    assert (known(lake).state, "lakehouse live rebuild hourly" in alerts(lake)[AlertKind.LIVE_STOPPED]) == ("failed", True)
    run.rebuild(lake.session, settings, lake.hourly, lake.sources["orders"])
    assert (totals(), alerts(lake)) == ([53, 19], {})

    # Lost checkpoint.
    shutil.rmtree(checkpoint.folder_of(settings, lake.hourly, lake.sources["orders"]))
    with pytest.raises(LiveCheckpointError, match="is gone; run 'lakehouse live rebuild hourly'"):
        lake.stream()
    run.rebuild(lake.session, settings, lake.hourly, lake.sources["orders"])
    deliver(Event("g", 62, 23))
    lake.stream()
    assert (totals(), alerts(lake)) == ([53, 42], {})
