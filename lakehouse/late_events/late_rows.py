"""``silver/<source>_late``: one row for each metric and row that came after its window, with the action taken.

Belongs here: the columns, and how rows are classified into them. The table is derived from Bronze and the contracts; updating it
belongs to ``follow``. Which rows the numbers are computed from is decided in ``left_out`` by the same rules, without the table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.contracts.publication import LateAction
from lakehouse.dispositions import readings
from lakehouse.dispositions.winners import positions
from lakehouse.late_events import left_out
from lakehouse.late_events.left_out import TIME, LateReason
from lakehouse.lateness.measurement import lags
from lakehouse.ledger import late_decisions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake, table_io
    from lakehouse.late_events.left_out import Deliveries

#: ``lateness_seconds`` is arrival minus event; ``watermark`` is the watermark at the row's arrival, ``window_end`` the end of the
#: last window that the row lies in; ``counts`` is whether the row counts in the metric.
SCHEMA = pa.schema(
    [
        ("metric", pa.string()),
        ("ingestion_id", pa.string()),
        ("line_number", pa.int64()),
        ("arrival_date", pa.date32()),
        ("record_key", pa.string()),
        ("corrects_key", pa.string()),
        ("change_op", pa.string()),
        ("event_ts", TIME),
        ("event_date", pa.date32()),
        ("arrival_ts", TIME),
        ("lateness_seconds", pa.float64()),
        ("watermark", TIME),
        ("window_end", TIME),
        ("action", pa.string()),
        ("reason", pa.string()),
        ("counts", pa.bool_()),
        ("windows", pa.list_(pa.string())),
    ]
)
_OF_ROW = ["ingestion_id", "line_number", "record_key", "event_ts", "event_date", "arrival_ts", "lateness_seconds"]
#: The columns that people and programs get of a late row.
SHOWN = [*_OF_ROW, "watermark", "window_end", "action", "reason", "counts", "windows"]
#: The action of a row that counts by a steward's decision.
ADMITTED = "admit"
_READ = [
    "ingestion_id",
    "line_number",
    "arrival_date",
    "record_key",
    "corrects_key",
    "change_op",
    "event_ts",
    "event_date",
    "arrival_ts",
]
_SECOND = 1_000_000


def of_deliveries(lake: Lake, metric: MetricContract, contract: SourceContract, known: Deliveries) -> Iterator[pa.Table]:
    """The late rows of some deliveries, in pieces with the columns :data:`SCHEMA`."""
    admitted = late_decisions.admitted(late_decisions.of_metric(lake, contract.dataset, metric.name))
    for piece in readings.pieces(lake, contract.dataset, [*_READ, "malformed_reason"], known.where):
        yield classified(metric, contract, piece.filter(pc.is_null(piece["malformed_reason"])), known, admitted)


def classified(
    metric: MetricContract, contract: SourceContract, rows: pa.Table, known: Deliveries, admitted: pa.Table
) -> pa.Table:
    """Those of some rows of Bronze that are late, as rows of the table.

    :param admitted: the ids of rows that count by a steward's decision, however late they came.
    """
    terms, zone = left_out.terms_of(metric), ZoneInfo(contract.clocks.timezone)
    ends, met = left_out.window_ends(rows, metric, zone), known.watermarks(rows)
    is_late = left_out.are_late(ends, met)
    late, ends, met = rows.filter(is_late), ends.filter(is_late), met.filter(is_late)
    beyond = left_out.are_beyond(ends, met, terms)
    too_late = left_out.are_left_out(ends, met, terms)
    is_admitted = pc.and_(too_late, pc.is_valid(positions(late, admitted)))
    never = pc.if_else(beyond, LateAction.SIDE_OUTPUT.value, terms.action.value)
    columns = {
        "metric": pa.repeat(metric.name, len(late)),
        "lateness_seconds": pc.divide(lags(late, contract).cast(pa.float64()), float(_SECOND)),
        "watermark": met.cast(TIME),
        "window_end": ends.cast(TIME),
        "action": pc.if_else(is_admitted, ADMITTED, never),
        "reason": pc.if_else(beyond, LateReason.BEYOND.value, LateReason.WITHIN.value),
        "counts": pc.or_(pc.invert(too_late), is_admitted),
        "windows": left_out.windows_of(late, metric, zone),
    }
    columns |= {name: late[name] for name in _READ}
    return pa.table({name: columns[name] for name in SCHEMA.names}).cast(SCHEMA)


def in_window(rows: pa.Table, window: str) -> pa.Table:
    """Those ``rows`` of the table that lie in the window named ``window``."""
    windows = rows["windows"].combine_chunks()
    places = pc.list_parent_indices(windows).filter(pc.equal(pc.list_flatten(windows), window))
    return rows.take(pc.unique(places))


def read(lake: Lake, source: str, where: table_io.Where | None = None) -> pa.Table:
    """The late rows of a source's metrics."""
    rows = locations.late_rows(lake, source).read(SCHEMA.names, where)
    return SCHEMA.empty_table() if rows is None else rows.cast(SCHEMA)
