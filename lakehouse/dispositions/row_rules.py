"""Rows of Bronze with the contract's judgement of each: the row rules by Spark, the judgement by ``judged_rows``.

Rows are read from Bronze, so that a judgement can be repeated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse import locations, pieces
from lakehouse.contracts import sql_expressions
from lakehouse.delta.columns import bronze_columns
from lakehouse.dispositions import judged_rows, reading_frames, readings
from lakehouse.dispositions.judged_rows import failure_column
from lakehouse.dispositions.winners import positions
from lakehouse.errors import LakehouseError
from lakehouse.ledger import history_admissions
from lakehouse.spark import dataframes
from lakehouse.spark.session import in_zone, without_ansi

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.lake.table_io import Where


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
    yield from pieces.mapped(judge, readings.pieces(lake, contract.dataset, columns, where))


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
    return history_admissions.admitted(lake, contract.dataset) if contract.lateness.has_watermark else None


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
        return _failing(contract, reading_frames.rows(spark, lake, contract, columns, where), where)


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
