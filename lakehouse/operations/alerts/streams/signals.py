"""Reads the facts about streams for alerts; ``rules`` evaluates them.

The facts come from the streams' own records, and for a topic with a bound from its brokers. Nothing here starts a JVM.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.ledger import ingestions
from lakehouse.live import batch_log
from lakehouse.live import status as live_status
from lakehouse.operations.alerts.alert import AlertSubject, addressees
from lakehouse.operations.alerts.streams import rules
from lakehouse.streams import lag

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from lakehouse.contracts import Catalog
    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract
    from lakehouse.live.status import StreamStatus
    from lakehouse.operations.alerts.alert import Alert
    from lakehouse.settings import Settings


def of_metric(settings: Settings, metric: MetricContract, about: AlertSubject) -> Iterator[Alert]:
    """The alerts about the stream of a metric; none for a metric that is not live, or whose stream never ran."""
    known = live_status.of(settings, metric.name) if metric.live else None
    if known is None:
        return
    bounds, unread_after = metric.alerts.live_state, metric.alerts.live_unread_after
    yield from filter(None, [rules.live_stopped(about, known)])
    unread_since = _unread_since(settings, metric, known) if unread_after is not None and known.state == "running" else None
    if unread_after is not None and unread_since is not None:
        yield from filter(None, [rules.live_unread(about, known, unread_since, unread_after, settings.clock())])
    if bounds is not None:
        yield from filter(None, [rules.live_state(about, known, bounds)])


def of_topic(settings: Settings, contract: SourceContract) -> Iterator[Alert]:
    """The alert about the lag of a source's topic; none without a bound.

    :raises StreamProblem: if the topic cannot be read, so that its lag is unknown.
    """
    bounds, kafka = contract.alerts.stream_lag, contract.source.kafka
    if bounds is not None and kafka is not None:
        known = lag.of_topic(settings, contract, kafka, with_age=bounds.age is not None)
        about = AlertSubject(contract.dataset, contract.dataset, addressees(contract.owner))
        yield from filter(None, [rules.stream_lag(about, known, bounds, settings.clock())])


def conditions(settings: Settings, catalog: Catalog) -> list[str]:
    """The present alerts of this module, or the reasons why they are unknown, as texts: state that is not in tables.

    Empty for a catalog without live metrics and lag bounds.
    """
    metrics = [metric for metric in catalog.metrics.values() if metric.live]
    sources = [contract for contract in catalog.sources.values() if contract.alerts.stream_lag is not None]
    of_metrics = [_keys(of_metric(settings, metric, AlertSubject(metric.name, metric.name))) for metric in metrics]
    return [*of_metrics, *(_keys(of_topic(settings, contract)) for contract in sources)]


def _keys(alerts: Iterator[Alert]) -> str:
    try:
        return f"{[alert.key for alert in alerts]}"
    except Exception as problem:  # noqa: BLE001 (the evaluation that follows tells of it, and of all other alerts)
        return f"{problem}"


def _unread_since(settings: Settings, metric: MetricContract, known: StreamStatus) -> datetime | None:
    """The ingestion time of the oldest rows that the stream has not read; None if it has read all rows since its start."""
    read = set(batch_log.log(settings).select(["ingestion_id"], {"metric": [metric.name]})["ingestion_id"].unique().to_pylist())
    ingested = [entry for entry in ingestions.all_of(settings, metric.source) if entry.status == "ingested" and entry.rows]
    newest = max((entry.recorded_at for entry in ingested if entry.ingestion_id in read), default=known.started_at)
    return min(
        (entry.recorded_at for entry in ingested if entry.ingestion_id not in read and entry.recorded_at > newest), default=None
    )
