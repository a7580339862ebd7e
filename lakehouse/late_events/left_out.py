"""The rows that do not count in a metric because they came too late, for given event days and inputs.

They are a function of Bronze and the contract: present and past numbers are computed by it, whatever ``silver/<source>_late``
holds. The remaining rows, from which the numbers are computed, are read in ``gold.rows_read``.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.dispositions import readings
from lakehouse.dispositions.winners import positions
from lakehouse.late_events import classification
from lakehouse.lateness import event_watermark
from lakehouse.lateness.measurement import microseconds
from lakehouse.lateness.watermark_per_key import NEVER
from lakehouse.ledger import hand_corrections, ingestions, key_log, late_decisions

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import date, datetime

    from lakehouse.contracts.late_events import LateEvents
    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake, table_io
    from lakehouse.ledger.ingestions import Ingestion

_ROW = ("ingestion_id", "line_number")
_NO_ROWS = pa.schema(
    [("event_ts", classification.TIME), ("event_date", pa.date32()), ("ingestion_id", pa.string()), ("line_number", pa.int64())]
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


def deliveries(lake: Lake, contract: SourceContract, ids: Collection[str] | None = None) -> Deliveries:
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
            if moment > event_watermark.BEGINNING and not hand_corrections.is_by_hand(entries[name].source_file)
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
        left = classification.are_left_out(classification.window_ends(rows, metric, zone), met, terms_of(metric))
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
        ends |= {day: classification.first_end(day, metric, zone) + tolerance for day in days if day not in ends}
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
    suspected = may_be_late(lake, metric, contract, deliveries(lake, contract, ids))
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
    ends = [NEVER if day is None else classification.first_end(day, metric, zone) + tolerance for day in days.to_pylist()]
    end = pa.array(ends, pa.int64()).take(pc.index_in(claimed["event_date"], days).combine_chunks())
    return classification.are_late(end, known.watermarks(claimed))


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
    ends = classification.window_ends(rows, metric, ZoneInfo(contract.clocks.timezone))
    late = rows.filter(classification.are_left_out(ends, known.watermarks(rows), terms_of(metric)))
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
    return int(pa.scalar(moment, classification.TIME).value)
