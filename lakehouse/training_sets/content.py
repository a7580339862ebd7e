"""Statistics of a training set's rows: a hash of the content, and the distribution of each column.

The hash does not depend on the order of rows or on files: equal content has the same hash, wherever and whenever it is written.
Spark computes the hash, also for rows that are not written; a distribution is computed from one column in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse.delta.columns import is_number

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: The number of parts into which quantiles divide a numeric column: 0 %, 2.5 %, ... 100 %.
_PARTS = 40
#: The number of most frequent values listed for a text column.
MOST_FREQUENT = 20
#: The sums of a 64-bit hash may be equal by chance; the sums of a second hash with another seed are then different.
_SEEDS = ("first", "second")


def hash_of(rows: DataFrame) -> Column:
    """The content hash of rows, as an aggregate: their number and the sums of two hashes of each row."""
    columns = [*rows.columns, *(F.col(name).isNull() for name in rows.columns)]  # Spark's hash skips NULL
    sums = [F.sum(F.xxhash64(F.lit(seed), *columns).cast("decimal(38,0)")) for seed in _SEEDS]
    return F.concat_ws("-", F.count(F.lit(1)), *(F.coalesce(total, F.lit(0)).cast("string") for total in sums))


def distribution(values: pa.ChunkedArray) -> dict[str, Any]:
    """The share of NULLs, and the distribution of the other values.

    :returns: for numbers ``min``, ``max``, ``mean``, ``deviation`` and 41 evenly spaced ``quantiles``, which are occurring
        values; None for each without a number. For other values the number of ``distinct`` values, and the most ``frequent`` with
        their counts.
    """
    present = values.drop_null()
    nulls = {"nulls": values.null_count / len(values) if len(values) else 0.0}
    if is_number(values.type):
        numbers = present.cast(pa.float64(), safe=False)
        return nulls | _of_numbers(numbers.filter(pc.invert(pc.is_nan(numbers))))
    return nulls | _of_others(present.cast(pa.string()))


def _of_numbers(values: pa.ChunkedArray) -> dict[str, Any]:
    measures = {"min": pc.min, "max": pc.max, "mean": pc.mean, "deviation": pc.stddev}
    described: dict[str, Any] = {name: measure(values).as_py() for name, measure in measures.items()}
    if not len(values):
        return {**described, "quantiles": None}
    # The smallest value up to which that share of the values lies. Arrow's quantiles may lie between two values, or outside them.
    places = [max(-(-len(values) * number // _PARTS) - 1, 0) for number in range(_PARTS + 1)]
    return {**described, "quantiles": np.sort(values.to_numpy())[places].tolist()}


def _of_others(values: pa.ChunkedArray) -> dict[str, Any]:
    counted = pc.value_counts(values)
    counts = pa.table({"value": counted.field("values"), "count": counted.field("counts")})
    first = counts.sort_by([("count", "descending"), ("value", "ascending")]).slice(0, MOST_FREQUENT).to_pylist()
    return {"distinct": len(counts), "frequent": {row["value"]: row["count"] for row in first}}
