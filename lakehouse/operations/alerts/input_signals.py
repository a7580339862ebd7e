"""Reads the facts about the inputs of sources and about streams for alerts.

The facts about files are read from records of the ledger and the sensors, never from the landing folder. Those about streams come
from the streams' own records, and for a topic with a bound from its brokers. Nothing here starts a JVM. The facts about files are
evaluated in ``input_rules``; the rules about streams are here, and return an alert or None. All rules are described in
docs/alerts.md. Facts about rows and numbers are read in ``signals``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.bronze import checks as bronze_checks
from lakehouse.calendar.days import arrived_at, end_of_day
from lakehouse.contracts.alerts import Rhythm
from lakehouse.contracts.source_rules import PerKeyWatermark, ProcessingTimeWatermark
from lakehouse.dispositions import account_tables
from lakehouse.dispositions.admission import reason_in_words
from lakehouse.dispositions.unread import of_source as unread_rows_of_source
from lakehouse.lake import table_io
from lakehouse.lateness import event_watermark, missing_inputs, recommendation
from lakehouse.lateness.event_watermark import BEGINNING
from lakehouse.ledger import ingestions
from lakehouse.ledger.row_states import QuarantineStatus
from lakehouse.live import batches
from lakehouse.live import status as live_status
from lakehouse.operations.alerts import input_rules
from lakehouse.operations.alerts.alert import AlertKind, AlertSubject, addressees
from lakehouse.streams import status
from lakehouse.text import format_duration, format_moment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import date, datetime

    from lakehouse.contracts import Catalog
    from lakehouse.contracts.alerts import LiveState, StreamLag
    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract
    from lakehouse.dispositions.unread import UnreadFile
    from lakehouse.lake import Lake, Table
    from lakehouse.live.status import StreamStatus
    from lakehouse.operations.alerts.alert import Alert
    from lakehouse.streams.status import TopicLag

#: Malformed rows alert only if they arrived at most this long before the newest arrival day.
_RECENT = timedelta(days=30)


def tables(lake: Lake, contract: SourceContract) -> list[Table]:
    """The tables that this module reads."""
    source = contract.dataset
    paths = [
        locations.ingestions(lake),
        locations.missing_inputs(lake),
        locations.unread_rows(lake),
        locations.quarantine(lake, source),
    ]
    paths.append(locations.unread_rows(lake))
    if isinstance(contract.clocks.watermark, PerKeyWatermark):
        paths.append(locations.watermark_keys(lake))
    if recommendation.tunable(contract):
        paths += [locations.event_watermarks(lake), locations.dispositions(lake, source)]
    return paths


def of_source(lake: Lake, contract: SourceContract) -> Iterator[Alert]:
    """The alerts about a source's missing data, its silence, waiting rows, and its event-time watermark."""
    about = AlertSubject(contract.dataset, contract.dataset, addressees(contract.owner))
    yield from _missing(lake, contract, about)
    yield from _silent(lake, contract, about)
    yield from _reviews(lake, contract, about)
    yield from _stalled(lake, contract, about)
    yield from _watermark_off(lake, contract, about)


def _missing(lake: Lake, contract: SourceContract, about: AlertSubject) -> Iterator[Alert]:
    now, zone = lake.now(), ZoneInfo(contract.clocks.timezone)
    for entry in ingestions.still_held(ingestions.all_of(lake, contract.dataset)):
        yield input_rules.held_file(about, entry.source_file, entry.arrival_date, entry.recorded_at, entry.message)
    yield from _unread(lake, contract, about)
    for missing in missing_inputs.of(lake, contract.dataset):
        day, recorded = missing.arrival_date, missing.recorded_at
        if missing.kind == "failed_ingestion":
            yield input_rules.failed_ingestion(about, day, recorded, missing.text)
        elif missing.kind == "stream_gap":
            yield input_rules.stream_gap(about, day, recorded, missing.text)
        else:
            ended, tolerated = end_of_day(day, zone), contract.alerts.unfinished_after
            alert = input_rules.unfinished_day(about, day, ended, recorded, missing.text, tolerated, now)
            yield from filter(None, [alert])


def _unread(lake: Lake, contract: SourceContract, about: AlertSubject) -> Iterator[Alert]:
    """The alerts by arrival day, for recent days only: old rows hold no number that is still open."""
    entries = ingestions.ingested(ingestions.all_of(lake, contract.dataset))
    newest = max((entry.arrival_date for entry in entries.values()), default=None)
    unread = unread_rows_of_source(lake, contract)
    by_day: dict[date, list[UnreadFile]] = {}
    for file in unread.files:
        is_recorded = file.reason is not None  # no alert about rows ingested by an earlier release
        days = {*file.days, *file.days_by_key, *([file.arrival_date] if file.without_day else [])}
        if is_recorded and newest and newest - file.arrival_date <= _RECENT and not all(map(unread.is_tolerated, days)):
            by_day.setdefault(file.arrival_date, []).append(file)
    for day, files in sorted(by_day.items()):
        since = min(entries[file.ingestion_id].recorded_at for file in files)
        yield input_rules.malformed_rows(about, day, since, sum(file.rows for file in files), files[0].example)


def _silent(lake: Lake, contract: SourceContract, about: AlertSubject) -> Iterator[Alert]:
    terms, zone = _silence(contract), ZoneInfo(contract.clocks.timezone)
    if terms is None:
        return
    arrivals = {
        entry.newest_arrival or arrived_at(entry.arrival_date, entry.recorded_at, zone)
        for entry in ingestions.all_of(lake, contract.dataset)
        if entry.status != "redelivered"  # which may be a copy of an old file
    }
    yield from filter(None, [input_rules.silent_source(about, arrivals, lake.now(), zone, terms)])


def _silence(contract: SourceContract) -> Rhythm | None:
    """The terms on which silence alerts; by default only with an event-time watermark, for which the source's numbers wait.

    Without a watermark, nothing indicates that more data will come: the last file may have been the final one.
    """
    terms = contract.alerts.silent_source
    if terms == "with_watermark":
        return Rhythm() if contract.clocks.watermark else None
    return terms


def _reviews(lake: Lake, contract: SourceContract, about: AlertSubject) -> Iterator[Alert]:
    columns = ["arrival_date", "quarantine_reason", "quarantine_detail", "quarantine_since", "quarantine_review_by"]
    where = {"quarantine_status": [QuarantineStatus.OPEN.value]}
    waiting, now = account_tables.quarantined(lake, contract, columns, where), lake.now()
    about = replace(about, addressed_to=addressees(*contract.stewards, contract.owner))
    if waiting is not None and len(waiting):
        since, review_by = (
            pc.min(waiting[name].cast(pa.timestamp("us", "UTC"))).as_py() for name in ("quarantine_since", "quarantine_review_by")
        )
        by_day = {day: _reasons(rows) for day, rows in table_io.split(waiting, "arrival_date").items()}
        yield input_rules.waiting_rows(about, since, by_day, review_by)
    judged = bronze_checks.reviews(contract.dataset, waiting, now)
    if waiting is not None and judged.explanation is not None:
        oldest = pc.min(waiting["quarantine_review_by"].cast(pa.timestamp("us", "UTC"))).as_py()
        yield input_rules.overdue_review(about, judged.numbers["overdue"], oldest, judged.explanation)


def _reasons(rows: pa.Table) -> Mapping[str, int]:
    """The numbers of quarantined rows by reason, for a row rule with its name."""
    found = rows.group_by(["quarantine_reason", "quarantine_detail"]).aggregate([([], "count_all")]).to_pylist()
    counts: Counter[str] = Counter()
    for entry in found:
        counts[reason_in_words(entry["quarantine_reason"], entry["quarantine_detail"])] += entry["count_all"]
    return counts


def _stalled(lake: Lake, contract: SourceContract, about: AlertSubject) -> Iterator[Alert]:
    terms, strategy = contract.alerts.watermark_stalled, contract.clocks.watermark
    if terms is None or strategy is None or isinstance(strategy, ProcessingTimeWatermark):  # the watermark follows the clock
        return
    state = event_watermark.of_source(lake, contract)
    if state is not None:
        steps = [(step.arrived, None if step.watermark == BEGINNING else step.watermark) for step in state.steps]
        zone = ZoneInfo(contract.clocks.timezone)
        yield from filter(None, [input_rules.watermark_stalled(about, steps, state.held_by, zone, terms)])


def _watermark_off(lake: Lake, contract: SourceContract, about: AlertSubject) -> Iterator[Alert]:
    """The alert from the rows of the newest arrival days. A value pinned by a person does not alert, because it is known."""
    if recommendation.tunable(contract) is None:
        return
    state = recommendation.state_of(lake, contract)
    if state.in_force.pinned is not None:
        return
    advice = recommendation.recommend(lake, contract, state.in_force.max_lateness)
    if advice is not None:
        next_step = advice.next_step if state.terms.auto else None
        alert = input_rules.watermark_off(about, advice.proposal, state.terms.catch, next_step, advice.through)
        yield from filter(None, [alert])


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


def stream_of_metric(lake: Lake, metric: MetricContract, about: AlertSubject) -> Iterator[Alert]:
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
        known = status.lag_of_topic(lake, contract, kafka, with_age=bounds.age is not None)
        about = AlertSubject(contract.dataset, contract.dataset, addressees(contract.owner))
        yield from filter(None, [stream_lag(about, known, bounds, lake.now())])


def stream_conditions(lake: Lake, catalog: Catalog) -> list[str]:
    """The present alerts of this module, or the reasons why they are unknown, as texts: state that is not in tables.

    Empty for a catalog without live metrics and lag bounds.
    """
    metrics = [metric for metric in catalog.metrics.values() if metric.live]
    sources = [contract for contract in catalog.sources.values() if contract.alerts.stream_lag is not None]
    of_metrics = [_keys(stream_of_metric(lake, metric, AlertSubject(metric.name, metric.name))) for metric in metrics]
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
