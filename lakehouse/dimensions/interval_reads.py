"""Reads the present intervals of given keys of a dimension, without Spark.

The reads for updates belong to ``interval_table``.

The intervals of a dimension that contain a moment, as the table of intervals holds them now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.delta import data_files
from lakehouse.dimensions import tables
from lakehouse.ledger import redactions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake


#: Up to this many keys are looked up individually; with more, all intervals are read.
FEW_KEYS = 10_000


def of_keys(lake: Lake, contract: SourceContract, columns: Sequence[str], wanted: pa.Array) -> pa.Table | None:
    """The intervals of the keys ``wanted``; None without a table.

    :param columns: of the table of intervals; a column that the table does not have yet is empty.
    :param wanted: a small number of keys, as in ``dimension_key``; none is NULL.
    """
    table = locations.intervals(lake, contract.dataset).open()
    if table is None:
        return None
    buckets = tables.key_buckets(wanted, contract.dimension.buckets).unique()
    return data_files.with_texts(table, columns, "dimension_key", wanted, {"bucket": buckets})


def current(lake: Lake, contract: SourceContract, moment: datetime) -> Iterator[pa.Table]:
    """The intervals that contain ``moment``, in pieces, with the columns ``tables.interval_columns``; none without a table."""
    names = [name for name, _ in tables.interval_columns(contract)]
    hidden = redactions.keys_by_field(lake, contract.dataset)  # the table follows a redaction later
    for piece in locations.intervals(lake, contract.dataset).pieces(names, None):
        yield valid(redactions.applied(tables.as_intervals(contract, piece), hidden), moment)


def valid(intervals: pa.Table, moment: datetime) -> pa.Table:
    """The intervals that contain ``moment``."""
    at = pa.scalar(moment, intervals["valid_from"].type)
    has_begun = pc.less_equal(intervals["valid_from"], at)
    return intervals.filter(pc.and_(has_begun, pc.fill_null(pc.greater(intervals["valid_to"], at), True)))
