"""Reads the present intervals of some keys of a dimension, without Spark.

What a moment needs of them belongs to ``valid_at``, what an update needs to ``interval_table``.
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

#: The keys of so many facts or changes are looked up by themselves; with more, all intervals are read.
FEW_KEYS = 10_000


def of_keys(settings: Settings, contract: SourceContract, columns: Sequence[str], wanted: pa.Array) -> pa.Table | None:
    """The intervals of some keys; None without a table.

    :param columns: of the table of intervals; one that it does not have yet is empty.
    :param wanted: the keys as ``dimension_key`` has them, none of them NULL; a few.
    """
    table = table_io.open_table(locations.intervals(settings, contract.dataset), settings.storage_options)
    if table is None:
        return None
    buckets = keys.buckets(wanted, contract.dimension.buckets).unique()
    return data_files.with_texts(table, columns, "dimension_key", wanted, {"bucket": buckets})
