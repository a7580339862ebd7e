"""The rows that do not count in a metric because they came too late, for given event days and inputs.

They are a function of Bronze and the contract: present and past numbers are computed by it, whatever ``silver/<source>_late``
holds. The remaining rows, from which the numbers are computed, are read in ``gold.restatement.silver_rows``.

A row is on time, late within the allowed lateness, or beyond it. It is judged by the last window that it lies in: its hour, the
last sliding window that covers it, its event day, or the last day whose trailing number covers it; for sessions, the session that
the row would form alone. The row is on time while the watermark at its delivery's arrival has not reached the end of that window.
All rows of a delivery have the same watermark. A row without an event time is in no window and on time.

Rows that do not count, because they or other rows of their keys came too late, are also counted independently per event day, for
the check that no row was lost (``gold.publication.checks``). No Spark is used.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.calendar import windows
from lakehouse.calendar.days import end_of_day, start_of_day
from lakehouse.contracts.windows import SessionWindow
from lakehouse.dispositions import claims, deliveries, readings, winners
from lakehouse.dispositions.reprocess_policy import policy_of
from lakehouse.dispositions.winners import cases, groups, positions
from lakehouse.lateness import event_watermark
from lakehouse.lateness.measurement import microseconds
from lakehouse.lateness.watermark_per_key import NEVER
from lakehouse.ledger import decisions, ingestions, key_log, late_decisions

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.publication import LateEvents
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake, table_io
    from lakehouse.ledger.ingestions import Ingestion

TIME = pa.timestamp("us", "UTC")
_MINUTE = 60_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
#: The end of a later day does not exist.
_LAST_DAY = date(9998, 12, 31)


class LateReason(str, Enum):
    """The degree of lateness of a late row."""

    WITHIN = "late_within_tolerance"
    BEYOND = "dropped_beyond_tolerance"


def window_ends(rows: pa.Table, metric: MetricContract, zone: ZoneInfo) -> pa.Array:
    """The end of the last window that each row lies in, in microseconds since 1970; NULL for a row without an event day.

    :param rows: with ``event_ts`` and ``event_date``.
    """
    days = pc.unique(rows["event_date"])
    known = [None if day is None or day > _LAST_DAY else day for day in days.to_pylist()]
    place = pc.index_in(rows["event_date"], days).combine_chunks()
    whole = pa.array([None if day is None else end_of_days(day, metric, zone) for day in known], pa.int64()).take(place)
    window = metric.event_window
    if window is None:
        return whole
    if isinstance(window, SessionWindow):
        return pc.coalesce(pc.add(_moments(rows), microseconds(window.gap)), whole)
    midnight = pa.array([None if day is None else _microseconds(start_of_day(day, zone)) for day in known], pa.int64()).take(
        place
    )
    step, size = microseconds(window.step), microseconds(window.size)
    passed = pc.subtract(_moments(rows), midnight)
    end = pc.add(pc.add(midnight, pc.multiply(pc.divide(passed, step), step)), size)
    end = end if window.overlaps else pc.min_element_wise(end, whole, skip_nulls=False)
    return pc.coalesce(end, whole)


def end_of_days(day: date, metric: MetricContract, zone: ZoneInfo) -> int:
    """The end of the last day whose number covers an event day, in microseconds since 1970."""
    return _microseconds(end_of_day(day + timedelta(days=metric.trailing_days - 1), zone))


def end_of_window(day: date, start: datetime | None, metric: MetricContract, zone: ZoneInfo) -> int:
    """The end of one window of a day, in microseconds since 1970.

    :param start: its first moment; None for the whole day.
    """
    whole, window = _microseconds(end_of_day(day, zone)), metric.event_window
    if isinstance(window, SessionWindow):  # it has ended by then, however long it goes on
        return _microseconds(end_of_day(day + timedelta(days=1), zone))
    if window is None or start is None:
        return whole
    end = _microseconds(start + window.size)
    return end if window.overlaps else min(end, whole)


def moment_of_end(day: date, start: datetime, metric: MetricContract, zone: ZoneInfo) -> datetime:
    """The end of one window of a day."""
    return _EPOCH + timedelta(microseconds=end_of_window(day, start, metric, zone))


def first_end(day: date, metric: MetricContract, zone: ZoneInfo) -> int:
    """The end of the first window by which a row of an event day may be judged, in microseconds since 1970."""
    if metric.event_window is None or day > _LAST_DAY:
        return end_of_days(min(day, _LAST_DAY), metric, zone)
    window = metric.event_window
    length = window.gap if isinstance(window, SessionWindow) else window.size
    return _microseconds(start_of_day(day, zone)) + microseconds(length)


def are_late(ends: pa.Array, watermarks: pa.Array) -> pa.Array:
    """Whether the watermark at each row's arrival had reached the end of its window.

    :param watermarks: in microseconds, NULL for a delivery without a known watermark.
    """
    return pc.fill_null(pc.greater_equal(watermarks, ends), False)


def are_beyond(ends: pa.Array, watermarks: pa.Array, terms: LateEvents) -> pa.Array:
    """Whether each row is late, and later than the contract allows."""
    return are_late(pc.add(ends, microseconds(terms.allowed_lateness)), watermarks)


def are_left_out(ends: pa.Array, watermarks: pa.Array, terms: LateEvents) -> pa.Array:
    """Whether each row does not count in the metric."""
    return are_late(pc.add(ends, microseconds(terms.tolerance)), watermarks)


def windows_of(rows: pa.Table, metric: MetricContract, zone: ZoneInfo) -> pa.Array:
    """The names of the windows that each row lies in, such as ``2024-01-15T14`` or ``2024-01-15``; a list for each row.

    For sessions the list has their day. Windows begin and end at whole minutes, so the names are computed once for each minute
    with an event.
    """
    minutes = pc.divide(_moments(rows), _MINUTE) if metric.event_window else pa.nulls(len(rows), pa.int64())
    group = groups(rows["event_date"], minutes)
    names = [_names(day, minute, metric, zone) for day, minute in cases(group, rows["event_date"], minutes)]
    return pa.array(names, pa.list_(pa.string())).take(pa.array(group))


def _names(day: date | None, minute: int | None, metric: MetricContract, zone: ZoneInfo) -> list[str]:
    """The names of the windows that contain a minute of an event day."""
    if day is None or day > _LAST_DAY:
        return []
    window = metric.event_window
    if isinstance(window, SessionWindow):
        return [f"{day}"]
    if window is None or minute is None:
        return [f"{day + timedelta(days=later)}" for later in range(metric.trailing_days)]
    moment, days = _EPOCH + minute * timedelta(minutes=1), [day - timedelta(days=1), day] if window.overlaps else [day]
    starts = (start for each in days for start in windows.starts(each, window.step, zone))
    return [windows.name(start, zone) for start in starts if start <= moment < start + window.size]


def _moments(rows: pa.Table) -> pa.Array:
    return rows["event_ts"].cast(TIME).cast(pa.int64()).combine_chunks()


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


_ROW = ("ingestion_id", "line_number")
_NO_ROWS = pa.schema(
    [("event_ts", TIME), ("event_date", pa.date32()), ("ingestion_id", pa.string()), ("line_number", pa.int64())]
).empty_table()
_CLAIM = ["record_key", "kind", "event_date", *_ROW, "arrival_date"]


class LeftOut(NamedTuple):
    """Rows that do not count, by id; the keys that they concern; and the event days whose content would differ with them."""

    rows: pa.Table
    keys: pa.Array
    days: set[date]


@dataclass(frozen=True)
class Deliveries:
    """Deliveries of a source with the watermark at the arrival of each, as far as their rows may be late.

    :param met: in microseconds since 1970, by ingestion.
    """

    entries: Mapping[str, Ingestion]
    met: Mapping[str, int]

    @property
    def where(self) -> table_io.Where:
        """The condition that selects the rows of these deliveries in Bronze and in the key log."""
        return {"ingestion_id": list(self.met), "arrival_date": {self.entries[name].arrival_date for name in self.met}}

    def watermarks(self, rows: pa.Table) -> pa.Array:
        """The watermark at each row's arrival; NULL for a row of another delivery."""
        ids = pa.array(list(self.met), pa.string())
        return pa.array(list(self.met.values()), pa.int64()).take(pc.index_in(rows["ingestion_id"], ids).combine_chunks())


def deliveries_of(lake: Lake, contract: SourceContract, ids: Collection[str] | None = None) -> Deliveries:
    """The deliveries ``ids`` of a source (default: all), with the watermark at the arrival of each.

    A correction that a person enters counts whenever it is entered: it has no watermark.
    """
    entries = _ingested(lake, contract, ids)
    met = event_watermark.met_by_each(lake, contract, entries)
    return Deliveries(
        entries,
        {
            name: _micros(moment)
            for name, moment in met.items()
            if moment > event_watermark.BEGINNING and not ingestions.is_by_hand(entries[name].source_file)
        },
    )


def watermark_after(lake: Lake, contract: SourceContract, ids: Collection[str]) -> int:
    """The watermark after the deliveries among ``ids``, in microseconds since 1970; before all times if there is none."""
    taken = event_watermark.of_deliveries(lake, contract, _ingested(lake, contract, ids))
    return _micros(taken[-1].watermark) if taken else NEVER


def number_behind(lake: Lake, metrics: Collection[MetricContract], contract: SourceContract, rows: pa.Table) -> int:
    """How many rows of a file that has not been ingested would come too late to count in one of ``metrics``, by the watermark of
    the deliveries that have arrived before it.

    :param metrics: metrics of the source; those without late events count every row.
    :param rows: the file's well-formed rows, with ``event_ts``, ``event_date`` and ``arrival_ts``.
    """
    judging = [metric for metric in metrics if metric.late_events is not None and metric.source == contract.dataset]
    state = event_watermark.of_source(lake, contract, pc.max(rows["arrival_ts"]).as_py()) if judging and len(rows) else None
    if state is None or state.watermark <= event_watermark.BEGINNING:
        return 0
    met, zone = pa.repeat(pa.scalar(_micros(state.watermark), pa.int64()), len(rows)), ZoneInfo(contract.clocks.timezone)
    behind = pa.repeat(False, len(rows))
    for metric in judging:
        left = are_left_out(window_ends(rows, metric, zone), met, terms_of(metric))
        behind = pc.or_(behind, pc.fill_null(left, False))
    return pc.sum(behind).as_py() or 0


def _ingested(lake: Lake, contract: SourceContract, ids: Collection[str] | None) -> dict[str, Ingestion]:
    every = ingestions.ingested(ingestions.all_of(lake, contract.dataset))
    return every if ids is None else {name: entry for name, entry in every.items() if name in ids}


def may_be_late(
    lake: Lake, metric: MetricContract, contract: SourceContract, known: Deliveries, *, late_at_all: bool = False
) -> Deliveries:
    """The deliveries that may have rows which do not count (with ``late_at_all``: which are late), judged by their event days
    alone.
    """
    zone = ZoneInfo(contract.clocks.timezone)
    tolerance = 0 if late_at_all else microseconds(terms_of(metric).tolerance)
    ends: dict[date, int] = {}
    read_again = readings.readings_of(lake, contract.dataset) is not None  # perhaps with other event days
    suspected = {}
    for name, met in known.met.items():
        entry = known.entries[name]
        days = [day for day, rows in entry.rows_by_day.items() if rows]
        ends |= {day: first_end(day, metric, zone) + tolerance for day in days if day not in ends}
        # The day of a row that was not admitted, but that a steward may admit, is not listed.
        is_unlisted = sum(entry.rows_by_day.values()) < entry.rows - entry.malformed
        if read_again or is_unlisted or any(ends[day] <= met for day in days):
            suspected[name] = met
    return Deliveries(known.entries, suspected)


def on_days(
    lake: Lake, metric: MetricContract, contract: SourceContract, days: Collection[date], ids: Collection[str]
) -> LeftOut | None:
    """The rows that do not count in a metric and concern ``days``: they, or other rows of their keys, lie on these days.

    :param contract: of the silver table that the metric reads.
    :param ids: the inputs that count; decisions to admit late rows are among them.
    :returns: None if all rows count.
    """
    if late_decisions.EVERY_ROW in ids:
        return None
    suspected = may_be_late(lake, metric, contract, deliveries_of(lake, contract, ids))
    if not suspected.met or not days:
        return None
    stored = locations.key_log(lake, contract.dataset)
    on_these = stored.read(["record_key", "event_date", "ingestion_id"], {"event_date": days})
    if on_these is None or not len(on_these):
        return None
    on_these = on_these.filter(pc.is_in(on_these["ingestion_id"], pa.array(sorted(ids), pa.string())))
    claimed = key_log.about(lake, contract.dataset, _CLAIM, pc.unique(on_these["record_key"]).drop_null())
    if claimed is None:
        return None
    claimed = claimed.filter(pc.is_in(claimed["ingestion_id"], pa.array(list(suspected.met), pa.string())))
    claimed = claimed.filter(_may_be_left_out(claimed, metric, contract, suspected))
    late = claimed.filter(pc.is_valid(positions(claimed, _late_rows(lake, metric, contract, claimed, suspected, ids))))
    if not len(late):
        return None
    keys = pc.unique(late["record_key"])
    concerned = set(pc.unique(on_these.filter(pc.is_in(on_these["record_key"], keys))["event_date"]).to_pylist())
    return LeftOut(late.group_by(list(_ROW)).aggregate([]), keys, concerned)


def _may_be_left_out(claimed: pa.Table, metric: MetricContract, contract: SourceContract, known: Deliveries) -> pa.ChunkedArray:
    """Whether the rows of each claim may be left out, by event day; a row that retires another key may have any day."""
    zone, tolerance = ZoneInfo(contract.clocks.timezone), microseconds(terms_of(metric).tolerance)
    days = pc.unique(claimed["event_date"])
    ends = [NEVER if day is None else first_end(day, metric, zone) + tolerance for day in days.to_pylist()]
    end = pa.array(ends, pa.int64()).take(pc.index_in(claimed["event_date"], days).combine_chunks())
    return are_late(end, known.watermarks(claimed))


def _late_rows(
    lake: Lake,
    metric: MetricContract,
    contract: SourceContract,
    claimed: pa.Table,
    known: Deliveries,
    ids: Collection[str],
) -> pa.Table:
    """The rows in the deliveries of some claims that do not count, by id; of other keys perhaps not all.

    A row that a steward has admitted counts.
    """
    where: table_io.Where = {name: pc.unique(claimed[name]) for name in ("arrival_date", "ingestion_id")}
    own = claimed.filter(pc.not_equal(claimed["kind"], "retire"))
    if len(own) == len(claimed):  # a retirement is made by the row of another key
        where = {**where, "record_key": pc.unique(claimed["record_key"])}
    rows = readings.read(lake, contract.dataset, ["event_ts", "event_date", "malformed_reason", *_ROW], where, ids)
    rows = _NO_ROWS if rows is None or not len(claimed) else rows.filter(pc.is_null(rows["malformed_reason"]))
    ends = window_ends(rows, metric, ZoneInfo(contract.clocks.timezone))
    late = rows.filter(are_left_out(ends, known.watermarks(rows), terms_of(metric)))
    decided = late_decisions.of_metric(lake, contract.dataset, metric.name) if len(late) else []
    admitted = late_decisions.admitted(decided, ids)
    return late.filter(pc.is_null(positions(late, admitted))) if len(admitted) else late


def days_alike(named: Mapping[date, Collection[str]]) -> dict[frozenset[str], list[date]]:
    """The event days that are computed from the same inputs, by these inputs.

    :param named: the inputs of each day.
    """
    alike: dict[frozenset[str], list[date]] = defaultdict(list)
    for day, ids in named.items():
        alike[frozenset(ids)].append(day)
    return alike


def terms_of(metric: MetricContract) -> LateEvents:
    """The rules of a metric that has late events."""
    assert metric.late_events is not None  # noqa: S101 (a metric without late events has no rows to leave out)
    return metric.late_events


def _micros(moment: datetime) -> int:
    return int(pa.scalar(moment, TIME).value)


def count_difference(
    lake: Lake, metric: MetricContract, contract: SourceContract, named: Mapping[date, Collection[str]]
) -> Counter[date]:
    """The rows that silver has in excess of those that count in a metric, by event day; negative if an older version of a row
    counts again.

    :param contract: of the silver table that the metric reads.
    :param named: the inputs of each of the days.
    """
    more: Counter[date] = Counter()
    for ids, days in days_alike(named).items():
        late = on_days(lake, metric, contract, days, ids)
        claimed = None if late is None else key_log.about(lake, contract.dataset, [*winners.RANKED, "standing"], late.keys)
        if late is None or claimed is None:
            continue
        counting = claimed.filter(pc.is_in(claimed["ingestion_id"], pa.array(sorted(ids), pa.string())))
        counting = deliveries.ordered(counting, deliveries.of(lake, contract, ids))
        counting = claims.with_decisions(counting, decisions.in_force(lake, contract.dataset, ids))
        counting = counting.filter(claims.are_admitted(counting))
        punctual = counting.filter(pc.is_null(positions(counting, late.rows)))
        both = Counter(_living(contract, counting))
        both.subtract(_living(contract, punctual))
        more.update({day: rows for day, rows in both.items() if day in late.days})
    return more


def _living(contract: SourceContract, admitted: pa.Table) -> Counter[date]:
    """The number of rows that the admitted claims put into silver, by event day."""
    policy = policy_of(contract)
    won = admitted
    if policy.keys_contend:
        won = winners.winners(admitted, by_sequence=policy.by_sequence, each_day=policy.contends_per_day)
    living = won.filter(pc.is_in(won["kind"], value_set=pa.array(winners.LIVING_KINDS)))
    days = pc.value_counts(living["event_date"])
    return Counter(dict(zip(days.field("values").to_pylist(), days.field("counts").to_pylist())))
