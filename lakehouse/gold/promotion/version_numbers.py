"""The last number that a dataset version published for a period, including its adjustments if the period is closed.

The functions work on rows that the caller has read; ``plan`` decides which of them a promotion publishes.
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
    """The last number that was published for a period.

    :param rows: its content, with the adjustments of a closed period added up.
    :param row: the published columns of its newest revision or adjustment.
    :param intact: whether the stored rows still have the digest with which they were published.
    """

    rows: pa.Table
    row: Mapping[str, Any]
    intact: bool = True

    @property
    def is_empty(self) -> bool:
        """Whether the period has no rows of Silver."""
        return not any(self.rows["row_count"].to_pylist())


def current_numbers(existing: pa.Table | None, series: Series) -> dict[date, PublishedNumber]:
    """The number of each period that readers see, whichever dataset version published it."""
    return _last(existing, existing, series)


def numbers_of_version(existing: pa.Table | None, series: Series, number: int) -> dict[date, PublishedNumber]:
    """The last number that a dataset version published for each period.

    A number equal to that of an earlier version is not published again: the number of the nearest earlier version is used.
    """
    if existing is None:
        return {}
    known = existing.filter(pc.less_equal(existing["dataset_version"], number))
    nearest = known.group_by(series.by).aggregate([("dataset_version", "max")]).to_pylist()
    nearest_versions = {(row[series.by], row["dataset_version_max"]) for row in nearest}
    labels = zip(known[series.by].to_pylist(), known["dataset_version"].to_pylist())
    return _last(known.filter(pa.array([label in nearest_versions for label in labels], pa.bool_())), existing, series)


def _last(rows_of_version: pa.Table | None, existing: pa.Table | None, series: Series) -> dict[date, PublishedNumber]:
    """The last number of each period among ``rows_of_version``."""
    if rows_of_version is None or existing is None or not len(rows_of_version):
        return {}
    every = table_io.split(existing, series.by)
    by_start = table_io.split(rows_of_version, series.by)
    return {start: _with_adjustments(rows, every[start], series) for start, rows in by_start.items()}


def _with_adjustments(rows_of_version: pa.Table, every: pa.Table, series: Series) -> PublishedNumber:
    """The last number among rows of a period; adjustments are added to the closed number, whichever version published them."""
    published = table_io.with_columns(rows_of_version, published_table.PUBLISHED_SCHEMA.names).to_pylist()
    newest = max(published, key=lambda row: (row["revision"], row["adjustment"] or 0))
    closed = every.filter(pc.equal(every["revision"], newest["revision"]))
    columns = [name for name in series.content if name in every.column_names]
    number = closed.filter(pc.is_null(closed["adjustment"])).select(columns)
    if newest["adjustment"] is None:
        return PublishedNumber(number, newest, intact=published_table.is_content(number, newest["content"]))
    counts = pc.fill_null(pc.less_equal(closed["adjustment"], newest["adjustment"]), fill_value=True)
    return PublishedNumber(_added(closed.filter(counts), number.schema, series), newest)


def _added(closed: pa.Table, schema: pa.Schema, series: Series) -> pa.Table:
    """A closed number with its adjustments, without rows of the grain that the adjustments reduce to zero."""
    grain = series.grain
    counted = closed.set_column(closed.column_names.index("is_latest"), "is_latest", pa.array([True] * len(closed)))
    rows = [dict(zip(series.content, [*key, *values])) for key, values in adjustments.booked(series, counted).items()]
    left = pa.Table.from_pylist([row for row in rows if row["row_count"]] or rows[:1], schema=schema)
    return left.sort_by([(name, "ascending") for name in grain]) if grain else left
