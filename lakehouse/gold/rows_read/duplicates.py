"""The number of rows of each event day that do not count, because an earlier source has them too; without Spark.

An independent count for the check that no row was lost (``publication.checks``). The rule itself is in ``union``.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.delta import table_io
from lakehouse.dimensions import keys
from lakehouse.dimensions.joins import join_keys
from lakehouse.gold.rows_read import tables

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import date

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.settings import Settings

#: The approximate number of keys that are in memory at a time.
_TOGETHER = 2**20


def count(settings: Settings, metric: MetricContract, days: Collection[date]) -> Counter[date]:
    """The number of silver rows of a metric's sources that an earlier source has too, by event day."""
    duplicates: Counter[date] = Counter()
    for day in days if metric.deduplicate_by else ():
        rows = tables.rows_at_most(settings, metric, {"event_date": [day]})
        parts = -(-rows // _TOGETHER)
        for part in range(parts):
            duplicates[day] += _in_part(settings, metric, day, part, parts)
    return duplicates


def _in_part(settings: Settings, metric: MetricContract, day: date, part: int, parts: int) -> int:
    """The duplicates of one day among the keys of one part."""
    known, duplicates = pa.array([], pa.string()), 0
    for entry, path in zip(metric.sources, locations.every_silver_read(settings, metric).values()):
        keys_known = [known]
        columns = [entry.column(name) for name in metric.deduplicate_by]
        for piece in table_io.pieces(path, list(dict.fromkeys(columns)), {"event_date": [day]}, settings.storage_options):
            texts = join_keys.texts([table_io.with_columns(piece, columns)[name] for name in columns]).drop_null()
            texts = texts.filter(pc.equal(keys.buckets(texts, parts), part)) if parts > 1 else texts
            duplicates += pc.sum(pc.is_in(texts, known)).as_py() or 0
            keys_known.append(texts)
        known = pc.unique(pa.concat_arrays(keys_known))
    return duplicates
