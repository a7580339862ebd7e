"""Late rows in the numbers of a metric: which final numbers count every row, and how often late rows change a window before.

With ``at_close: include`` in the contract, final numbers count every row. A number that is final keeps the rule under which it
was closed: that of the contract which computed its first final revision. Contracts of before there was the key left late rows
out. The inputs of such a number have the mark ``late_decisions.EVERY_ROW``, by which it is made again. Which rows came too late
is decided in ``late_events``. The counts and lists of late rows that people see are made here from those of ``late_events``: only
this module knows the closed days.

``late_events.max_updates_per_window`` limits how often late rows change a published window; a further change waits until the
window is final. The updates are counted from the published revisions, and not stored.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.calendar.periods import Kind
from lakehouse.contracts.publication import AtClose
from lakehouse.contracts.windows import WINDOW_START
from lakehouse.delta import provenance
from lakehouse.gold.numbers.lifecycle import PublishAction, RevisionReason, State
from lakehouse.lake import table_io
from lakehouse.late_events import counters, left_out
from lakehouse.ledger import contract_archive
from lakehouse.snapshots import input_sets

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import date, datetime

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.series import Series
    from lakehouse.gold.numbers.lifecycle import PublishedState
    from lakehouse.gold.publication.candidates import Draft
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


#: The rows of each window of a day, by its first moment; None for the day of a metric without windows, and rows without a time.
_Windows = dict["datetime | None", list[dict[str, Any]]]
#: The log message about a number that waits: the series, and the day.
WAITING = "gold/%s: late rows have changed %s as often as late_events.max_updates_per_window allows; it waits until it is final"
#: The reason why the number of such a day differs from silver.
EXHAUSTED = "late rows have changed a window as often as late_events.max_updates_per_window allows: it waits until it is final"
#: The reasons of revisions that follow the data.
_BY_DATA = (RevisionReason.NEW_DATA.value, RevisionReason.LATE_DATA.value, RevisionReason.CORRECTION.value)


def waits_for_updates(lake: Lake, series: Series, existing: pa.Table | None, draft: Draft) -> bool:
    """Whether every window that a draft changes has been updated as often as the contract allows, and is not final yet.

    :param existing: every published row of the day, possibly with those of others.
    """
    terms = series.metric.late_events
    if terms is None or existing is None or draft.action is not PublishAction.REVISION or draft.reason.value not in _BY_DATA:
        return False
    revisions = _revisions(existing, series, draft.start)
    if len(revisions) <= terms.max_updates_per_window or revisions[-1][0]["state"] != draft.state.value:
        return False
    if draft.state is State.FINAL:
        return False
    changed = _changed(_by_window(revisions[-1], series), _by_window(draft.rows.to_pylist(), series))
    updates = _counted(lake, series, draft.start, revisions)
    return bool(changed) and all(updates[window] >= terms.max_updates_per_window for window in changed)


def is_exhausted(lake: Lake, series: Series, existing: pa.Table | None, day: date) -> bool:
    """Whether a window of a day that is not final has been updated as often as the contract allows: its changes wait."""
    terms = series.metric.late_events
    if terms is None or existing is None:
        return False
    revisions = _revisions(existing, series, day)
    if len(revisions) <= terms.max_updates_per_window or revisions[-1][0]["state"] == State.FINAL.value:
        return False
    return max(_counted(lake, series, day, revisions).values(), default=0) >= terms.max_updates_per_window


def waits_for_close(lake: Lake, series: Series, day: date) -> bool:
    """The same, with what is published of the day."""
    return is_exhausted(lake, series, locations.gold(lake, series).read(None, {series.by: [day]}), day)


def _counted(lake: Lake, series: Series, day: date, revisions: Sequence[list[dict[str, Any]]]) -> Counter[datetime | None]:
    """A revision updates a window with late rows if the watermark had passed the window when the previous revision was
    computed.
    """
    updates: Counter[datetime | None] = Counter()
    for before, after in pairwise(revisions):
        if after[0]["reason"] not in _BY_DATA or before[0]["inputs"] is None:
            continue
        passed = _watermark(lake, series.metric, before[0]["inputs"])
        changed = _changed(_by_window(before, series), _by_window(after, series))
        updates.update(window for window in changed if _end(series.metric, day, window) <= passed)
    return updates


def _watermark(lake: Lake, metric: MetricContract, inputs: str) -> int:
    """The watermark after the deliveries among the recorded ``inputs``, in microseconds since 1970."""
    assert metric.late_source is not None  # noqa: S101 (a metric with late events knows its source)
    ids = input_sets.ids_of(lake, metric.source, inputs)
    return left_out.watermark_after(lake, metric.late_source, ids)


def _end(metric: MetricContract, day: date, window: datetime | None) -> int:
    assert metric.late_source is not None  # noqa: S101 (a metric with late events knows its source)
    zone = ZoneInfo(metric.late_source.clocks.timezone)
    return left_out.end_of_window(day, window, metric, zone)


def _revisions(existing: pa.Table, series: Series, day: date) -> list[list[dict[str, Any]]]:
    """The rows of each revision of a day, in their order; adjustments are left out."""
    by_number: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in existing.select([*series.content, series.by, "revision", "adjustment", "reason", "state", "inputs"]).to_pylist():
        if row[series.by] == day and row["adjustment"] is None:
            by_number[row["revision"]].append(row)
    return [by_number[number] for number in sorted(by_number)]


def _by_window(rows: Sequence[Mapping[str, Any]], series: Series) -> _Windows:
    windows: _Windows = defaultdict(list)
    for row in rows:
        if row["row_count"]:
            windows[row.get(WINDOW_START)].append({name: row[name] for name in series.content})
    return windows


def _changed(before: _Windows, after: _Windows) -> list[datetime | None]:
    return [window for window in {**before, **after} if before.get(window) != after.get(window)]
