"""Reads ``silver/<dimension>_intervals``, which is laid out by key: a bucket is a partition.

What the intervals of a key are, and how the table is kept up to date, belongs to other modules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.delta import data_files, table_io
from lakehouse.dimensions import join_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deltalake import DeltaTable

_FEW_KEYS = 10_000


def of_keys(table: DeltaTable, columns: Sequence[str], keys: pa.Array, buckets: int) -> pa.Table:
    """The intervals of some keys; files of other buckets are not read.

    :param columns: none of them the bucket.
    :param buckets: how many the table has.
    """
    where = {"bucket": pc.unique(join_keys.buckets(keys, buckets))}
    if len(keys) > _FEW_KEYS:
        return table_io.read_version(table, columns, {**where, "dimension_key": keys})
    return data_files.with_texts(table, columns, "dimension_key", keys, where)
