"""Silver in this process, of few rows, or of many for days that it does not have yet.

Arrow chooses the rows, delta-rs appends or merges pending ingestions, or replaces rebuilt days.

The resulting rows and the rules are those of Spark (``merge``): how a claim wins its key is in ``dispositions.winners``, which
row replaces another one in ``merge.clauses``, and what a day holds in ``dispositions.living_rows``.
"""

from __future__ import annotations

from itertools import chain
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
from lakehouse.lake import table_io, table_parts
from lakehouse.ledger import decisions, ingestions, key_log
from lakehouse.pieces import counted
from lakehouse.silver import admitted_claims
from lakehouse.silver import merge as silver_merge
from lakehouse.spark import commits as spark_commits

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from datetime import date

    from deltalake import DeltaTable

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake

#: delta-rs needs about a kilobyte of memory for each row that it compares: 1.9 GB for 1,500,000.
_HELD_ROWS = 2**18
#: As much as the heap of a Spark on this machine would take: so many times more, in files of so many bytes at most.
_INSTEAD_OF_SPARK, _FILES_BYTES = 8, 2**27
#: Of first rows, so many bytes are held at a time; what a row takes is known from a few of them on.
_HELD_BYTES, _TRIED_ROWS = 2**27, 2**14


def are_few(lake: Lake, contract: SourceContract, days: Collection[date], row_count: int) -> bool:
    """Whether few enough rows are concerned to hold all of them: those to merge, and those of silver on the days.

    :param row_count: the number of rows of the pending ingestions.
    """
    table = locations.silver_of(lake, contract).open()
    return row_count <= lake.settings.held_rows and (table is None or _held(table, days) <= _HELD_ROWS)


def _held(table: DeltaTable, days: Collection[date]) -> int:
    return table_io.rows_at_most(table, {"event_date": days})


def _at_most(lake: Lake, table: DeltaTable, days: Collection[date], held: int) -> int:
    """The greatest number of rows that this process takes: few into days that silver has, whose rows delta-rs reads.

    Into other days it takes many, in pieces; for a day with a partition, delta-rs has a writer that holds its rows.

    :param held: the number of rows that silver holds on the days.
    """
    if held:
        size = pc.sum(table_io.files_with(table, {"event_date": days})["size_bytes"]).as_py() or 0
        is_instead = lake.settings.has_spark_here and size <= _FILES_BYTES
        return lake.settings.held_rows if held <= _HELD_ROWS * (_INSTEAD_OF_SPARK if is_instead else 1) else 0
    is_in_pieces = bool(lake.settings.file_bytes) and table_parts.share_files(table)
    return lake.settings.rows_in_pieces if is_in_pieces else lake.settings.held_rows


def merge(
    lake: Lake,
    contract: SourceContract,
    days: Collection[date],
    contents: Mapping[str, ingestions.Ingestion],
    arrival_days: Collection[date],
    why: Mapping[str, Any],
) -> bool:
    """Merge pending ingestions into ``days``, in one commit that also moves rows between these days.

    Rows are appended if silver has no row on these days.

    :param contents: the ingestions, by their ids.
    :param arrival_days: the partitions of Bronze with the rows of the ingestions.
    :returns: whether it is done; not if more rows are concerned than this process takes.
    :raises CommitFailedError: when another writer has changed one of the days meanwhile.
    """
    stored, row_count = locations.silver_of(lake, contract), sum(entry.rows for entry in contents.values())
    while True:
        stored.newest_version()  # the key log has to be as new as silver, see the end
        table = spark_commits.table_of(stored, silver_columns(contract), *layout.of_silver(lake))
        before, held = table.version(), _held(table, days)
        if row_count > _at_most(lake, table, days, held):
            return False
        if held:
            keys, _ = key_log.keys_and_days(lake, contract.dataset, contents, arrival_days)
            rows = _merge_rows(lake, contract, days, keys, arrival_days)
            if len(rows):
                table_io.bring(table, {"event_date": days})
                spark_commits.merge_rows(table, stored, rows, silver_merge.clauses(table, contract, days), why)
        else:
            contested = admitted_claims.contested_keys(lake, contract.dataset, contents, arrival_days)
            if contested is None:
                return False
            first = _first_rows(lake, contract, days, contents, arrival_days, contested)
            first = counted(f"rows of {contract.dataset} put in order", first, row_count)
            spark_commits.append_days_alone(lake, first, stored, f"silver:{contract.silver_table}", before, why)
        if not stored.is_beyond(before + 1):
            return True
        # Another writer has committed since the key log was read: its rows may outrank a row written here.


def rebuild(lake: Lake, contract: SourceContract, days: Collection[date], why: Mapping[str, Any]) -> bool:
    """Compute days from Bronze and replace those whose content differs, in one commit.

    :returns: whether it is done; not if more rows are concerned than this process computes.
    :raises CommitFailedError: when another writer has changed one of the days meanwhile.
    """
    stored, schema = locations.silver_of(lake, contract), arrow_schema(silver_columns(contract))
    while True:
        table = stored.newest_snapshot()  # what is computed has to be as new as silver
        if table is None or _held(table, days) > _HELD_ROWS:
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


def _first_rows(
    lake: Lake,
    contract: SourceContract,
    days: Collection[date],
    contents: Mapping[str, ingestions.Ingestion],
    arrival_days: Collection[date],
    contested: pa.Array,
) -> Iterator[pa.Table]:
    """The rows that ingestions bring to days on which silver has none, in pieces of several days each, or of one day.

    :param contested: the keys of which not every row is an admitted insert without another claim; only their claims are compared.
    """
    won, counts = None, silver_merge.rows_by_day(contents, days)
    if len(contested):
        rows = _merge_rows(lake, contract, days, contested, arrival_days)
        won = rows.filter(pc.and_(rows["_lives"], rows["_present"])).select([name for name, _ in silver_columns(contract)])
    # Also on a day to which they bring no row: the winner of one of their keys may lie there.
    left, at_most = sorted(days), min(_TRIED_ROWS, table_io.PIECE_ROWS)
    while left:
        some = table_parts.filled([(day, counts[day]) for day in left[:at_most]], at_most)[0]
        left = left[len(some) :]
        delivered = {"event_date": some, "arrival_date": arrival_days, "ingestion_id": contents}
        parts = living_rows.sound_rows(lake, contract, delivered)
        if won is not None:
            parts = (part.filter(pc.invert(pc.is_in(part["record_key"], value_set=contested))) for part in parts)
            parts = chain(parts, [won.filter(pc.is_in(won["event_date"], value_set=pa.array(some, pa.date32())))])
        for part in parts if len(some) == 1 else [pa.concat_tables(parts)]:
            yield from (part.slice(begin, at_most) for begin in range(0, len(part), at_most))
            at_most = min(table_io.PIECE_ROWS, max(_HELD_BYTES * len(part) // (part.nbytes or 1), 1)) if len(part) else at_most


def _merge_rows(
    lake: Lake, contract: SourceContract, days: Collection[date], keys: pa.Array, arrival_days: Collection[date]
) -> pa.Table:
    """The rows of :func:`rows_to_merge` for ``keys``."""
    source = contract.dataset
    claimed = deliveries.ordered(claims_about(lake, source, keys), deliveries.of(lake, contract))
    counting = claims.with_decisions(claimed, decisions.in_force(lake, source, rows=claimed))
    return rows_to_merge(contract, days, counting, lambda won: living_rows.read_claimed_rows(lake, contract, arrival_days, won))


def claims_about(lake: Lake, source: str, keys: pa.Array, ingestion_ids: Collection[str] | None = None) -> pa.Table:
    """The claims about ``keys``, with the columns that a merge needs; by default of all recorded ingestions."""
    log = key_log.about(lake, source, [*winners.RANKED, "standing"], keys)
    named = pa.array(sorted(ingestions.completed(lake, source) if ingestion_ids is None else ingestion_ids), pa.string())
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
