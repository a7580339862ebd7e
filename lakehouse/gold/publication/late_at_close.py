"""Which numbers of a metric with late events count every row: the final ones, where the contract says ``at_close: include``.

A number that is final keeps the rule under which it was closed: that of the contract which computed its first final revision.
Contracts of before there was the key left late rows out. Belongs here: the rule. The inputs of such a number have the mark
``late_decisions.EVERY_ROW``, by which it is made again; which rows came too late is decided in ``late_events``. The counts and
lists of late rows that people see are made here from those of ``late_events``: only this module knows the closed days.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.calendar.periods import Kind
from lakehouse.contracts.late_events import AtClose
from lakehouse.delta import provenance
from lakehouse.gold.numbers.lifecycle import State
from lakehouse.lake import table_io
from lakehouse.late_events import counters
from lakehouse.ledger import contract_archive

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from datetime import date

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.series import Series
    from lakehouse.gold.numbers.lifecycle import PublishedState
    from lakehouse.lake import Lake
    from lakehouse.late_events.counters import LateCounts

_READ = ("revision", "adjustment", "state", "dataset_version", "contract_version")


def includes(metric: MetricContract) -> bool:
    """Whether the contract of a metric leaves rows out until a number is final, and counts them then."""
    return metric.late_events is not None and metric.late_events.at_close is AtClose.INCLUDE


def counting_every_row(lake: Lake, series: Series, existing: pa.Table | None, becoming_final: Collection[date] = ()) -> set[date]:
    """The days whose number counts every row: closed ones, and those that become final now.

    :param existing: every published row of the days, and perhaps of others.
    :param becoming_final: days whose next number is final, as far as they are not final yet.
    """
    if series.metric.late_events is None or series.kind is not Kind.DAY:
        return set()
    closed = _first_final(existing, series)
    by_contract = cache(lambda version: _includes(lake, series.metric, version))
    counting = {day for day, row in closed.items() if by_contract(row["contract_version"])}
    return counting | ({*becoming_final} - closed.keys() if includes(series.metric) else set())


def closed_with_every_row(lake: Lake, series: Series, days: Collection[date]) -> set[date]:
    """The closed days among ``days`` whose published number counts every row."""
    if series.metric.late_events is None or not days:
        return set()
    existing = locations.gold(lake, series).read([series.by, *_READ], {series.by: days})
    return counting_every_row(lake, series, existing)


def with_close(lake: Lake, daily: Series, late: pa.Table) -> pa.Table:
    """Late rows with the column ``counted_at_close``: whether a row that did not count does now that its day is closed.

    :param daily: the days of the metric as readers see them.
    :param late: rows of the table of late rows.
    """
    days = pc.unique(late["event_date"]).drop_null().to_pylist()
    closed = pa.array(sorted(closed_with_every_row(lake, daily, days)), pa.date32())
    counted = pc.and_(pc.invert(late["counts"]), pc.is_in(late["event_date"], value_set=closed))
    return late.append_column("counted_at_close", counted)


def not_counted(late: pa.Table) -> pa.Table:
    """Those late rows that do not count: they wait for the close of their days, or never count.

    :param late: from :func:`with_close`.
    """
    return late.filter(pc.invert(pc.or_(late["counts"], late["counted_at_close"])))


def counts(lake: Lake, daily: Series, metric: MetricContract, arrivals: Collection[date] | None = None) -> LateCounts:
    """The counts of a metric with late events: of the rows that came too late to count at once, those that count now, too.

    :param daily: the days of the metric as readers see them.
    :param arrivals: only of deliveries of these arrival days.
    """
    dropped = counters.dropped_by_day(lake, metric, arrivals)
    closed = closed_with_every_row(lake, daily, dropped)
    found = counters.of_metric(lake, metric, arrivals)
    return replace(found, late_counted_at_close=min(found.late_dropped, sum(dropped[day] for day in closed)))


def counts_of_days(lake: Lake, daily: Series, days: Collection[date]) -> dict[date, LateCounts]:
    """The :func:`counts` of the late rows of each of ``days``; days without late rows are left out."""
    found = counters.by_event_day(lake, daily.metric, days)
    closed = closed_with_every_row(lake, daily, found)
    return {day: replace(of, late_counted_at_close=of.late_dropped) if day in closed else of for day, of in found.items()}


def at_most(series: Series, published: PublishedState | None, number: State, limit: State) -> State:
    """The latest state in which a number can be published that was computed before: one of a day that counts no late rows does
    not become final, because it is computed again for that.

    :param number: the state in which the number was computed. ``limit`` is the latest state for other reasons.
    """
    waits = includes(series.metric) and series.kind is Kind.DAY and State.FINAL not in (published and published.state, number)
    return min(State.PRELIMINARY, limit, key=lambda state: state.rank) if waits else limit


def _first_final(existing: pa.Table | None, series: Series) -> dict[date, Mapping[str, Any]]:
    """The first final revision of each closed day, among those of the dataset version that its newest one belongs to."""
    if existing is None:
        return {}
    columns = [series.by, *_READ]
    closed = table_io.with_columns(existing.filter(pc.equal(existing["state"], State.FINAL.value)), columns)
    closed = closed.filter(pc.is_null(closed["adjustment"])).group_by(columns).aggregate([])
    by_day: dict[date, list[Mapping[str, Any]]] = {}
    for row in closed.to_pylist():
        by_day.setdefault(row[series.by], []).append(row)
    return {day: _first_of_version(rows) for day, rows in by_day.items()}


def _first_of_version(rows: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The first of some revisions of a period, among those of the dataset version of the newest one."""
    in_order = sorted(rows, key=lambda row: row["revision"])
    return next(row for row in in_order if row["dataset_version"] == in_order[-1]["dataset_version"])


def _includes(lake: Lake, metric: MetricContract, version: str | None) -> bool:
    """Whether a contract of the metric includes late rows at the close; one that is not known any more does not."""
    if version is None:
        return False
    if version == provenance.of_contract(metric):
        return includes(metric)
    stored = contract_archive.find(lake, "metric", metric.name, version)
    terms = contract_archive.readable(stored).get("late_events") if stored else None
    return terms is not None and terms["at_close"] == AtClose.INCLUDE.value
