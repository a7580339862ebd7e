"""Previews a rebuild before it is requested: the event days whose rows would differ, and by how much.

The rows are judged and chosen again under the present code and contract, as in a rebuild, and compared with silver. Nothing is
written. Requesting the rebuild belongs to ``rebuild``; the published numbers of a day belong to ``impact``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse import locations
from lakehouse.delta.columns import content_columns
from lakehouse.delta.table_cache import with_table_cache
from lakehouse.silver import merge as silver_merge
from lakehouse.silver.rebuild import days_to_rebuild
from lakehouse.spark import dataframes
from lakehouse.spark.session import sized_for

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.contracts.source import SourceContract
    from lakehouse.settings import Settings


@dataclass(frozen=True)
class DayDifference:
    """An event day that a rebuild would change.

    :param rows: the number of rows in silver, before and after.
    :param keys: the number of keys that would be added, removed or changed.
    """

    day: date
    rows: tuple[int, int]
    keys: int


@dataclass(frozen=True)
class RebuildPreview:
    """The changes that a rebuild would make.

    :param days: the number of event days that would be evaluated.
    :param rows_judged_otherwise: the number of rows that the present contract judges differently.
    :param differing: the days whose content would change, in order.
    """

    days: int
    rows_judged_otherwise: int
    differing: Sequence[DayDifference]


def preview(
    session: SparkSession, settings: Settings, contract: SourceContract, first: date | None = None, last: date | None = None
) -> RebuildPreview:
    """Compare silver with the result of a rebuild of the event days from ``first`` through ``last``.

    A change of the provenance of a row alone is no difference, as in published numbers.

    :param first: the first event day; by default the source's first one. ``last`` likewise.
    """
    settings = with_table_cache(settings)
    days, otherwise, judged = days_to_rebuild(settings, contract, lambda: session, first, last)
    if not days:
        return RebuildPreview(0, judged, [])
    with sized_for(session, settings, many=True):
        wanted = silver_merge.state(session, settings, contract, days, instead=otherwise)
        held = session.read.format("delta").load(locations.silver(settings, contract.dataset))
        content = dict(content_columns(contract))
        current = dataframes.select_known(held.where(silver_merge.on_days(days)), content, held.columns)
        return RebuildPreview(len(days), judged, _differing(current, wanted.select(*content)))


def _differing(before: DataFrame, after: DataFrame) -> list[DayDifference]:
    """The days on which two sets of rows differ as multisets, compared by hashes of the rows of each key."""
    columns = after.columns
    signed = before.select("*", F.lit(-1).alias("_sign")).unionByName(after.select("*", F.lit(1).alias("_sign")))
    hashed = silver_merge.row_hash(columns).alias("_hash")
    per_row = signed.select("event_date", "record_key", "_sign", hashed).groupBy("event_date", "record_key", "_hash")
    in_both = per_row.agg(
        F.sum("_sign").alias("_sum"), *(F.count_if(F.col("_sign") == sign).alias(f"_{sign}") for sign in (-1, 1))
    )
    sides = [F.sum(f"_{sign}").alias(f"_{sign}") for sign in (-1, 1)]
    per_key = in_both.groupBy("event_date", "record_key").agg(F.max(F.col("_sum") != 0).alias("_differs"), *sides)
    per_day = per_key.groupBy("event_date").agg(F.count_if("_differs").alias("_keys"), *sides).where("_keys > 0")
    return [
        DayDifference(row["event_date"], (row["_-1"], row["_1"]), row["_keys"]) for row in per_day.orderBy("event_date").collect()
    ]
