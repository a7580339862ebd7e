"""Reads the present intervals of given keys of a dimension, without Spark.

The intervals at a moment belong to ``valid_at``, the reads for updates to ``interval_table``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse import locations
from lakehouse.delta import data_files, table_io
from lakehouse.dimensions import keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from lakehouse.contracts.source import SourceContract
    from lakehouse.settings import Settings

#: Up to this many keys are looked up individually; with more, all intervals are read.
FEW_KEYS = 10_000


def of_keys(settings: Settings, contract: SourceContract, columns: Sequence[str], wanted: pa.Array) -> pa.Table | None:
    """The intervals of the keys ``wanted``; None without a table.

    :param columns: of the table of intervals; a column that the table does not have yet is empty.
    :param wanted: a small number of keys, as in ``dimension_key``; none is NULL.
    """
    table = table_io.open_table(locations.intervals(settings, contract.dataset), settings.storage_options)
    if table is None:
        return None
    buckets = keys.buckets(wanted, contract.dimension.buckets).unique()
    return data_files.with_texts(table, columns, "dimension_key", wanted, {"bucket": buckets})
