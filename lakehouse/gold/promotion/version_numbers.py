"""What a dataset version said of a period at last, in whole: its number, and for a closed one the adjustments with it.

Only reading, of rows that are at hand; what becomes of such a number is in ``moving``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.delta import table_io
from lakehouse.gold.numbers import adjustments, published_table

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

    from lakehouse.contracts.series import Series


@dataclass(frozen=True)
class PublishedNumber:
    """A number in whole, and what its newest row says of itself. ``intact``: the rows are those that were computed."""

    rows: pa.Table
    said: Mapping[str, Any]
    intact: bool = True

    @property
    def is_empty(self) -> bool:
        """Whether it says that the period has no rows."""
        return not any(self.rows["row_count"].to_pylist())


def now(existing: pa.Table | None, one: Series) -> dict[date, PublishedNumber]:
    """What readers see of each period, whichever version it is from."""
    return _last(existing, existing, one)


def by_version(existing: pa.Table | None, one: Series, number: int) -> dict[date, PublishedNumber]:
    """What a dataset version said last of each period that it had a number of.

    Where a version came out equal to an earlier one, nothing was published under its own number: what the nearest earlier one
    said is what it said.
    """
    if existing is None:
        return {}
    known = existing.filter(pc.less_equal(existing["dataset_version"], number))
    nearest = known.group_by(one.by).aggregate([("dataset_version", "max")]).to_pylist()
    own = {(row[one.by], row["dataset_version_max"]) for row in nearest}
    labels = zip(known[one.by].to_pylist(), known["dataset_version"].to_pylist())
    return _last(known.filter(pa.array([label in own for label in labels], pa.bool_())), existing, one)


def _last(own: pa.Table | None, existing: pa.Table | None, one: Series) -> dict[date, PublishedNumber]:
    """The last of ``own`` rows of each period."""
    if own is None or existing is None or not len(own):
        return {}
    every = table_io.split(existing, one.by)
    return {start: _whole(rows, every[start], one) for start, rows in table_io.split(own, one.by).items()}


def _whole(own: pa.Table, every: pa.Table, one: Series) -> PublishedNumber:
    """Adjustments add up from the closed number on, whichever version made them."""
    said = max(
        own.select(published_table.PUBLISHED_SCHEMA.names).to_pylist(), key=lambda row: (row["revision"], row["adjustment"] or 0)
    )
    closed = every.filter(pc.equal(every["revision"], said["revision"]))
    columns = [name for name in one.content if name in every.column_names]
    number = closed.filter(pc.is_null(closed["adjustment"])).select(columns)
    if said["adjustment"] is None:
        return PublishedNumber(number, said, intact=published_table.digest(number) == said["content"])
    counts = pc.fill_null(pc.less_equal(closed["adjustment"], said["adjustment"]), fill_value=True)
    return PublishedNumber(_added(closed.filter(counts), number.schema, one), said)


def _added(closed: pa.Table, schema: pa.Schema, one: Series) -> pa.Table:
    """A closed number with its adjustments; rows of the grain that they took away are left out."""
    grain = one.metric.grain
    counted = closed.set_column(closed.column_names.index("is_latest"), "is_latest", pa.array([True] * len(closed)))
    rows = [dict(zip(one.content, [*key, *values])) for key, values in adjustments.booked(one, counted).items()]
    left = pa.Table.from_pylist([row for row in rows if row["row_count"]] or rows[:1], schema=schema)
    return left.sort_by([(name, "ascending") for name in grain]) if grain else left
