"""Rows of Bronze with the contract's judgement of each: lateness in plain Python, row rules by Spark.

Rows are read from Bronze, so that a judgement can be repeated. The rules themselves are in ``admission``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse import locations
from lakehouse.delta import table_io
from lakehouse.delta.columns import bronze_columns
from lakehouse.dispositions.admission import ADMITTED, Judgement, RowJudge
from lakehouse.errors import LakehouseError
from lakehouse.ledger import key_log
from lakehouse.ledger.row_ids import row_id_of
from lakehouse.spark import dataframes
from lakehouse.spark.session import without_ansi

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from lakehouse.contracts.source import SourceContract
    from lakehouse.delta.table_io import Where
    from lakehouse.ledger.row_ids import RowId
    from lakehouse.settings import Settings


class RuleError(LakehouseError):
    """A row rule that Spark cannot run. Its text names contract, rule and Spark's reason."""


def judged(settings: Settings, contract: SourceContract, session: Callable[[], SparkSession], where: Where) -> pa.Table:
    """Rows of Bronze as the key log expects them: columns ``BRONZE_COLUMNS`` and ``JUDGED``.

    :param where: which rows: values of ``arrival_date`` and ``ingestion_id``.
    :raises RuleError: for a row rule that Spark cannot run.
    """
    row_judge = RowJudge(contract)
    columns = list(dict.fromkeys([*key_log.BRONZE_COLUMNS, "event_ts", row_judge.type_column]))
    rows = table_io.read(locations.bronze(settings, contract.dataset), columns, where, settings.storage_options)
    if rows is None:
        msg = f"bronze/{contract.dataset} is gone from {settings.root} in the middle of a run"
        raise RuntimeError(msg)
    failed = failing(settings, contract, session(), where) if contract.quality.named_rules else {}
    row_ids = list(zip(rows["ingestion_id"].to_pylist(), rows["line_number"].to_pylist()))
    clocks = ("event_ts", "event_date", "arrival_ts", "arrival_date", row_judge.type_column)
    nothing_to_judge = not (row_judge.has_watermarks or failed)
    judgements: list[Judgement] = []
    for row_id, malformed, *values in zip(
        row_ids, rows["malformed_reason"].to_pylist(), *(rows[name].to_pylist() for name in clocks)
    ):
        if malformed is not None or nothing_to_judge:
            judgements.append(ADMITTED)
        else:
            judgements.append(row_judge.judge(*values, failed=failed.get(row_id, [])))
    judged_columns = {
        "standing": [judgement.status.value for judgement in judgements],
        "reason": [judgement.reason.value if judgement.reason else None for judgement in judgements],
        "detail": [judgement.detail for judgement in judgements],
        "failed_rules": [failed.get(row_id, []) for row_id in row_ids],
        "beyond": [judgement.beyond for judgement in judgements],
    }
    rows = rows.select(key_log.BRONZE_COLUMNS)
    for name in key_log.JUDGED:
        rows = rows.append_column(name, pa.array(judged_columns[name], key_log.SCHEMA.field(name).type))
    return rows


def failing(settings: Settings, contract: SourceContract, spark: SparkSession, where: Where) -> dict[RowId, list[str]]:
    """Per row the names of the row rules that it fails; deletes have no content to judge.

    A rule that cannot be evaluated for a row (a division by zero, a text that is no number) is NULL, and NULL is no failure.

    :raises RuleError: for a rule that Spark cannot run.
    """
    with without_ansi(spark):
        return _failing(settings, contract, spark, where)


def _failing(settings: Settings, contract: SourceContract, spark: SparkSession, where: Where) -> dict[RowId, list[str]]:
    rules = contract.quality.named_rules
    columns = [name for name, _ in bronze_columns(contract)]
    rows = dataframes.scan(spark, settings, locations.bronze(settings, contract.dataset), columns, where)
    rows = rows.where("malformed_reason IS NULL AND change_op <> 'delete'")
    fails = {}
    for name, rule in rules.items():
        fails[name] = F.coalesce(~F.expr(f"cast(({rule.sql}) as boolean)"), F.lit(False)).alias(f"_{name}")
        try:
            rows.select(fails[name]).schema  # noqa: B018 (Spark reports an invalid rule here, by itself)
        except PySparkException as error:
            msg = f"quality.row_rules of {contract.dataset}: {name}: {rule.sql!r} is no condition: {_first_line(error)}"
            raise RuleError(msg) from None
    try:
        failed = (
            rows.select("ingestion_id", "line_number", *fails.values())
            .where(" OR ".join(f"`_{name}`" for name in rules))
            .toArrow()
        )
    except PySparkException as error:
        msg = f"quality.row_rules of {contract.dataset} cannot be run on {sorted(where['ingestion_id'])}: {_first_line(error)}"
        raise RuleError(msg) from None
    return {row_id_of(row): [name for name in rules if row[f"_{name}"]] for row in failed.to_pylist()}


def _first_line(error: PySparkException) -> str:
    return str(error).strip().splitlines()[0]
