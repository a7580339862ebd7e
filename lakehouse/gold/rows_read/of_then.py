"""The silver rows that a number was computed from, for the inputs that it names, computed from Bronze (rule R10).

Belongs here: the rows of each source of a metric for given inputs, or as known at a time. Recomputing and comparing numbers
belongs to ``reproduction``.
"""

from __future__ import annotations

from collections import defaultdict
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse import locations
from lakehouse.delta import table_io
from lakehouse.delta.columns import arrow_schema, silver_columns
from lakehouse.dimensions import as_then
from lakehouse.dimensions.joins import as_of
from lakehouse.gold.numbers import further_inputs
from lakehouse.gold.rows_read import union
from lakehouse.late_events import left_out
from lakehouse.ledger import redactions
from lakehouse.silver import merge as silver_merge
from lakehouse.snapshots import input_sets, known_inputs
from lakehouse.spark import dataframes

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import date, datetime

    from pyspark.sql import SparkSession

    from lakehouse.contracts.joins.join import Join
    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.several_sources.metric_source import MetricSource
    from lakehouse.contracts.source import SourceContract
    from lakehouse.settings import Settings

_Fields = dict[str, list[str]]


def rows_of_inputs(
    spark: SparkSession,
    settings: Settings,
    metric: MetricContract,
    contract: SourceContract,
    named: Mapping[date, set[str]],
    stored: str | None,
) -> tuple[DataFrame, _Fields]:
    """The rows of the Silver days in ``named`` with their attributes, and per key the metric's columns that were redacted since.

    :param contract: of the silver table of the metric's (first) source.
    :param named: the inputs of each of the days.
    :param stored: the published column ``dimension_inputs`` of the number: the inputs of its further sources and dimensions.
    """
    rows: dict[str, DataFrame] = {}
    hidden: _Fields = {}
    for entry in metric.read:
        is_first = entry.source == metric.source
        of_source = contract if is_first else entry.read_of(metric.further_sources[entry.source])
        ids = named if is_first else _named_beside(settings, entry, stored, named)
        rows[entry.silver], fields = _silver_of_then(spark, settings, metric, of_source, ids)
        for key, own in fields.items():
            hidden[key] = sorted({*hidden.get(key, ()), *(name for field in own for name in entry.names(field))})
    united = union.united(rows, metric)
    return _with_attributes_of_then(united, settings, metric, stored), hidden


def rows_known_at(
    spark: SparkSession,
    settings: Settings,
    metric: MetricContract,
    contract: SourceContract,
    days: Collection[date],
    ids: Collection[str],
    until: datetime | None,
    others_at: datetime,
) -> DataFrame:
    """The rows of the Silver ``days`` with their attributes, from a set of inputs of the (first) source.

    :param until: only rows that had arrived by this time.
    :param others_at: rows of further sources and attributes of dimensions are those known by this time.
    """
    rows: dict[str, DataFrame] = {}
    for entry in metric.read:
        if entry.source == metric.source:
            rows[entry.silver] = _state(spark, settings, metric, contract, days, ids, until)
        else:
            known = known_inputs.known_at(settings, entry.source, others_at)
            of_source = entry.read_of(metric.further_sources[entry.source])
            rows[entry.silver] = _state(spark, settings, metric, of_source, days, known, others_at)
    return _with_attributes_known_at(union.united(rows, metric), settings, metric, others_at)


def _with_attributes_of_then(rows: DataFrame, settings: Settings, metric: MetricContract, stored: str | None) -> DataFrame:
    """Silver rows with the attributes that a revision's inputs of the dimensions give them.

    :param stored: the published column ``dimension_inputs``; a dimension that it does not name is used in its present state.
    """
    named = further_inputs.parse(stored)

    def intervals_of(join: Join) -> DataFrame:
        contract, entry = metric.dimensions[join.dimension], named.get(join.dimension, {})
        ids = input_sets.ids_of(settings, join.dimension, entry["inputs"]) if entry else None
        return as_then.intervals(rows.sparkSession, settings, contract, ids, without=entry.get("without"))

    return as_of.joined(rows, metric, intervals_of)


def _with_attributes_known_at(rows: DataFrame, settings: Settings, metric: MetricContract, when: datetime) -> DataFrame:
    """Silver rows with their attributes as known at ``when``."""

    def intervals_of(join: Join) -> DataFrame:
        contract, ids = metric.dimensions[join.dimension], known_inputs.known_at(settings, join.dimension, when)
        return as_then.intervals(rows.sparkSession, settings, contract, ids, when)

    return as_of.joined(rows, metric, intervals_of)


def _named_beside(settings: Settings, entry: MetricSource, stored: str | None, days: Collection[date]) -> dict[date, set[str]]:
    """The inputs of a further source for the Silver ``days``, as a number names them; none if it was computed without the
    source.
    """
    named = further_inputs.parse(stored).get(entry.source)
    if named is None:
        return {day: set() for day in days}
    ids = input_sets.ids_of(settings, entry.source, named["inputs"])
    return {day: ids - set(named["without"].get(f"{day}", ())) for day in days}


def _silver_of_then(
    spark: SparkSession,
    settings: Settings,
    metric: MetricContract,
    contract: SourceContract,
    named: Mapping[date, set[str]],
) -> tuple[DataFrame, _Fields]:
    """The Silver rows of the days in ``named``, each computed from its own inputs, and per key the fields redacted since."""
    parts = []
    hidden: _Fields = {}
    for ids, days in left_out.days_alike(named).items():
        rows = _state(spark, settings, metric, contract, days, ids)
        hidden |= _hidden_since(settings, contract, rows, ids)
        parts.append(rows)
    return reduce(DataFrame.unionByName, parts), hidden


def _state(
    spark: SparkSession,
    settings: Settings,
    metric: MetricContract,
    contract: SourceContract,
    days: Collection[date],
    ids: Collection[str],
    until: datetime | None = None,
) -> DataFrame:
    """``silver.merge.state`` without rows that came too late for the metric; a source that has delivered nothing has no rows."""
    if table_io.version(locations.key_log(settings, contract.dataset), settings.storage_options) < 0:
        return dataframes.local(spark, arrow_schema(silver_columns(contract)).empty_table())
    late = left_out.on_days(settings, metric, contract, days, ids) if metric.late_events else None
    return silver_merge.state(spark, settings, contract, days, ids, until, without=late.rows if late else None)


def _hidden_since(settings: Settings, contract: SourceContract, rows: DataFrame, ids: Collection[str]) -> _Fields:
    """By key of ``rows``, the fields that redactions other than ``ids`` hide."""
    hidden: dict[str, set[str]] = defaultdict(set)
    before: dict[str, set[str]] = defaultdict(set)
    for entry in redactions.all_of(settings, contract.dataset):
        (before if entry.redaction_id in ids else hidden)[entry.record_key].update(entry.fields)
    since = {key: sorted(fields - before[key]) for key, fields in hidden.items() if fields - before[key]}
    if not since:
        return {}
    there = rows.where(F.col("record_key").isin(sorted(since))).select("record_key").distinct().collect()
    return {row[0]: since[row[0]] for row in there}
