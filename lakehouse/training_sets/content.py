"""What the rows of a training set contain, in numbers: a hash of the content, and the distribution of each column. With Spark.

The hash does not depend on the order of rows or on files: equal content has the same hash, wherever and whenever it is written.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

#: The quantiles of a column of numbers: 0 %, 2.5 %, ... 100 %.
QUANTILES = tuple(number / 40 for number in range(41))
_ACCURACY = 2_000
#: So many of the most frequent values of a column of text are named.
MOST_FREQUENT = 20
#: The sum of a hash of 64 bits may be the same by chance; that of a second one with another seed is then not.
_SEEDS = ("first", "second")


def hash_of(rows: DataFrame) -> Column:
    """The hash of the content of rows, as an aggregate: their number and the sums of two hashes of each."""
    columns = [*rows.columns, *(F.col(name).isNull() for name in rows.columns)]  # Spark's hash skips NULL
    sums = [F.sum(F.xxhash64(F.lit(seed), *columns).cast("decimal(38,0)")) for seed in _SEEDS]
    return F.concat_ws("-", F.count(F.lit(1)), *(F.coalesce(total, F.lit(0)).cast("string") for total in sums))


def described(rows: DataFrame, columns: Sequence[str]) -> tuple[str, dict[str, dict[str, Any]]]:
    """The hash of the content of rows and, of each of some columns, the share of NULLs and the distribution, in one pass.

    The distribution of numbers is their quantiles, that of other values the most frequent ones, in a pass of their own.

    Quantiles are approximate, by less than a thousandth of the rows.
    """
    kinds = dict(rows.dtypes)
    numbers = [name for name in columns if _is_number(kinds[name])]
    texts = [name for name in columns if name not in numbers]
    aggregates = [hash_of(rows).alias("_hash"), F.count(F.lit(1)).alias("_rows")]
    aggregates += (F.count(name).alias(f"{name}_count") for name in columns)
    for name in numbers:
        value = F.col(name).cast("double")
        aggregates += [F.min(value).alias(f"{name}_min"), F.max(value).alias(f"{name}_max"), F.avg(value).alias(f"{name}_mean")]
        aggregates += [F.stddev_pop(value).alias(f"{name}_deviation")]
        aggregates.append(F.percentile_approx(value, list(QUANTILES), _ACCURACY).alias(f"{name}_quantiles"))
    counted = rows.agg(*aggregates).collect()[0].asDict()
    total = counted["_rows"]
    summaries = {name: {"nulls": 1 - counted[f"{name}_count"] / total if total else 0.0} for name in columns}
    for name in numbers:
        summaries[name] |= {key: counted[f"{name}_{key}"] for key in ("min", "max", "mean", "deviation", "quantiles")}
    for name, values in _frequent(rows, texts).items():
        summaries[name] |= values
    return counted["_hash"], summaries


def _frequent(rows: DataFrame, texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The most frequent values of some columns and how many there are, in one job."""
    if not texts:
        return {}
    each = [rows.select(F.lit(name).alias("_name"), F.col(name).cast("string").alias("_value")) for name in texts]
    counts = reduce(lambda one, other: one.unionByName(other), each).groupBy("_name", "_value").count()
    of_column: dict[str, list[tuple[str, int]]] = {name: [] for name in texts}
    distinct = dict.fromkeys(texts, 0)
    place = F.row_number().over(Window.partitionBy("_name").orderBy(F.desc("count"), "_value"))
    for row in counts.where("_value IS NOT NULL").withColumn("_place", place).where(F.col("_place") <= MOST_FREQUENT).collect():
        of_column[row["_name"]].append((row["_value"], row["count"]))
    for row in counts.where("_value IS NOT NULL").groupBy("_name").count().collect():
        distinct[row["_name"]] = row["count"]
    return {
        name: {"distinct": distinct[name], "frequent": dict(sorted(values, key=lambda pair: (-pair[1], pair[0])))}
        for name, values in of_column.items()
    }


def _is_number(kind: str) -> bool:
    return kind.startswith(("int", "bigint", "double", "decimal", "float", "smallint"))
