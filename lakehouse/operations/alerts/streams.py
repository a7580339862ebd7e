"""Reads the facts about streams for alerts; ``rules`` evaluates them.

The facts come from the streams' own records, and for a topic with a bound from its brokers. Nothing here starts a JVM.

The rules of alerting about streams. Each rule takes facts and returns an alert or None. The rules are described in
docs/alerts.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.ledger import ingestions
from lakehouse.live import batches
from lakehouse.live import status as live_status
from lakehouse.operations.alerts.alert import AlertKind, AlertSubject, addressees
from lakehouse.streams import lag
from lakehouse.text import format_duration, format_moment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime, timedelta

    from lakehouse.contracts import Catalog
    from lakehouse.contracts.alerts import LiveState, StreamLag
    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.live.status import StreamStatus
    from lakehouse.operations.alerts.alert import Alert
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
        f"{about.subject}: {', and '.join(beyond)}. 'lakehouse source stream status {about.subject}' shows each partition. Does "
        "'lakehouse source stream run' or the sensor run, and does it keep up?"
    )
    numbers = {"messages": lag.messages, "age_seconds": None if age is None else age.total_seconds()}
    return about.alert(AlertKind.STREAM_LAG, now, text, numbers)


def of_metric(lake: Lake, metric: MetricContract, about: AlertSubject) -> Iterator[Alert]:
    """The alerts about the stream of a metric; none for a metric that is not live, or whose stream never ran."""
    known = live_status.of(lake, metric.name) if metric.live else None
    if known is None:
        return
    bounds, unread_after = metric.alerts.live_state, metric.alerts.live_unread_after
    yield from filter(None, [live_stopped(about, known)])
    unread_since = _unread_since(lake, metric, known) if unread_after is not None and known.state == "running" else None
    if unread_after is not None and unread_since is not None:
        yield from filter(None, [live_unread(about, known, unread_since, unread_after, lake.now())])
    if bounds is not None:
        yield from filter(None, [live_state(about, known, bounds)])


def of_topic(lake: Lake, contract: SourceContract) -> Iterator[Alert]:
    """The alert about the lag of a source's topic; none without a bound.

    :raises StreamProblem: if the topic cannot be read, so that its lag is unknown.
    """
    bounds, kafka = contract.alerts.stream_lag, contract.source.kafka
    if bounds is not None and kafka is not None:
        known = lag.of_topic(lake, contract, kafka, with_age=bounds.age is not None)
        about = AlertSubject(contract.dataset, contract.dataset, addressees(contract.owner))
        yield from filter(None, [stream_lag(about, known, bounds, lake.now())])


def conditions(lake: Lake, catalog: Catalog) -> list[str]:
    """The present alerts of this module, or the reasons why they are unknown, as texts: state that is not in tables.

    Empty for a catalog without live metrics and lag bounds.
    """
    metrics = [metric for metric in catalog.metrics.values() if metric.live]
    sources = [contract for contract in catalog.sources.values() if contract.alerts.stream_lag is not None]
    of_metrics = [_keys(of_metric(lake, metric, AlertSubject(metric.name, metric.name))) for metric in metrics]
    return [*of_metrics, *(_keys(of_topic(lake, contract)) for contract in sources)]


def _keys(alerts: Iterator[Alert]) -> str:
    try:
        return f"{[alert.key for alert in alerts]}"
    except Exception as problem:  # noqa: BLE001 (the evaluation that follows tells of it, and of all other alerts)
        return f"{problem}"


def _unread_since(lake: Lake, metric: MetricContract, known: StreamStatus) -> datetime | None:
    """The ingestion time of the oldest rows that the stream has not read; None if it has read all rows since its start."""
    read = set(batches.log(lake).select(["ingestion_id"], {"metric": [metric.name]})["ingestion_id"].unique().to_pylist())
    ingested = [entry for entry in ingestions.all_of(lake, metric.source) if entry.status == "ingested" and entry.rows]
    newest = max((entry.recorded_at for entry in ingested if entry.ingestion_id in read), default=known.started_at)
    return min(
        (entry.recorded_at for entry in ingested if entry.ingestion_id not in read and entry.recorded_at > newest), default=None
    )
