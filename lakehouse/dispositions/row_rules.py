"""Rows of Bronze with what the contract says of each: lateness in plain Python, row rules by Spark.

What is judged is Bronze, so that a judgement can be made again. The rules themselves are in ``dispositions.admission``.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse import locations
from lakehouse.calendar.event_day import lateness
from lakehouse.delta import table_io
from lakehouse.delta.columns import bronze_columns
from lakehouse.dispositions.admission import ADMITTED, Judgement, judge
from lakehouse.errors import LakehouseError
from lakehouse.ledger import key_log
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
    """Rows of Bronze, as the key log wants them: columns ``BRONZE_COLUMNS`` and ``JUDGED``.

    :param where: which rows: values of ``arrival_date`` and ``ingestion_id``.
    :raises RuleError: for a row rule that Spark cannot run.
    """
    rules = contract.quality.named_rules
    typed_by = contract.lateness.by.column if contract.lateness.by else "change_op"
    columns = list(dict.fromkeys([*key_log.BRONZE_COLUMNS, "event_ts", typed_by]))
    rows = table_io.read(locations.bronze(settings, contract.dataset), columns, where, settings.storage_options)
    if rows is None:
        msg = f"bronze/{contract.dataset} is gone from {settings.root} in the middle of a run"
        raise RuntimeError(msg)
    failed = failing(settings, contract, session(), where) if rules else {}
    bound = contract.lateness
    watermarks = bound.watermark is not None or bound.by is not None or bool(bound.changes)
    bounds_of = cache(bound.as_of)
    zone = ZoneInfo(contract.clocks.timezone)
    verdicts: list[Judgement] = []
    clocks = ("event_ts", "event_date", "arrival_ts", "arrival_date")
    needed = ("ingestion_id", "line_number", *clocks, typed_by, "malformed_reason")
    for ingestion_id, line, event_ts, event_date, arrival_ts, arrival_date, kind, malformed in zip(
        *(rows[name].to_pylist() for name in needed)
    ):
        if malformed is not None or not (watermarks or failed):
            verdicts.append(ADMITTED)
            continue
        late = lateness(event_ts, event_date, arrival_ts, zone)
        bounds = bounds_of(None if kind is None else str(kind), arrival_date)
        verdicts.append(judge(late, bounds, failed.get((ingestion_id, line), []), rules))
    rules_failed = [failed.get(row, []) for row in zip(rows["ingestion_id"].to_pylist(), rows["line_number"].to_pylist())]
    said = {
        "standing": [one.standing.value for one in verdicts],
        "reason": [one.reason.value if one.reason else None for one in verdicts],
        "detail": [one.detail for one in verdicts],
        "failed_rules": rules_failed,
        "beyond": [one.beyond for one in verdicts],
    }
    rows = rows.select(key_log.BRONZE_COLUMNS)
    for name in key_log.JUDGED:
        rows = rows.append_column(name, pa.array(said[name], key_log.SCHEMA.field(name).type))
    return rows


def failing(settings: Settings, contract: SourceContract, spark: SparkSession, where: Where) -> dict[RowId, list[str]]:
    """Per row the names of the row rules that it fails; deletes have no content to judge.

    What cannot be worked out for a row (a division by zero, a text that is no number) is NULL, and NULL is no failure.

    :raises RuleError: for a rule that Spark cannot run.
    """
    with without_ansi(spark):
        return _failing(settings, contract, spark, where)


def _failing(settings: Settings, contract: SourceContract, spark: SparkSession, where: Where) -> dict[RowId, list[str]]:
    rules = contract.quality.named_rules
    columns = [name for name, _ in bronze_columns(contract)]
    rows = dataframes.scan(spark, settings, locations.bronze(settings, contract.dataset), columns, where)
    rows = rows.where("malformed_reason IS NULL AND change_op <> 'delete'")
    found: dict[RowId, list[str]] = defaultdict(list)
    fails = {}
    for name, rule in rules.items():
        fails[name] = F.coalesce(~F.expr(f"cast(({rule.sql}) as boolean)"), F.lit(False)).alias(f"_{name}")
        try:
            rows.select(fails[name]).schema  # noqa: B018 (what Spark has to say against one rule, it says here)
        except PySparkException as error:
            msg = f"quality.row_rules of {contract.dataset}: {name}: {rule.sql!r} is no condition: {_first_line(error)}"
            raise RuleError(msg) from None
    try:
        marked = (
            rows.select("ingestion_id", "line_number", *fails.values())
            .where(" OR ".join(f"`_{name}`" for name in rules))
            .toArrow()
        )
    except PySparkException as error:
        msg = f"quality.row_rules of {contract.dataset} cannot be run on {sorted(where['ingestion_id'])}: {_first_line(error)}"
        raise RuleError(msg) from None
    for row in marked.to_pylist():
        found[row["ingestion_id"], row["line_number"]] = [name for name in rules if row[f"_{name}"]]
    return dict(found)


def _first_line(error: PySparkException) -> str:
    return str(error).strip().splitlines()[0]
