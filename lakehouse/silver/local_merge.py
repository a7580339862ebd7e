"""Silver of few rows, in this process: Arrow chooses the rows, delta-rs merges pending ingestions, or replaces rebuilt days.

The resulting rows and the rules are those of Spark (``merge``): how a claim wins its key is in ``dispositions.winners``, which
row replaces another one in ``merge.clauses``, and what a day holds in ``dispositions.living_rows``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.delta import layout, leases, partition_writer
from lakehouse.delta.columns import arrow_schema, silver_columns
from lakehouse.dispositions import claims, deliveries, living_rows, winners
from lakehouse.dispositions.readings import ROW_ID
from lakehouse.dispositions.reprocess_policy import policy_of
from lakehouse.dispositions.winners import positions
from lakehouse.lake import table_io
from lakehouse.ledger import decisions, ingestions, key_log
from lakehouse.silver import merge as silver_merge
from lakehouse.spark import commits as spark_commits

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from datetime import date

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake

#: delta-rs needs about a kilobyte of memory for each row that it compares: 1.9 GB for 1,500,000.
_HELD_ROWS = 2**18


def is_possible(lake: Lake, contract: SourceContract, days: Collection[date], row_count: int) -> bool:
    """Whether few enough rows are concerned: those to merge, and those that silver holds on the days, which delta-rs reads.

    :param row_count: the number of rows of the pending ingestions.
    """
    table = locations.silver_of(lake, contract).open()
    held = 0 if table is None else table_io.rows_at_most(table, {"event_date": days})
    return row_count <= lake.settings.local_rows and held <= _HELD_ROWS


def merge(
    lake: Lake,
    contract: SourceContract,
    days: Collection[date],
    ingestion_ids: Collection[str],
    arrival_days: Collection[date],
    why: Mapping[str, Any],
) -> None:
    """Merge pending ingestions into ``days``, in one commit that also moves rows between these days.

    :param arrival_days: the partitions of Bronze with the rows of the ingestions.
    :raises CommitFailedError: when another writer has changed one of the days meanwhile.
    """
    stored = locations.silver_of(lake, contract)
    while True:
        stored.newest_version()  # the key log has to be as new as silver, see the end
        table = spark_commits.table_of(stored, silver_columns(contract), *layout.of_silver(lake))
        before = table.version()
        rows = _merge_rows(lake, contract, days, ingestion_ids, arrival_days)
        if len(rows):
            table_io.bring(table, {"event_date": days})
            spark_commits.merge_rows(table, stored, rows, silver_merge.clauses(table, contract, days), why)
        if not stored.is_beyond(before + 1):
            return
        # Another writer has committed since the key log was read: its rows may outrank a row written here.


def rebuild(lake: Lake, contract: SourceContract, days: Collection[date], why: Mapping[str, Any]) -> bool:
    """Compute days from Bronze and replace those whose content differs, in one commit.

    :returns: whether it is done; not if more rows are concerned than this process computes.
    :raises CommitFailedError: when another writer has changed one of the days meanwhile.
    """
    stored, schema = locations.silver_of(lake, contract), arrow_schema(silver_columns(contract))
    while True:
        table = stored.newest_snapshot()  # what is computed has to be as new as silver
        if table is None or table_io.rows_at_most(table, {"event_date": days}) > _HELD_ROWS:
            return False
        before = table.version()
        wanted = living_rows.computed(lake, contract, living_rows.Slice(days), lake.settings.local_rows)
        if wanted is None:
            return False
        held = table_io.with_columns(table_io.read_version(table, None, {"event_date": days}), schema.names)
        different = changed_days(held.select(schema.names).cast(schema), wanted)
        if different:
            rows = wanted.filter(pc.is_in(wanted["event_date"], value_set=pa.array(sorted(different), pa.date32())))
            with leases.alone(stored, is_noted=True):
                partition_writer.replace(table, rows, different, why=why)
        if not stored.is_beyond(before + bool(different)):
            return True
        # Another writer has committed since Bronze was read.


def changed_days(before: pa.Table, after: pa.Table) -> set[date]:
    """The event days on which two sets of rows with the same columns differ, as multisets."""
    signed = [rows.append_column("_sign", pa.repeat(sign, len(rows))) for rows, sign in ((before, -1), (after, 1))]
    counted = pa.concat_tables(signed).group_by(before.column_names).aggregate([("_sign", "sum")])
    return set(counted.filter(pc.not_equal(counted["_sign_sum"], 0))["event_date"].to_pylist())


def _merge_rows(
    lake: Lake,
    contract: SourceContract,
    days: Collection[date],
    ingestion_ids: Collection[str],
    arrival_days: Collection[date],
) -> pa.Table:
    """The rows of :func:`rows_to_merge` for the keys of the ingestions."""
    source = contract.dataset
    keys, _ = key_log.keys_and_days(lake, source, ingestion_ids, arrival_days)
    claimed = claims_about(lake, source, keys, ingestions.completed(lake, source))
    claimed = deliveries.ordered(claimed, deliveries.of(lake, contract))
    counting = claims.with_decisions(claimed, decisions.in_force(lake, source, rows=claimed))
    return rows_to_merge(contract, days, counting, lambda won: living_rows.read_claimed_rows(lake, contract, arrival_days, won))


def claims_about(lake: Lake, source: str, keys: pa.Array, ingestion_ids: Collection[str]) -> pa.Table:
    """The claims of ``ingestion_ids`` about ``keys``, with the columns that a merge needs."""
    log = key_log.about(lake, source, [*winners.RANKED, "standing"], keys)
    named = pa.array(sorted(ingestion_ids), pa.string())
    return key_log.SCHEMA.empty_table() if log is None else log.filter(pc.is_in(log["ingestion_id"], value_set=named))


def rows_to_merge(
    contract: SourceContract, days: Collection[date], counting: pa.Table, rows_of: Callable[[pa.Table], pa.Table]
) -> pa.Table:
    """One row per key and day on which silver may hold it, with the columns that ``merge.clauses`` names.

    A row has the id of the row that wins, whether it puts the key on that day, and the Bronze row if there is one for it. Silver
    holds a key on two days while only one of the days of a move has been updated.

    :param counting: all claims about the keys in the order of their deliveries, with the decisions on them (see
        ``claims.with_decisions``).
    :param rows_of: returns the Bronze rows that make the given winning claims, as far as they may be new in silver.
    """
    on_days = pc.is_in(counting["event_date"], value_set=pa.array(sorted(days), pa.date32()))
    places = counting.filter(on_days).group_by(["record_key", "event_date"]).aggregate([])
    admitted = counting.filter(claims.are_admitted(counting))
    won = winners.winners(admitted, by_sequence=policy_of(contract).by_sequence)
    winner = pc.index_in(places["record_key"], value_set=won["record_key"].combine_chunks())
    places, won = places.filter(pc.is_valid(winner)), won.take(winner.drop_null())
    rows = rows_of(won)
    place = positions(won, rows)
    of_its_key = pc.equal(rows["record_key"].take(place), won["record_key"])  # a retirement is made by the row of another key
    is_on_the_day = pc.fill_null(pc.equal(won["event_date"], places["event_date"]), False)
    merged = {name: rows[name].take(place) for name in rows.column_names} | {
        "record_key": places["record_key"],
        "_day": places["event_date"],
        "_lives": pc.and_(pc.is_in(won["kind"], value_set=pa.array(winners.LIVING_KINDS)), is_on_the_day),
        "_present": pc.fill_null(of_its_key, False),
    }
    return pa.table(merged | {f"_{name}": won[name] for name in ROW_ID})
