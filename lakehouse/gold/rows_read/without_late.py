"""The silver rows of a metric as if rows that came too late had never arrived.

DataFrames in and out. Which rows came too late is decided in ``late_events``; only their keys are computed from Bronze.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse.calendar import day_conditions
from lakehouse.late_events import left_out
from lakehouse.silver import merge as silver_merge
from lakehouse.spark import dataframes

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import date

    from pyspark.sql import SparkSession

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.settings import Settings


def rows(
    spark: SparkSession, settings: Settings, metric: MetricContract, held: DataFrame, named: Mapping[date, Collection[str]]
) -> DataFrame:
    """The rows that silver holds, where the rows of keys that late rows concern are computed without the late rows.

    :param held: the rows that silver holds on the event days concerned, with ``record_key`` and ``event_date``.
    :param named: the inputs of each of the days.
    """
    contract, columns, computed = metric.late_source, held.columns, list[DataFrame]()
    if contract is None:
        return held
    for ids, days in left_out.days_alike(named).items():
        late = left_out.on_days(settings, metric, contract, days, ids)
        if late is None:
            continue
        is_concerned = F.expr(day_conditions.among("event_date", late.days))
        keys = F.broadcast(dataframes.local(spark, pa.table({"record_key": late.keys})))
        others = held.where(is_concerned).join(keys, "record_key", "left_anti").select(*columns)
        held = held.where(~is_concerned).unionByName(others)
        of_keys = silver_merge.state(spark, settings, contract, late.days, ids, without=late.rows, keys=late.keys)
        known = {name: F.col(name) if name in of_keys.columns else F.lit(None).alias(name) for name in columns}
        computed.append(of_keys.select(*known.values()))
    return reduce(DataFrame.unionByName, computed, held)
