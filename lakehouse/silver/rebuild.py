"""Rebuilds of silver days: the request and its preview, and the repair of days with damaged data files.

A rebuild request judges the rows of a range of event days again, under the present code and contract. The request is recorded and
the rows are judged here; silver rebuilds the days in its next run (see ``update``), even if this process is stopped in between.
The preview shows, before the request, the event days whose rows would differ, and by how much.

A repair computes the rows of damaged days again from Bronze (rule R2). Followers of silver detect that the change feed of the
commit is incomplete, and compare content: a day with equal content changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse import locations
from lakehouse.delta import commit_log, data_files, layout, partition_writer, provenance, row_writer
from lakehouse.delta.columns import bronze_columns, content_columns
from lakehouse.dispositions import account_tables, claims, judgement_history, row_frames
from lakehouse.dispositions.living_rows import Slice
from lakehouse.lake import table_io, table_parts
from lakehouse.ledger import applied_inputs, ingestions, key_log, rebuild_requests
from lakehouse.ledger.rebuild_requests import RebuildRequest
from lakehouse.silver import merge as silver_merge
from lakehouse.spark import commits as spark_commits
from lakehouse.spark import dataframes
from lakehouse.spark.session import sized_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import date

    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake


@dataclass(frozen=True)
class PlannedRebuild:
    """The event days to rebuild, the number of rows judged differently, and the code and contract of silver's newest commit."""

    days: list[date]
    rows_judged_otherwise: int
    before: dict[str, str | None]


@dataclass(frozen=True)
class RebuildRange:
    """The event days from ``first`` through ``last``; of ``keys``, only the days on which they have rows, and only these rows."""

    first: date
    last: date
    keys: pa.Array | None = None


def plan_rebuild(
    lake: Lake,
    contract: SourceContract,
    session: Callable[[], SparkSession],
    wanted: RebuildRange,
    *,
    reason: str,
    runner_id: str,
    operation: str = rebuild_requests.BUG_REPLAY,
) -> PlannedRebuild:
    """Record that a range of days must be rebuilt, and judge their rows again.

    Days outside the range are planned as well if a row that is judged differently affects them.

    :param operation: its name in the audit and in the numbers: a bug replay, or a backfill.
    """
    lake = lake.cached()
    source = contract.dataset
    spark_commits.add_missing_columns(session, locations.bronze(lake, source), bronze_columns(contract))
    days, otherwise, judged = days_to_rebuild(lake, contract, session, wanted.first, wanted.last, wanted.keys)
    before, now = provenance.newest_in_silver(lake, source), provenance.stamp(contract)
    entry = RebuildRequest(
        source=source,
        operation=operation,
        first_day=wanted.first,
        last_day=wanted.last,
        reason=reason,
        runner_id=runner_id,
        code_before=before["code"],
        code_after=now["code"],
        contract_before=before["contract"],
        contract_after=now["contract"],
        recorded_at=lake.now(),
        rows_judged_otherwise=judged,
        touched_days=sorted(days),
    )
    stopped = _unfinished_repeats(lake, entry)
    if stopped:
        entry = stopped[-1]
    elif days:
        entry = replace(entry, operation_id=rebuild_requests.record(lake, entry))
    if len(otherwise):
        judgement_history.record(lake, source, entry.operation_id, otherwise, lake.now())
        row_writer.upsert(locations.key_log(lake, source), otherwise, judgement_history.CLAIM)
        # Recorded again: a run of silver may have applied the first record before the rows were judged.
        rebuild_requests.record(lake, replace(entry, attempt=entry.attempt + 1))
    planned = days.union(*(request.touched_days for request in stopped))
    if planned:
        account_tables.after_rebuild(lake, contract, planned)
    return PlannedRebuild(sorted(planned), judged, before)


def days_to_rebuild(
    lake: Lake,
    contract: SourceContract,
    session: Callable[[], SparkSession],
    first: date | None,
    last: date | None,
    keys: pa.Array | None = None,
) -> tuple[set[date], pa.Table, int]:
    """The event days that a rebuild of a range evaluates. Writes nothing.

    :param first: None for the first existing event day; ``last`` likewise.
    :param keys: see :class:`RebuildRange`.
    :returns: the days, the claims of rows that are now judged differently, and the number of these rows.
    """
    source = contract.dataset
    existing = key_log.days(lake, source) | _days_of_silver(lake, source)
    in_range = {day for day in existing if (first is None or first <= day) and (last is None or day <= last)}
    if keys is not None:
        in_range &= set(pc.unique(_claims_about(lake, source, ["event_date"], keys)["event_date"]).to_pylist())
    otherwise = _judged_otherwise(lake, contract, session, in_range, keys)
    judged = pc.sum(pc.not_equal(otherwise["kind"], "retire")).as_py() or 0
    if not len(otherwise):
        return in_range, otherwise, judged
    changed_keys = pc.unique(otherwise["record_key"])
    row_days = set(pc.unique(otherwise["event_date"].drop_null()).to_pylist())
    return in_range | claims.affected_event_days(lake, contract, row_days, changed_keys), otherwise, judged


def _unfinished_repeats(lake: Lake, entry: RebuildRequest) -> list[RebuildRequest]:
    """The records of the same request that cover its days and still have pending days."""
    waiting = applied_inputs.pending_manual_inputs(lake, entry.source)
    unfinished: set[str] = set().union(*waiting.values())
    return [
        request
        for request in rebuild_requests.all_of(lake, entry.source)
        if request.identity == entry.identity
        and request.operation_id in unfinished
        and set(entry.touched_days) <= set(request.touched_days)
    ]


def _judged_otherwise(
    lake: Lake, contract: SourceContract, session: Callable[[], SparkSession], days: set[date], keys: pa.Array | None
) -> pa.Table:
    """The claims of rows on ``days`` whose judgement has changed, as the key log should hold them.

    :param keys: only the claims about these keys; None for all.
    """
    columns = ["ingestion_id", "line_number", "arrival_date", "kind", *key_log.JUDGED]
    stored = locations.key_log(lake, contract.dataset)
    if days and keys is not None:
        about = _claims_about(lake, contract.dataset, [*columns, "event_date"], keys)
        log = table_io.meeting(about, {"event_date": days}).select(columns)
    else:
        log = stored.read(columns, {"event_date": days}) if days else None
    if log is None or not len(log):
        return key_log.SCHEMA.empty_table()
    where = {name: pc.unique(log[name]).to_pylist() for name in ("arrival_date", "ingestion_id")}
    judged = pa.concat_tables(map(key_log.claims, row_frames.judged(lake, contract, session, where)))
    return judgement_history.judged_otherwise(log, judged)


def _claims_about(lake: Lake, source: str, columns: Sequence[str], keys: pa.Array) -> pa.Table:
    found = key_log.about(lake, source, columns, keys)
    return key_log.SCHEMA.empty_table().select(columns) if found is None else found


def _days_of_silver(lake: Lake, source: str) -> set[date]:
    """The event days for which silver has files."""
    rows = locations.silver(lake, source).read(["event_date"], None)
    return set() if rows is None else set(pc.unique(rows["event_date"]).to_pylist())


@dataclass(frozen=True)
class DayDifference:
    """An event day that a rebuild would change.

    :param rows: the number of rows in silver, before and after.
    :param keys: the number of keys that would be added, removed or changed.
    """

    day: date
    rows: tuple[int, int]
    keys: int


@dataclass(frozen=True)
class RebuildPreview:
    """The changes that a rebuild would make.

    :param days: the number of event days that would be evaluated.
    :param rows_judged_otherwise: the number of rows that the present contract judges differently.
    :param differing: the days whose content would change, in order.
    """

    days: int
    rows_judged_otherwise: int
    differing: Sequence[DayDifference]


def preview(
    session: SparkSession, lake: Lake, contract: SourceContract, first: date | None = None, last: date | None = None
) -> RebuildPreview:
    """Compare silver with the result of a rebuild of the event days from ``first`` through ``last``.

    A change of the provenance of a row alone is no difference, as in published numbers.

    :param first: the first event day; by default the source's first one. ``last`` likewise.
    """
    lake = lake.cached()
    days, otherwise, judged = days_to_rebuild(lake, contract, lambda: session, first, last)
    if not days:
        return RebuildPreview(0, judged, [])
    with sized_for(session, lake, many=True):
        wanted = silver_merge.state(session, lake, contract, Slice(days), instead=otherwise)
        held = session.read.format("delta").load(locations.silver(lake, contract.dataset).address)
        content = dict(content_columns(contract))
        current = dataframes.select_known(held.where(silver_merge.on_days(days)), content, held.columns)
        return RebuildPreview(len(days), judged, _differing(current, wanted.select(*content)))


def _differing(before: DataFrame, after: DataFrame) -> list[DayDifference]:
    """The days on which two sets of rows differ as multisets, compared by hashes of the rows of each key."""
    columns = after.columns
    signed = before.select("*", F.lit(-1).alias("_sign")).unionByName(after.select("*", F.lit(1).alias("_sign")))
    hashed = silver_merge.row_hash(columns).alias("_hash")
    per_row = signed.select("event_date", "record_key", "_sign", hashed).groupBy("event_date", "record_key", "_hash")
    in_both = per_row.agg(
        F.sum("_sign").alias("_sum"), *(F.count_if(F.col("_sign") == sign).alias(f"_{sign}") for sign in (-1, 1))
    )
    sides = [F.sum(f"_{sign}").alias(f"_{sign}") for sign in (-1, 1)]
    per_key = in_both.groupBy("event_date", "record_key").agg(F.max(F.col("_sum") != 0).alias("_differs"), *sides)
    per_day = per_key.groupBy("event_date").agg(F.count_if("_differs").alias("_keys"), *sides).where("_keys > 0")
    return [
        DayDifference(row["event_date"], (row["_-1"], row["_1"]), row["_keys"]) for row in per_day.orderBy("event_date").collect()
    ]


def repair(lake: Lake, contract: SourceContract, session: Callable[[], SparkSession], run_id: str) -> list[date]:
    """Write the damaged days of a source's silver tables again, each in one commit; repeat it if it was stopped.

    :returns: the days.
    :raises LostRowsError: when Bronze lacks rows of files that were ingested.
    """
    repaired: set[date] = set()
    for table in contract.silver_tables:
        repaired.update(_repair_table(lake, table, session, run_id))
    return sorted(repaired)


@spark_commits.recomputed_on_conflict
def _repair_table(lake: Lake, contract: SourceContract, session: Callable[[], SparkSession], run_id: str) -> list[date]:
    stored = locations.silver_of(lake, contract)
    table = stored.snapshot()
    files = [] if table is None else data_files.damaged_files_of_table(table)
    if table is None or not files:
        return []
    ingestions.require_no_lost_rows(lake, contract.dataset)
    known = key_log.days(lake, contract.dataset)
    data_files.set_aside(table, files)
    shared = table_parts.share_files(table)  # then a file is replaced as a whole
    days = data_files.lost_parts(table, files, known)
    for together in [days] if shared else [[day] for day in days]:
        why = {
            "run_id": run_id,
            "method": "repair",
            commit_log.DAYS: [f"{day}" for day in together],
            **provenance.stamp(contract),
        }
        count = sum(file.rows for file in files if any(map(file.may_hold, together)))
        with sized_for(session(), lake, many=count > lake.settings.held_rows):
            rows = silver_merge.state(session(), lake, contract, Slice(together)).toArrow()
        if shared:
            layout.make_again(table, files, together, rows, why)
        else:
            partition_writer.replace(table, rows, together, why=why)
        table.update_incremental()
    return days
