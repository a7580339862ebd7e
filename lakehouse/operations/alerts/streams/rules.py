"""The rules of alerting about streams. Each rule takes facts and returns an alert or None. The rules are described in
docs/alerts.md.

``signals`` reads the facts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.operations.alerts.alert import AlertKind
from lakehouse.text import format_duration, format_moment

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from lakehouse.contracts.alerts import LiveState, StreamLag
    from lakehouse.live.status import StreamStatus
    from lakehouse.operations.alerts.alert import Alert, AlertSubject
    from lakehouse.streams.lag import TopicLag


def live_stopped(about: AlertSubject, known: StreamStatus) -> Alert | None:
    """Alert if a stream has failed or was killed. A stream stopped by a person does not alert."""
    if known.state not in {"failed", "killed"}:
        return None
    why = f"has failed: {known.problem}" if known.state == "failed" else f"was killed (process {known.pid})"
    text = (
        f"The stream of {about.contract} {why}. Its live numbers stand since {format_moment(known.written_at)}. Start it with "
        f"'lakehouse live start {about.contract}', which continues where it was, or says what to do. Published numbers go on."
    )
    numbers = {"state": known.state, "batch": known.batch, "problem": known.problem}
    return about.alert(AlertKind.LIVE_STOPPED, known.written_at, text, numbers)


def live_unread(
    about: AlertSubject, known: StreamStatus, unread_since: datetime, tolerated: timedelta, now: datetime
) -> Alert | None:
    """Alert if a running stream has left rows unread for longer than the contract tolerates.

    :param unread_since: the ingestion time of the oldest unread rows.
    """
    if known.state != "running" or now - unread_since <= tolerated:
        return None
    text = (
        f"The stream of {about.contract} runs (process {known.pid}), but has not read rows that were ingested "
        f"{format_moment(unread_since)}; {format_duration(tolerated)} are tolerated. Stop it with 'lakehouse live stop "
        f"{about.contract}', or end the process, and start it again; it continues where it was."
    )
    numbers = {"state": known.state, "batch": known.batch, "batch_milliseconds": known.batch_milliseconds}
    return about.alert(AlertKind.LIVE_STOPPED, unread_since, text, numbers)


def live_state(about: AlertSubject, known: StreamStatus, bounds: LiveState) -> Alert | None:
    """Alert if the state of the open windows exceeds a bound; a state equal to its bound does not alert.

    A stopped stream has no state in memory.
    """
    if known.state != "running":
        return None
    sizes = {"rows": (known.state_rows, bounds.rows), "bytes": (known.state_bytes, bounds.bytes)}
    beyond = [
        f"{size:,} {unit} ({bound:,} are tolerated)"
        for unit, (size, bound) in sizes.items()
        if bound is not None and size > bound
    ]
    if not beyond:
        return None
    text = (
        f"The state of the open windows of {about.contract} has {' and '.join(beyond)}. 'lakehouse live status {about.contract}' "
        "shows its windows and keys. A shorter 'live.open_for', larger windows or a smaller grain need less of it."
    )
    numbers = {"rows": known.state_rows, "bytes": known.state_bytes, "watermark": known.watermark}
    return about.alert(AlertKind.LIVE_STATE, known.batch_at or known.written_at, text, numbers)


def stream_lag(about: AlertSubject, lag: TopicLag, bounds: StreamLag, now: datetime) -> Alert | None:
    """Alert if more messages of a topic wait than the contract tolerates, or a message waits for longer."""
    beyond = []
    if bounds.messages is not None and lag.messages > bounds.messages:
        beyond.append(f"{lag.messages:,} messages wait ({bounds.messages:,} are tolerated)")
    age = None if lag.oldest is None else now - lag.oldest
    if bounds.age is not None and age is not None and age > bounds.age:
        beyond.append(f"the oldest that waits is {format_duration(age)} old ({format_duration(bounds.age)} are tolerated)")
    if not beyond:
        return None
    text = (
        f"{about.subject}: {', and '.join(beyond)}. 'lakehouse stream status {about.subject}' shows each partition. Does "
        "'lakehouse stream run' or the sensor run, and does it keep up?"
    )
    numbers = {"messages": lag.messages, "age_seconds": None if age is None else age.total_seconds()}
    return about.alert(AlertKind.STREAM_LAG, now, text, numbers)
