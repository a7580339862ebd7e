"""``live/<metric>``: the newest live number of each window and grain, written by one stream and read without Spark.

Each commit carries the number of its batch, so that repeating a batch after a stop changes nothing. Readers get the numbers of a
day by layer: those of the stream, the published ones, or both merged. No row mixes the two.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.delta import partition_writer, row_writer
from lakehouse.dispositions.winners import first_rows, groups
from lakehouse.gold.numbers.lifecycle import State
from lakehouse.lake import table_io, table_parts

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import date, datetime

    from deltalake import DeltaTable

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.lake import Lake


#: The columns apart from event day, grain, measures and row count: the end of the window, and the batch that wrote the number.
OF_LIVE = pa.schema(
    [
        ("window_end", pa.timestamp("us", "UTC")),
        ("updated_at", pa.timestamp("us", "UTC")),
        ("batch", pa.int64()),
        ("watermark", pa.timestamp("us", "UTC")),
        ("query", pa.string()),
    ]
)


def read(lake: Lake, metric: MetricContract, days: Collection[date] | None = None) -> pa.Table | None:
    """The live numbers of ``days`` (default: all); None if the stream has written none yet."""
    where = None if days is None else {"event_date": days}
    return locations.live(lake, metric.name).read(None, where)


def days(lake: Lake, metric: MetricContract) -> list[date]:
    """The days that have live numbers, in order, from the table's log alone."""
    table = locations.live(lake, metric.name).open()
    return [] if table is None else sorted(table_parts.rows(table))


@row_writer.retried_on_conflict
def write(lake: Lake, metric: MetricContract, query: str, batch: int, numbers: pa.Table) -> bool:
    """Replace the numbers with the same window and grain by those of a batch, in one commit.

    :param numbers: event_date, the grain, the measures, row_count and :data:`OF_LIVE`.
    :returns: whether they were written: a batch of a query is written once.
    """
    if not len(numbers):
        return False
    stored, app_id = locations.live(lake, metric.name), _app_id(query)
    table = row_writer.open_or_create(stored, numbers.schema, ["event_date"])
    if written_up_to(table, query) >= batch:
        return False
    days = pc.unique(numbers["event_date"]).to_pylist()
    before = table_io.read_version(table, numbers.column_names, {"event_date": days}).cast(numbers.schema)
    both = pa.concat_tables([numbers, before.filter(pc.equal(before["query"], query))])
    kept = first_rows(groups(*(both[name] for name in ("event_date", *metric.grain))))
    return partition_writer.replace(table, both.take(pa.array(np.sort(kept))), days, transaction=(app_id, batch + 1))


def written_up_to(table: DeltaTable | None, query: str) -> int:
    """The newest batch of a query whose numbers are in an open table; -1 if there are none, or no table."""
    return ((table.transaction_version(_app_id(query)) if table is not None else None) or 0) - 1


@row_writer.retried_on_conflict
def clear(lake: Lake, metric: MetricContract) -> None:
    """Remove all live numbers of a metric; its stream must not run."""
    table = locations.live(lake, metric.name).snapshot()
    if table is not None:
        table.delete()
        locations.live(lake, metric.name).committed()


@row_writer.retried_on_conflict
def expire(lake: Lake, metric: MetricContract, days: Collection[date], closed_before: datetime) -> int:
    """Remove the live numbers of ``days`` whose windows ended at or before ``closed_before``; returns their number."""
    table = locations.live(lake, metric.name).snapshot()
    if table is None or not days:
        return 0
    rows = table_io.read_version(table, None, {"event_date": days})
    kept = rows.filter(pc.greater(rows["window_end"], pa.scalar(closed_before, rows["window_end"].type)))
    expired = len(rows) - len(kept)
    if expired:
        partition_writer.replace(table, kept, days)
    return expired


def _app_id(query: str) -> str:
    return f"live:{query}"


def is_closed(row: Mapping[str, Any], watermark: datetime | None) -> bool:
    """Whether the stream's watermark has passed the window of a live number: the stream counts no more rows in it."""
    return watermark is not None and bool(row["window_end"] <= watermark)


class NumberLayer(str, Enum):
    """The layer from which a number comes."""

    LIVE = "live"
    BOOKS = "books"


class LayerChoice(str, Enum):
    """The requested layer; merged: the published numbers of closed days, and the stream for all others."""

    LIVE = "live"
    BOOKS = "books"
    MERGED = "merged"


def chosen(choice: LayerChoice, state: State | None, *, has_live: bool) -> NumberLayer:
    """The layer that a day is taken from.

    :param state: of its newest published number; None if there is none.
    :param has_live: whether the stream has a number of the day.
    """
    if choice is LayerChoice.MERGED:
        is_closed = state is not None and state is not State.LIVE
        return NumberLayer.BOOKS if is_closed or not has_live else NumberLayer.LIVE
    return NumberLayer(choice.value)


def live_rows(lake: Lake, metric: MetricContract, days: Sequence[date]) -> list[dict[str, Any]]:
    """The live numbers of ``days``, by day, window and grain; empty for a metric without a speed layer."""
    numbers = read(lake, metric, days) if metric.live and days else None
    rows = [] if numbers is None else numbers.to_pylist()
    return sorted(rows, key=lambda row: tuple(f"{row[name]}" for name in ("event_date", *metric.grain)))
