"""What the rows of a training set contain, in numbers: a hash of the content, and the distribution of each column.

The hash does not depend on the order of rows or on files: equal content has the same hash, wherever and whenever it is written.
Spark computes it, also of rows that are not written; a distribution is computed from one column in memory.
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

#: Into so many parts the quantiles divide a column of numbers: 0 %, 2.5 %, ... 100 %.
_PARTS = 40
#: So many of the most frequent values of a column of text are named.
MOST_FREQUENT = 20
#: The sum of a hash of 64 bits may be the same by chance; that of a second one with another seed is then not.
_SEEDS = ("first", "second")


def hash_of(rows: DataFrame) -> Column:
    """The hash of the content of rows, as an aggregate: their number and the sums of two hashes of each."""
    columns = [*rows.columns, *(F.col(name).isNull() for name in rows.columns)]  # Spark's hash skips NULL
    sums = [F.sum(F.xxhash64(F.lit(seed), *columns).cast("decimal(38,0)")) for seed in _SEEDS]
    return F.concat_ws("-", F.count(F.lit(1)), *(F.coalesce(total, F.lit(0)).cast("string") for total in sums))


def distribution(values: pa.ChunkedArray) -> dict[str, Any]:
    """The share of NULLs, and how the other values are distributed.

    :returns: of numbers ``min``, ``max``, ``mean``, ``deviation`` and 41 evenly spaced ``quantiles``, which are values that
        occur; None for each without a number. Of others how many are ``distinct``, and the most ``frequent`` with their counts.
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
    # The least value up to which there is that share of the values. Arrow's own quantiles lie between two values, or beside them.
    places = [max(-(-len(values) * number // _PARTS) - 1, 0) for number in range(_PARTS + 1)]
    return {**described, "quantiles": np.sort(values.to_numpy())[places].tolist()}


def _of_others(values: pa.ChunkedArray) -> dict[str, Any]:
    counted = pc.value_counts(values)
    counts = pa.table({"value": counted.field("values"), "count": counted.field("counts")})
    first = counts.sort_by([("count", "descending"), ("value", "ascending")]).slice(0, MOST_FREQUENT).to_pylist()
    return {"distinct": len(counts), "frequent": {row["value"]: row["count"] for row in first}}
