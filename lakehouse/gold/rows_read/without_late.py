"""The silver rows of a metric without those that came too late, computed from Bronze on the days that these concern.

DataFrames out. Which rows came too late is decided in ``late_events``; on days that no such row concerns silver is read as it is.
"""

from __future__ import annotations

from datetime import date
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from lakehouse.late_events import left_out
from lakehouse.silver import merge as silver_merge

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pyspark.sql import SparkSession

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.settings import Settings


def computed(
    spark: SparkSession, settings: Settings, metric: MetricContract, named: Mapping[date, Collection[str]]
) -> tuple[DataFrame | None, set[date]]:
    """The rows of those of some event days that late rows concern, and these days; None without any.

    :param named: the inputs of each of the days.
    """
    contract = metric.late_source
    if contract is None:
        return None, set()
    parts, concerned = [], set[date]()
    for ids, days in left_out.days_alike(named).items():
        late = left_out.on_days(settings, metric, contract, days, ids)
        if late is not None:
            parts.append(silver_merge.state(spark, settings, contract, late.days, ids, without=late.rows))
            concerned |= late.days
    return (reduce(DataFrame.unionByName, parts) if parts else None), concerned
