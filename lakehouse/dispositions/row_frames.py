"""Rows of Bronze as DataFrames, for many rows: the rows in force, and rows with the contract's judgement of each.

``readings`` gives the same rows in force in Arrow. Rows to judge are read from Bronze, so that a judgement can be repeated: Spark
evaluates the row rules, ``judged_rows`` makes the judgement.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse import locations, pieces
from lakehouse.contracts import sql_expressions
from lakehouse.delta.columns import ORDER, bronze_columns, silver_columns
from lakehouse.dispositions import judged_rows
from lakehouse.dispositions import readings as bronze_readings
from lakehouse.dispositions.judged_rows import failure_column
from lakehouse.dispositions.readings import NUMBER, READING_ID, RECEIVED, ROW_ID
from lakehouse.dispositions.winners import positions
from lakehouse.errors import LakehouseError
from lakehouse.ledger import ingestions, late_decisions, redactions
from lakehouse.spark import dataframes
from lakehouse.spark.session import in_zone, without_ansi

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.lake.table_io import Where


#: Of the total order, what a claim has and a row has not.
_ORDER_OF_CLAIMS = ("ordered_at", "delivery")


def rows(
    spark: SparkSession,
    lake: Lake,
    contract: SourceContract,
    columns: Sequence[str],
    where: Where,
    ids: Collection[str] | None = None,
) -> DataFrame:
    """Columns of the rows in force, see ``readings.pieces``.

    :param where: values of ``arrival_date`` and ``ingestion_id``, which no reading changes.
    :raises FileNotFoundError: when there is no Bronze.
    """
    source = contract.dataset
    readings = bronze_readings.readings_of(lake, source, ids)
    names = [name for name in columns if name != RECEIVED]
    if readings is not None or RECEIVED in columns:
        names = list(dict.fromkeys([*names, *ROW_ID, "arrival_ts", "malformed_reason"]))
    first = _of_bronze(spark, lake, contract, names, where)
    if RECEIVED in columns:
        first = first.withColumn(RECEIVED, F.when(F.col("malformed_reason").isNull(), F.col("arrival_ts")))
    if readings is None:
        return first.select(*columns)
    ledger = ingestions.ingested(ingestions.all_of(lake, source))
    whole = readings.whole_files({name: entry.rows for name, entry in ledger.items()}, where)
    first = first.where(~F.col("ingestion_id").isin(whole))  # without them, few rows or none have to be looked up
    kinds, held = dict(bronze_readings.columns(contract)), {item.name for item in readings.table.schema().fields}
    known = [name for name in dict.fromkeys([*columns, *ROW_ID, NUMBER]) if name in held]
    about = {**where, READING_ID: readings.ids}
    again = dataframes.scan(spark, lake, locations.readings(lake, source), [*known, READING_ID], about)
    newest = again.select(*ROW_ID)
    if len(readings.ids) > 1:
        newest = again.groupBy(*ROW_ID).agg(F.max(NUMBER).alias(NUMBER))
        again = again.join(newest, [*ROW_ID, NUMBER], "left_semi")
    read = dataframes.select_known(again, {name: kinds[name] for name in columns}, held)
    return first.join(newest, list(ROW_ID), "left_anti").select(*columns).unionByName(read)


def _of_bronze(spark: SparkSession, lake: Lake, contract: SourceContract, columns: Sequence[str], where: Where) -> DataFrame:
    """Columns of Bronze; a column that is new in the contract, and that Bronze does not have yet, is empty."""
    stored = locations.bronze(lake, contract.dataset)
    table = stored.open()
    held = set(columns) if table is None else {item.name for item in table.schema().fields}
    scanned = dataframes.scan(spark, lake, stored, [name for name in columns if name in held], where)
    if held.issuperset(columns):
        return scanned
    kinds = dict(bronze_columns(contract))
    return dataframes.select_known(scanned, {name: kinds[name] for name in columns}, held)


def sound_rows(
    spark: SparkSession,
    lake: Lake,
    contract: SourceContract,
    where: Where,
    ids: Collection[str] | None = None,
    staged: Lake | None = None,
) -> DataFrame:
    """Silver's columns of the well-formed rows in force that meet ``where``; redacted fields are NULL.

    :param staged: the lake of a stage: the rows of its files are added, or the rows of its reading replace the previous ones.
    """
    source, columns = contract.dataset, [name for name, _ in silver_columns(contract)]
    read = [*columns, "malformed_reason"]
    in_place = rows(spark, lake, contract, read, where, ids)
    if staged is not None:
        in_place = _with_staged(spark, in_place, lake, staged, source, read)
    sound = in_place.where(F.col("malformed_reason").isNull()).select(*columns)
    return redacted(spark, sound, redactions.keys_by_field(lake, source))


def _with_staged(
    spark: SparkSession, live: DataFrame, lake: Lake, staged: Lake, source: str, columns: Sequence[str]
) -> DataFrame:
    stored = locations.readings(staged, source)
    if stored.open() is None:
        new = ingestions.only_in(staged, lake, source)
        return live.unionByName(dataframes.scan(spark, staged, locations.bronze(staged, source), columns, {"ingestion_id": new}))
    added = dataframes.scan(spark, staged, stored, columns, {})
    return live.join(added.select(*ROW_ID), list(ROW_ID), "left_anti").select(*columns).unionByName(added)


def completed(contract: SourceContract, claims: DataFrame, rows: DataFrame) -> DataFrame:
    """Rows with the empty fields of partial corrections filled; see ``readings``."""
    place = claims.select("record_key", *ROW_ID, *(F.col(name).alias(f"_{name}") for name in _ORDER_OF_CLAIMS))
    joined = rows.join(place, ["record_key", *ROW_ID])
    in_order = Window.partitionBy("record_key").orderBy(*(f"_{name}" if name in _ORDER_OF_CLAIMS else name for name in ORDER))
    before = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    follows_delete = F.coalesce(F.lag("change_op").over(in_order) == "delete", F.lit(False))
    joined = joined.withColumn("_begins", ~F.coalesce("is_correction", F.lit(False)) | follows_delete)
    text = F.lower(F.trim("corrected_field"))
    words = F.array_append(F.split(text, bronze_readings.SEPARATORS), text)
    columns = {}
    for spec in bronze_readings.fields(contract):
        is_named = F.coalesce(F.arrays_overlap(words, F.array(*map(F.lit, sorted(bronze_readings.names_of(spec))))), F.lit(False))
        gives = F.col("_begins") | F.col(spec.name).isNotNull() | is_named
        columns[spec.name] = F.last(F.when(gives, F.struct(spec.name)), ignorenulls=True).over(before).getField(spec.name)
    return joined.withColumns(columns).select(*rows.columns)


def redacted(spark: SparkSession, rows: DataFrame, keys_by_field: Mapping[str, Collection[str]]) -> DataFrame:
    """The rows, with the redacted fields of their keys set to NULL."""
    if not keys_by_field:
        return rows
    fields = {key: [name for name, keys in keys_by_field.items() if key in keys] for key in set().union(*keys_by_field.values())}
    overlay = pa.Table.from_pylist([{"record_key": key, "_redacted": names} for key, names in fields.items()])
    joined = rows.join(F.broadcast(dataframes.local(spark, overlay)), "record_key", "left")
    hidden = {name: F.coalesce(F.array_contains("_redacted", name), F.lit(False)) for name in keys_by_field}
    return joined.select(*(F.when(~hidden[name], F.col(name)).alias(name) if name in hidden else name for name in rows.columns))


_ROW_ID = ("ingestion_id", "line_number")


class RuleError(LakehouseError):
    """A row rule that Spark cannot run. The message names contract, rule and Spark's reason."""


def judged(lake: Lake, contract: SourceContract, session: Callable[[], SparkSession], where: Where) -> Iterator[pa.Table]:
    """Rows of Bronze as the key log expects them, in pieces: columns ``BRONZE_COLUMNS`` and ``JUDGED``.

    A row that was read again is judged by its reading in force.

    :param where: the rows to judge: values of ``arrival_date`` and ``ingestion_id``.
    :raises RuleError: for a row rule that Spark cannot run.
    """
    table = locations.bronze(lake, contract.dataset).open()
    if table is None:
        msg = f"bronze/{contract.dataset} is gone from {lake.root} in the middle of a run"
        raise RuntimeError(msg)
    failed = failing(lake, contract, session(), where) if contract.quality.named_rules else None
    history = _admitted_history(lake, contract)

    def judge(rows: pa.Table) -> pa.Table:
        return judged_rows.judged(contract, rows if failed is None else _with_failures(rows, failed), history)

    columns = judged_rows.columns_to_judge(contract)
    yield from pieces.mapped(judge, bronze_readings.pieces(lake, contract.dataset, columns, where))


def judged_reading(
    lake: Lake, contract: SourceContract, session: Callable[[], SparkSession], of: Lake, where: Where
) -> Iterator[pa.Table]:
    """The rows of :func:`judged`, for a reading that is not in force.

    :param of: the lake of the folder that holds the reading.
    """
    table, columns, failed = locations.readings(of, contract.dataset), [name for name, _ in bronze_columns(contract)], None
    if contract.quality.named_rules:
        with without_ansi(session()), in_zone(session(), contract.clocks.timezone):
            failed = _failing(contract, dataframes.scan(session(), lake, table, columns, where), where)

    history = _admitted_history(lake, contract)

    def judge(rows: pa.Table) -> pa.Table:
        return judged_rows.judged(contract, rows if failed is None else _with_failures(rows, failed), history)

    read = table.pieces(judged_rows.columns_to_judge(contract), where)
    yield from pieces.mapped(judge, read)


def _admitted_history(lake: Lake, contract: SourceContract) -> pa.Array | None:
    """The ingestions that a person has admitted as history; None where no row has a watermark."""
    return late_decisions.admitted_files(lake, contract.dataset) if contract.lateness.has_watermark else None


def _with_failures(rows: pa.Table, failed: pa.Table) -> pa.Table:
    place = positions(rows, failed)
    for name in failed.column_names[len(_ROW_ID) :]:
        rows = rows.append_column(name, failed[name].take(place))
    return rows


def failing(lake: Lake, contract: SourceContract, spark: SparkSession, where: Where) -> pa.Table:
    """The rows that fail a row rule: their ids, and for each rule whether they fail it; deletes have no content to judge.

    A rule that cannot be evaluated for a row (a division by zero, a text that is no number) is NULL, and NULL is no failure.

    :raises RuleError: for a rule that Spark cannot run.
    """
    columns = [name for name, _ in bronze_columns(contract)]
    with without_ansi(spark), in_zone(spark, contract.clocks.timezone):
        return _failing(contract, rows(spark, lake, contract, columns, where), where)


def _failing(contract: SourceContract, rows: DataFrame, where: Where) -> pa.Table:
    rules = contract.quality.named_rules
    rows = rows.where("malformed_reason IS NULL AND change_op <> 'delete'")
    fails = {}
    for name, rule in rules.items():
        fails[name] = F.coalesce(~F.expr(sql_expressions.cast(rule.sql, "boolean")), F.lit(False)).alias(failure_column(name))
        try:
            rows.select(fails[name]).schema  # noqa: B018 (Spark reports an invalid rule here, by itself)
        except PySparkException as error:
            msg = f"quality.row_rules of {contract.dataset}: {name}: {rule.sql!r} is no condition: {_first_line(error)}"
            raise RuleError(msg) from None
    try:
        failed: pa.Table = (
            rows.select(*_ROW_ID, *fails.values()).where(" OR ".join(f"`{failure_column(name)}`" for name in rules)).toArrow()
        )
    except PySparkException as error:
        msg = f"quality.row_rules of {contract.dataset} cannot be run on {sorted(where['ingestion_id'])}: {_first_line(error)}"
        raise RuleError(msg) from None
    return failed


def _first_line(error: PySparkException) -> str:
    return str(error).strip().splitlines()[0]
