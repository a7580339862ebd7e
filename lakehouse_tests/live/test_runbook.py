"""The runbook of docs/live.md, walked through on real Spark: each section in the order in which somebody may need them."""

from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.live import checkpoint, status, stream
from lakehouse.live.checkpoint import LiveCheckpointError
from lakehouse.operations.alerts import signals
from lakehouse.operations.alerts.alert import AlertKind
from lakehouse_tests.support.live_lake import LIVE, LiveLake
from lakehouse_tests.support.united_lake import metric
from lakehouse_tests.support.windowed_lake import TUMBLING, Event

if TYPE_CHECKING:
    from lakehouse.lake import Lake
    from lakehouse.live.status import StreamStatus

pytestmark = [pytest.mark.spark, pytest.mark.own_spark, pytest.mark.merge]


def known(sample: LiveLake) -> StreamStatus:
    found = status.of(sample.lake, "hourly")
    assert found is not None
    return found


def alerts(sample: LiveLake) -> dict[AlertKind, str]:
    found = signals.input_signals.stream_of_metric(sample.lake, sample.hourly, signals.AlertSubject("hourly", "hourly"))
    return {alert.kind: alert.text for alert in found}


def test_each_case_of_the_runbook(lake: Lake, spark: Any) -> None:
    watched = {"alerts": {"live_unread_after": "PT5M"}}
    sample = LiveLake(lake, spark, metrics=[metric(TUMBLING, **LIVE, **watched)])

    def deliver(*events: Event) -> None:
        sample.land_events(*events)
        sample.update("orders")

    def totals() -> list[int]:
        return [total for _, (total, _) in sorted(sample.live_numbers().items())]

    deliver(Event("a", 1, 5), Event("b", 2, 7))
    sample.stream()

    # Crash: within a batch, behind its numbers and before Spark noted that it is done.
    deliver(Event("c", 3, 11))
    sample.stream()
    commits = checkpoint.folder_of(lake, sample.hourly, sample.sources["orders"]) / "spark" / "commits"
    newest = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    (commits / f"{newest}").unlink()
    (commits / f".{newest}.crc").unlink()
    status.write(lake, replace(known(sample), state="running"))
    assert known(sample).state == "killed"
    assert "lakehouse live start hourly" in alerts(sample)[AlertKind.LIVE_STOPPED]
    deliver(Event("d", 4, 13))
    sample.stream()
    assert (totals(), alerts(sample)) == ([36], {})

    # Lag beyond its SLO, and drain: rows wait while the stream is busy; it is stopped, and reads all that is left.
    deliver(Event("e", 5, 17))
    deliver(Event("f", 61, 19))
    lake.settings.now += timedelta(minutes=6)
    with status.running(lake, "hourly"):
        status.write(lake, replace(known(sample), state="running"))
        assert "5 min are tolerated" in alerts(sample)[AlertKind.LIVE_STOPPED]
    sample.stream()
    assert (totals(), alerts(sample), known(sample).state) == ([53, 19], {}, "stopped")

    # Schema change: another measure.
    total, *_ = TUMBLING["measures"]
    largest = {"name": "largest", "sql": "max(amount)", "type": "bigint"}
    sample.metrics[0] = metric({**TUMBLING, "measures": [total, largest]}, **LIVE, **watched)
    with pytest.raises(LiveCheckpointError, match=r"the contract has changed .*run 'lakehouse live rebuild hourly'"):
        sample.stream()
    assert (known(sample).state, "lakehouse live rebuild hourly" in alerts(sample)[AlertKind.LIVE_STOPPED]) == ("failed", True)
    stream.rebuild(sample.session, lake, sample.hourly, sample.sources["orders"])
    assert (totals(), alerts(sample)) == ([53, 19], {})

    # Lost checkpoint.
    shutil.rmtree(checkpoint.folder_of(lake, sample.hourly, sample.sources["orders"]))
    with pytest.raises(LiveCheckpointError, match="is gone; run 'lakehouse live rebuild hourly'"):
        sample.stream()
    stream.rebuild(sample.session, lake, sample.hourly, sample.sources["orders"])
    deliver(Event("g", 62, 23))
    sample.stream()
    assert (totals(), alerts(sample)) == ([53, 42], {})
