"""The intervals of a dimension that contain a moment, as the table of intervals holds them now.

Intervals of an earlier state are computed in ``snapshots.dimension_rows``. Reading needs no Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.delta import table_io
from lakehouse.dimensions import tables
from lakehouse.ledger import redactions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from lakehouse.contracts.source import SourceContract
    from lakehouse.settings import Settings


def current(settings: Settings, contract: SourceContract, moment: datetime) -> Iterator[pa.Table]:
    """The intervals that contain ``moment``, in pieces, with the columns ``tables.interval_columns``; none without a table."""
    names = [name for name, _ in tables.interval_columns(contract)]
    hidden = redactions.keys_by_field(settings, contract.dataset)  # the table follows a redaction later
    for piece in table_io.pieces(locations.intervals(settings, contract.dataset), names, None, settings.storage_options):
        yield valid(redactions.applied(tables.as_intervals(contract, piece), hidden), moment)


def valid(intervals: pa.Table, moment: datetime) -> pa.Table:
    """The intervals that contain ``moment``."""
    at = pa.scalar(moment, intervals["valid_from"].type)
    has_begun = pc.less_equal(intervals["valid_from"], at)
    return intervals.filter(pc.and_(has_begun, pc.fill_null(pc.greater(intervals["valid_to"], at), True)))
