"""What streams have written, as alerts read it, and what of it the sensor notices."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from lakehouse.contracts import Catalog
from lakehouse.ledger import ingestions
from lakehouse.ledger.ingestions import Ingestion
from lakehouse.live import batches, status
from lakehouse.live.batches import LiveBatch
from lakehouse.live.status import StreamStatus
from lakehouse.operations.alerts import signals as all_signals
from lakehouse.operations.alerts.alert import AlertKind
from lakehouse.operations.alerts.outbox import dispatch_alerts
from lakehouse.operations.delivery import directory
from lakehouse_tests.support.kafka_lake import contract as of_kafka
from lakehouse_tests.support.live_lake import LIVE
from lakehouse_tests.support.united_lake import metric
from lakehouse_tests.support.windowed_lake import TUMBLING, source

if TYPE_CHECKING:
    import pytest

    from lakehouse.lake import Lake

NOW = datetime(2024, 2, 20, 12, tzinfo=timezone.utc)
MINUTE = timedelta(minutes=1)
RUNNING = StreamStatus("hourly", 7, NOW - 60 * MINUTE, NOW, batch=3, batch_at=NOW - MINUTE, state_rows=1000, state_bytes=5000)


def catalog(**alerts: Any) -> Catalog:
    return Catalog({"orders": source()}, {"hourly": metric(TUMBLING, **LIVE, alerts=alerts)})


def of_streams(lake: Lake, known: Catalog) -> dict[AlertKind, str]:
    alerts = all_signals.of_metric(lake, known, known.metrics["hourly"])
    return {alert.kind: alert.text for alert in alerts if alert.kind.value.startswith("live_")}


def test_a_stream_whose_process_is_gone_alerts_and_the_sensor_notices(lake: Lake) -> None:
    lake.settings.now = NOW
    known = catalog(live_state={"rows": 999})
    assert of_streams(lake, known) == {}, "it never ran"
    idle = all_signals.state_of(lake, known)
    with status.running(lake, "hourly"):
        status.write(lake, replace(RUNNING, state_rows=999))
        assert of_streams(lake, known) == {}
        assert all_signals.state_of(lake, known) == idle
        status.write(lake, replace(RUNNING, batch=4))
        assert of_streams(lake, known).keys() == {AlertKind.LIVE_STATE}
        large = all_signals.state_of(lake, known)
        assert large != idle
    assert "was killed (process 7)" in of_streams(lake, known)[AlertKind.LIVE_STOPPED]
    assert all_signals.state_of(lake, known) not in {idle, large}
    status.write(lake, replace(RUNNING, state="stopped"))
    assert of_streams(lake, known) == {}
    assert all_signals.state_of(lake, known) == idle


def ingest(lake: Lake, name: str, recorded_at: datetime, rows: int = 1) -> None:
    known: dict[str, Any] = {"source": "orders", "ingestion_id": name, "content_hash": name, "source_file": name, "bytes": 1}
    known |= {"modified": None, "status": "ingested", "run_id": "run", "arrival_date": NOW.date(), "recorded_at": recorded_at}
    ingestions.record(lake, Ingestion(**known | {"rows": rows}))


def test_rows_that_a_stream_has_not_read_alert_after_a_while(lake: Lake) -> None:
    lake.settings.now = NOW
    known = catalog(live_unread_after="PT5M")
    with status.running(lake, "hourly"):
        status.write(lake, RUNNING)
        ingest(lake, "old", NOW - 120 * MINUTE)  # before the stream began: it does not read it
        ingest(lake, "read", NOW - 30 * MINUTE)
        ingest(lake, "empty", NOW - 20 * MINUTE, rows=0)
        batches.record(lake, [LiveBatch("hourly", "q", 3, "read", 1, 1, None, None, 1, NOW)])
        assert of_streams(lake, known) == {}
        ingest(lake, "new", NOW - 6 * MINUTE)
        assert "has not read rows that were ingested 2024-02-20 11:54 UTC" in of_streams(lake, known)[AlertKind.LIVE_STOPPED]
        assert of_streams(lake, catalog(live_unread_after="PT6M")) == {}
        assert of_streams(lake, catalog()) == {}
        batches.record(lake, [LiveBatch("hourly", "q", 4, "new", 1, 1, None, None, 1, NOW)])
        assert of_streams(lake, known) == {}


def test_brokers_that_do_not_answer_neither_hide_other_alerts_nor_hold_them_up(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakehouse.streams import status as lag  # noqa: PLC0415

    monkeypatch.setattr(lag, "ANSWER_SECONDS", 0.3)
    bounded = of_kafka("events", "127.0.0.1:1", alerts={"stream_lag": {"messages": 5}})
    silent = Catalog({"events": bounded, "orders": source()}, {"hourly": metric(TUMBLING, **LIVE)})
    status.write(lake, RUNNING)
    assert "cannot be read" in " ".join(all_signals.input_signals.stream_conditions(lake, silent))
    result = dispatch_alerts(lake, silent, directory(lake))
    assert (result.opened, len(result.unread)) == (1, 1), "the stream that was killed"
    assert "the alerts of events could not be determined" in result.unread[0]
