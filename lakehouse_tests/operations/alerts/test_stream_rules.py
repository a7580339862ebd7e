"""The rules about streams, each on both sides of its bound."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from lakehouse.contracts.alerts import LiveState, StreamLag
from lakehouse.live.status import StreamStatus
from lakehouse.operations.alerts import input_signals
from lakehouse.operations.alerts.alert import AlertKind, AlertSubject
from lakehouse.streams.status import TopicLag

ABOUT = AlertSubject("hourly", "hourly", ["anna"])
NOW = datetime(2024, 2, 20, 12, tzinfo=timezone.utc)
MINUTE = timedelta(minutes=1)
RUNNING = StreamStatus("hourly", 7, NOW - 60 * MINUTE, NOW, batch=3, batch_at=NOW - MINUTE, state_rows=1000, state_bytes=5000)


@pytest.mark.parametrize(("state", "alerts"), [("running", False), ("stopped", False), ("failed", True), ("killed", True)])
def test_a_stream_that_failed_or_was_killed_alerts_and_one_that_was_stopped_does_not(state: str, alerts: bool) -> None:
    alert = input_signals.live_stopped(ABOUT, replace(RUNNING, state=state, problem="out of memory"))
    assert (alert is not None) == alerts
    if alert is not None:
        assert (alert.kind, alert.since, alert.addressed_to) == (AlertKind.LIVE_STOPPED, NOW, ["anna"])
        assert "lakehouse live start hourly" in alert.text
        assert ("out of memory" in alert.text) == (state == "failed")


def test_rows_that_wait_for_too_long_alert_while_the_stream_runs() -> None:
    assert input_signals.live_unread(ABOUT, RUNNING, NOW - 10 * MINUTE, 10 * MINUTE, NOW) is None
    alert = input_signals.live_unread(ABOUT, RUNNING, NOW - 11 * MINUTE, 10 * MINUTE, NOW)
    assert alert is not None
    assert (alert.kind, alert.since) == (AlertKind.LIVE_STOPPED, NOW - 11 * MINUTE)
    assert input_signals.live_unread(ABOUT, replace(RUNNING, state="stopped"), NOW - 11 * MINUTE, 10 * MINUTE, NOW) is None


def test_state_alerts_beyond_its_bounds() -> None:
    assert input_signals.live_state(ABOUT, RUNNING, LiveState(rows=1000, bytes=5000)) is None
    by_rows = input_signals.live_state(ABOUT, RUNNING, LiveState(rows=999, bytes=5000))
    assert by_rows is not None
    assert "has 1,000 rows (999 are tolerated). 'lakehouse live status hourly'" in by_rows.text
    by_bytes = input_signals.live_state(ABOUT, RUNNING, LiveState(rows=None, bytes=4999))
    assert by_bytes is not None
    assert by_bytes.key == by_rows.key, "it is one alert"
    assert input_signals.live_state(ABOUT, replace(RUNNING, state="stopped"), LiveState(rows=0, bytes=None)) is None


def test_the_lag_of_a_topic_alerts_beyond_its_bounds() -> None:
    waits = TopicLag(100, NOW - 5 * MINUTE)
    assert input_signals.stream_lag(ABOUT, waits, StreamLag(messages=100, age=5 * MINUTE), NOW) is None
    assert input_signals.stream_lag(ABOUT, TopicLag(0, None), StreamLag(messages=0, age=timedelta(0)), NOW) is None
    alert = input_signals.stream_lag(ABOUT, waits, StreamLag(messages=99, age=4 * MINUTE), NOW)
    assert alert is not None
    assert "100 messages wait (99 are tolerated), and the oldest that waits is 5 min old (4 min are tolerated)" in alert.text
    by_age = input_signals.stream_lag(ABOUT, waits, StreamLag(messages=None, age=4 * MINUTE), NOW)
    assert by_age is not None
    assert by_age.key == alert.key
