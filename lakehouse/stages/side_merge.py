"""The silver rows of a stage under ``merge``, if few rows are concerned: the live rows, with the staged ones merged into them.

The rules are those of every merge: the winner of a key is chosen by ``silver.local_merge.rows_to_merge``, and rows are replaced
by ``silver.merge.clauses``. Other stages are computed from all of Bronze, in ``side_rows``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.calendar import day_conditions
from lakehouse.delta import change_feed, partition_writer, table_io
from lakehouse.delta.columns import arrow_schema, silver_columns
from lakehouse.dispositions import claims, deliveries
from lakehouse.dispositions.readings import claimed_rows
from lakehouse.dispositions.reprocess_policy import policy_of
from lakehouse.ledger import decisions, ingestions
from lakehouse.silver import local_merge
from lakehouse.silver import merge as silver_merge
from lakehouse.spark import commits as spark_commits

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import date

    from lakehouse.contracts.source import SourceContract
    from lakehouse.settings import Settings


def is_possible(settings: Settings, stage: Settings, contract: SourceContract, days: Collection[date]) -> bool:
    """Whether staged files are merged, and few enough rows are concerned."""
    staged = ingestions.ingested(ingestions.all_of(stage, contract.dataset))
    rows = sum(entry.rows for entry in staged.values())
    return bool(staged) and policy_of(contract).merges_pending and local_merge.is_possible(settings, contract, days, rows)


def merge(
    settings: Settings, stage: Settings, contract: SourceContract, days: Collection[date]
) -> tuple[set[date], pa.Table, pa.Table]:
    """Write the stage's silver table: on the days that change, the live rows with the staged ones merged into them.

    :param stage: the settings of the stage's lake; its silver table does not exist yet.
    :returns: the days that change, and the rows of these days, live and staged.
    """
    source, columns = contract.dataset, [name for name, _ in silver_columns(contract)]
    where = {"event_date": days}
    live = table_io.read(locations.silver_of(settings, contract), columns, where, settings.storage_options)
    schema = arrow_schema(silver_columns(contract))
    live = schema.empty_table() if live is None else live.cast(schema)
    path = locations.silver_of(stage, contract)
    properties = partition_writer.CHANGE_FEED
    table = spark_commits.table_of(stage, path, silver_columns(contract), "event_date", properties)
    if len(live):
        spark_commits.append_rows_alone([live], stage, path, f"silver:{source}", table.version(), {"method": "live rows"})
    table = spark_commits.table_of(stage, path, silver_columns(contract), "event_date", properties)
    before = table.version()
    rows = _rows_to_merge(settings, stage, contract, days)
    if len(rows):
        clauses = silver_merge.clauses(table, contract, days)
        spark_commits.merge_rows(table, stage, path, rows, clauses, {"method": "merge"})
    table = spark_commits.table_of(stage, path, silver_columns(contract), "event_date", properties)
    feed = change_feed.feed_of(table, before + 1, table.version(), columns=["event_date"])
    changed = {day for day in pc.unique(feed["event_date"]).to_pylist() if day is not None}
    others = set(days) - changed
    if others:
        table.delete(day_conditions.among("event_date", others))
    on_changed = pc.is_in(live["event_date"], value_set=pa.array(sorted(changed), pa.date32()))
    return changed, live.filter(on_changed), table_io.read_version(table, columns)


def _rows_to_merge(settings: Settings, stage: Settings, contract: SourceContract, days: Collection[date]) -> pa.Table:
    source = contract.dataset
    new = ingestions.only_in(stage, settings, source)
    path, columns = locations.key_log(stage, source), ["record_key", "arrival_date"]
    staged = table_io.read(path, columns, {"ingestion_id": new}, stage.storage_options)
    keys = pa.array([], pa.string()) if staged is None else pc.unique(staged["record_key"])
    logs = [
        local_merge.claims_about(settings, source, keys, ingestions.completed(settings, source)),
        local_merge.claims_about(stage, source, keys, new),
    ]
    claimed = pa.concat_tables(log.select(logs[1].column_names) for log in logs)
    retired = pc.is_in(
        claimed["record_key"], value_set=pc.unique(claimed.filter(pc.equal(claimed["kind"], "retire"))["record_key"])
    )
    # A retirement can revive an older row of its key, which Bronze has.
    older = {day for day in pc.unique(claimed.filter(retired)["arrival_date"]).to_pylist() if day is not None}
    arrivals = set() if staged is None else set(pc.unique(staged["arrival_date"]).to_pylist())
    claimed = deliveries.ordered(claimed, deliveries.of(settings, contract, staged=stage))
    counting = claims.with_decisions(claimed, decisions.in_force(settings, source))

    def rows_of(won: pa.Table) -> pa.Table:
        found = [claimed_rows.read(stage, contract, arrivals, won)]
        found += [claimed_rows.read(settings, contract, older, won)] if older else []
        return pa.concat_tables(found)

    return local_merge.rows_to_merge(contract, days, counting, rows_of)
