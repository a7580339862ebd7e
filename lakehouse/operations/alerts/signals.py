"""Reads the facts for alerts from tables; ``rules`` evaluates them.

Only the columns that a rule needs are read, and only from files that the statistics in the log do not exclude. ``outbox`` records
and sends the alerts.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.calendar.days import start_of_day
from lakehouse.contracts.series import Series
from lakehouse.delta import commit_log, provenance
from lakehouse.gold.numbers import lifecycle, published_table, served_version, window_history
from lakehouse.gold.numbers.lifecycle import RevisionReason, State
from lakehouse.gold.numbers.published_table import TIME
from lakehouse.gold.publication import candidates, late_at_close
from lakehouse.gold.restatement import closing
from lakehouse.gold.restatement.pending import due_by_calendar
from lakehouse.lake import table_io
from lakehouse.late_events import counters
from lakehouse.lateness import recent_lags
from lakehouse.lateness.rules import tiers_of
from lakehouse.ledger import failures
from lakehouse.live import batches as live_batches
from lakehouse.live import dropped_rows
from lakehouse.live import table as live_table
from lakehouse.operations.alerts import input_signals
from lakehouse.operations.alerts import rules as alert_rules
from lakehouse.operations.alerts.alert import AlertSubject, addressees
from lakehouse.operations.alerts.rules import PeriodRestatement, PublishedValues

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from lakehouse.contracts import Catalog
    from lakehouse.contracts.alerts import ValueBound
    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.operations.alerts.alert import Alert

_DAY = timedelta(days=1)
_WEEK = timedelta(days=7)


def state_of(lake: Lake, catalog: Catalog, *more: str) -> str:
    """A fingerprint of all inputs of alerts: the tables, the contracts, the code, the hour, and ``more`` texts.

    While the fingerprint is unchanged, so are the alerts; an alert that depends only on the clock is detected within the hour.
    """
    tables = [locations.bronze(lake, source) for source in catalog.sources]
    tables += dict.fromkeys(table for source in catalog.sources.values() for table in input_signals.tables(lake, source))
    for metric in catalog.metrics.values():
        daily = Series(metric)
        for series in (daily, *daily.rollups):
            tables += [locations.gold(lake, series), locations.candidates(lake, series)]
        tables += [locations.live(lake, metric.name)] if metric.live and metric.alerts.values else []
        if metric.publication.start_delay:
            tables += locations.every_silver_read(lake, metric).values()
    tables += [locations.live_batches(lake)] if any(metric.live for metric in catalog.metrics.values()) else []
    tables.append(locations.failed_numbers(lake))
    if any(metric.reconcile for metric in catalog.metrics.values()):
        tables.append(locations.reconciliations(lake))
    contracts = [contract.model_dump_json() for contract in (*catalog.sources.values(), *catalog.metrics.values())]
    more = (*input_signals.stream_conditions(lake, catalog), *more)
    return commit_log.state_of(tables, *contracts, f"{lake.now():%Y-%m-%dT%H}", provenance.code(), *more)


def of_source(lake: Lake, contract: SourceContract) -> Iterator[Alert]:
    """The alerts about a source: its inputs, its event-time watermark, and its arrivals as of the newest one."""
    yield from input_signals.of_source(lake, contract)
    terms = contract.alerts
    bound, tiers = late_bound(contract), contract.lateness.judged_tiers
    if terms.lag is None and bound is None and not tiers:
        return
    looked_back = [terms.lag.days if terms.lag else 1]
    looked_back += [2 * (terms.late_share.lasting // _DAY + 1)] if terms.late_share else []
    arrivals = recent_lags.newest(lake, contract, max(looked_back))
    if arrivals is None:
        return
    about = AlertSubject(contract.dataset, contract.dataset, addressees(contract.owner))
    if terms.late_share and bound is not None:
        yield from filter(None, [alert_rules.late_share(about, arrivals.by_time(), terms.late_share, bound)])
    newest, day_before = arrivals.newest, arrivals.newest - _DAY
    seconds = arrivals.seconds(day_before, newest) if tiers else ()
    for late in tiers_of(tiers.values(), seconds):
        yield from filter(None, [alert_rules.tier_share(about, late, len(seconds), newest)])
    if terms.lag:
        baseline = arrivals.p99(day_before - terms.lag.days * _DAY, day_before)
        yield from filter(None, [alert_rules.lag(about, arrivals.p99(day_before, newest), baseline, newest, terms.lag)])


def of_metric(lake: Lake, catalog: Catalog, metric: MetricContract) -> Iterator[Alert]:
    """The alerts about the published numbers of a metric, as visible to readers.

    :raises UnservedVersionError: if the contract of the version that readers see no longer exists.
    """
    daily = served_version.daily(lake, catalog, metric)
    for series in (daily, *daily.rollups):
        about = _about(catalog, metric, series)
        yield from _held(lake, series, about)
        yield from _overdue(lake, catalog.sources.get(metric.source), series, about)
        yield from _held_back(lake, series, about)
        of_values = list(_values(lake, series, about))
        yield from of_values
        if series is daily:
            yield from _live_values(lake, daily, about, {(alert.period, alert.detail) for alert in of_values})
    yield from _late_dropped(lake, metric, daily, _about(catalog, metric, daily))
    yield from _of_days(lake, daily, _about(catalog, metric, daily))
    yield from _of_live(lake, metric, _about(catalog, metric, daily))
    if metric.source in catalog.sources:
        yield from _dropped_by_stream(lake, metric, catalog.sources[metric.source], _about(catalog, metric, daily))
    yield from input_signals.stream_of_metric(lake, metric, _about(catalog, metric, daily))


def _of_live(lake: Lake, metric: MetricContract, about: AlertSubject) -> Iterator[Alert]:
    """The alerts about differences between live and published numbers."""
    if metric.reconcile is None:
        return
    since = lake.now() - alert_rules.JUDGED_FOR
    for day, reconciled in live_batches.newest_beyond_threshold(lake, metric.name, since).items():
        yield from filter(None, [alert_rules.live_difference(about, day, reconciled)])


def late_bound(contract: SourceContract) -> Decimal | None:
    """The tolerated share of rows beyond the cutoff; None without such a bound, or without a cutoff."""
    share, lateness = contract.alerts.late_share, contract.lateness
    if share is None or (lateness.watermark is None and lateness.by is None):
        return None
    bound = share.above if share.above is not None else lateness.alert_above
    return None if bound is None else Decimal(f"{bound}")


def _about(catalog: Catalog, metric: MetricContract, series: Series) -> AlertSubject:
    source = catalog.sources.get(metric.source)
    return AlertSubject(metric.name, series.name, addressees(source.owner if source else None, metric.owner))


def _held(lake: Lake, series: Series, about: AlertSubject) -> Iterator[Alert]:
    for candidate in candidates.held(lake, series):
        name = series.period(candidate.start).name
        alert = alert_rules.held(about, name, candidate.revision, candidate.proposed_at, candidate.failed, lake.now())
        yield from filter(None, [alert])
    for start, failed in failures.failing(lake, series.name).items():
        name = series.period(start).name
        yield alert_rules.uncomputed(about, name, failed.recorded_at, failed.measure, failed.explanation)


def _overdue(lake: Lake, source: SourceContract | None, series: Series, about: AlertSubject) -> Iterator[Alert]:
    """The alerts about periods that are overdue for longer than the contract tolerates.

    Numbers that wait for a closing condition have a separate bound.
    """
    terms, now, tolerated = series.metric.publication, lake.now(), series.metric.alerts.overdue_after
    may_wait = tolerated if terms.close_by is None else terms.close_by - terms.final_after
    starts = due_by_calendar(lake, series, now - (min(tolerated, may_wait) + 1) * _DAY)
    if not starts:
        return
    due_on = published_table.due_dates(lake, series)
    today, zone = lifecycle.today(now, terms), ZoneInfo(terms.timezone or "UTC")
    limits = closing.limits(lake, source, series, [series.period(start) for start in starts]) if source else {}
    for start in starts:
        period, limit = series.period(start), limits.get(start)
        state = lifecycle.state_on(period.last, today, terms) if start in due_on else None
        waits_for = limit.waits_for if limit and state and limit.at_most.rank < state.rank else ()
        day = due_on.get(start, period.last + terms.start_delay * _DAY)
        if waits_for and state is State.FINAL:
            is_overdue = today > lifecycle.closes_on(period.last, terms) + may_wait * _DAY
        else:
            is_overdue = today > day + tolerated * _DAY
        if not is_overdue:
            continue
        yield alert_rules.overdue(about, period.name, day, start_of_day(day, zone), state, waits_for)


def _held_back(lake: Lake, series: Series, about: AlertSubject) -> Iterator[Alert]:
    """The alerts about derived numbers that were never published because an input has none.

    They end after a week: an input without rows on some days of each week would leave ever more of them.
    """
    terms, tolerated = series.metric.publication, series.metric.alerts.overdue_after
    today, zone = lifecycle.today(lake.now(), terms), ZoneInfo(terms.timezone or "UTC")
    for start, inputs in published_table.lacking_inputs(lake, series).items():
        period = series.period(start)
        due_on = period.last + terms.preliminary_after * _DAY
        if tolerated < (today - due_on).days <= tolerated + alert_rules.JUDGED_FOR.days:
            lacking = [f"{name} has no number of {period.name}" for name in inputs]
            yield alert_rules.overdue(about, period.name, due_on, start_of_day(due_on, zone), None, lacking)


def _of_days(lake: Lake, daily: Series, about: AlertSubject) -> Iterator[Alert]:
    """Restatements of days."""
    terms, now = daily.metric.alerts, lake.now()
    if terms.restatements:
        restated, first = restatements_of_days(lake, daily, terms.restatements.weeks)
        yield from filter(None, [alert_rules.restatements(about, restated, first, now, terms.restatements)])


def restatements_of_days(lake: Lake, daily: Series, weeks: int) -> tuple[list[PeriodRestatement], datetime | None]:
    """The restatements of days in the newest week and ``weeks`` weeks before, and the time of the first publication."""
    files = published_table.files_of(locations.gold(lake, daily))
    if files is None or "max.published_at" not in files.column_names:
        return [], None
    begin = lake.now() - (weeks + 1) * _WEEK
    restated = _restated(lake, daily, _since(lake, daily, "restated_on", begin), begin)
    return restated, pc.min(files["min.published_at"]).as_py()


def _values(lake: Lake, series: Series, about: AlertSubject) -> Iterator[Alert]:
    """Values of days, of all their windows, or of longer periods."""
    terms, now = series.metric.alerts, lake.now()
    bounds = [bound for bound in terms.values if bound.by == series.kind.value]
    files = published_table.files_of(locations.gold(lake, series)) if bounds else None
    if files is None or "max.published_at" not in files.column_names:
        return
    judged = {*_since(lake, series, "published_at", now - alert_rules.JUDGED_FOR), *published_table.due_dates(lake, series)}
    for rows in _newest(lake, series, judged, bounds):
        for bound in bounds:
            number = _number(rows, series, bound)
            yield from filter(None, [alert_rules.value(about, number, bound, terms.live_tolerance, now)])


def _live_values(
    lake: Lake, daily: Series, about: AlertSubject, published: Collection[tuple[str | None, str | None]]
) -> Iterator[Alert]:
    """Values of the stream, of days that are not final: a window that is still open is not too small yet.

    :param published: the periods, each with the name of the bound, whose published value is beyond it already.
    """
    metric, now = daily.metric, lake.now()
    bounds = [bound for bound in metric.alerts.values if bound.by == daily.kind.value] if metric.live else []
    days = live_table.days(lake, metric) if bounds else []
    rows = live_table.live_rows(lake, metric, days)
    watermark = max((row["watermark"] for row in rows if row["watermark"]), default=None)
    where = {daily.by: days, "is_latest": [True], "state": [State.FINAL.value]}
    finals = locations.gold(lake, daily).read([daily.by], where) if rows else None
    final_days = set() if finals is None else set(finals[daily.by].to_pylist())
    for day in [day for day in days if day not in final_days]:
        of_day = [row for row in rows if row["event_date"] == day]
        closed = [row for row in of_day if live_table.is_closed(row, watermark)]
        for bound in [bound for bound in bounds if (f"{day}", alert_rules.named(bound)) not in published]:
            upper = bound.model_copy(update={"below": None})
            for judged, judged_rows in ((bound, closed), (upper, of_day)):
                number = _live_number(judged_rows, daily, judged, f"{day}")
                alert = number and alert_rules.value(about, number, judged, metric.alerts.live_tolerance, now)
                if alert:
                    yield replace(alert, detail=f"{alert_rules.named(bound)}, of the stream")
                    break


def _live_number(rows: list[dict[str, Any]], daily: Series, bound: ValueBound, period: str) -> PublishedValues | None:
    """The values of the stream for one measure; None without a row."""
    if not rows:
        return None
    return PublishedValues(period, None, State.LIVE, max(row["updated_at"] for row in rows), _selected(rows, daily, bound))


def _late_dropped(lake: Lake, metric: MetricContract, daily: Series, about: AlertSubject) -> Iterator[Alert]:
    """The share of the rows of the newest arrival day that came too late for a metric with late events, and do not count."""
    terms = metric.alerts.late_dropped
    newest = counters.newest_arrival(lake, metric) if terms and metric.late_events else None
    if terms is None or newest is None:
        return
    counts = late_at_close.counts(lake, daily, metric, [newest])
    alert = alert_rules.late_dropped(
        about, counts.rows, counts.late_not_counted, newest, terms, at_close=late_at_close.includes(metric)
    )
    yield from filter(None, [alert])


def _dropped_by_stream(lake: Lake, metric: MetricContract, source: SourceContract, about: AlertSubject) -> Iterator[Alert]:
    """The share of the rows of the newest arrival day that the stream of a live metric has dropped."""
    terms = metric.alerts.late_dropped
    newest = dropped_rows.newest_arrival(lake, metric) if terms and metric.live else None
    if terms is None or newest is None:
        return
    of_stream = dropped_rows.dropped(lake, metric, source, arrival=newest)
    yield from filter(None, [alert_rules.dropped_by_stream(about, of_stream.read, len(of_stream.rows), newest, terms)])


def _newest(lake: Lake, series: Series, starts: set[date], bounds: list[ValueBound]) -> Iterator[list[dict[str, Any]]]:
    """The rows of the newest number of each period: its grain, and the measures that have bounds."""
    measures = dict.fromkeys(bound.measure for bound in bounds)
    columns = [series.by, "period", "revision", "state", "published_at", *series.grain, *measures]
    where = {series.by: starts, "is_latest": [True]}
    numbers = locations.gold(lake, series).read(columns, where) if starts else None
    for rows in {} if numbers is None else table_io.split(numbers, series.by).values():
        yield rows.to_pylist()


def _number(rows: list[dict[str, Any]], series: Series, bound: ValueBound) -> PublishedValues:
    """A number's values of one measure, of the rows of the grain that the bound selects."""
    head = rows[0]
    values = _selected(rows, series, bound)
    return PublishedValues(head["period"], head["revision"], State(head["state"]), head["published_at"], values)


def _selected(rows: list[dict[str, Any]], series: Series, bound: ValueBound) -> list[tuple[str, Any]]:
    """The values of one measure in the rows of the grain that a bound selects, each with its grain in words."""
    selected = [row for row in rows if all(f"{row[name]}" == text for name, text in bound.where.items())]
    shown = [{name: window_history.text(name, row[name], series.metric) for name in series.grain} for row in selected]
    return [
        (", ".join(f"{name} {text}" for name, text in grain.items()), row[bound.measure]) for grain, row in zip(shown, selected)
    ]


def _restated(lake: Lake, daily: Series, days: set[date], begin: datetime) -> list[PeriodRestatement]:
    """The revisions and adjustments since ``begin`` whose content differs from the previous number."""
    columns = ["period", "revision", "adjustment", "published_at", "restated_on", "reason", "state"]
    published = locations.gold(lake, daily).read(columns, {daily.by: days}) if days else None
    if published is None:
        return []
    recent = published.filter(pc.greater_equal(published["published_at"], pa.scalar(begin, TIME)))
    return [
        PeriodRestatement(row["published_at"], row["period"])
        for row in recent.group_by(columns).aggregate([]).to_pylist()
        if lifecycle.is_restatement(RevisionReason(row["reason"]), State(row["state"]), row["published_at"], row["restated_on"])
    ]


def _since(lake: Lake, series: Series, column: str, begin: datetime) -> set[date]:
    """The periods with a row whose time in ``column`` is ``begin`` or later."""

    def may_be_new(bounds: pa.ChunkedArray) -> pa.ChunkedArray:
        return pc.greater_equal(bounds.cast(TIME), pa.scalar(begin, TIME))

    bounds = published_table.bounds(lake, series, column, "max", may_be_new)
    return {start for start, (_, newest) in bounds.items() if newest >= begin}
