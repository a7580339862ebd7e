"""Rebuild requests: judging the rows of a range of event days again, under the present code and contract.

The request is recorded here and the rows are judged; silver rebuilds the days in its next run (see ``update``), even if this
process is stopped in between.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.delta import provenance, row_writer, table_io
from lakehouse.delta.columns import bronze_columns
from lakehouse.delta.table_cache import with_table_cache
from lakehouse.dispositions import account_tables, claims, judgement_history, row_rules
from lakehouse.ledger import applied_inputs, key_log, rebuild_requests
from lakehouse.ledger.rebuild_requests import RebuildRequest
from lakehouse.spark import commits as spark_commits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import date

    from pyspark.sql import SparkSession

    from lakehouse.contracts.source import SourceContract
    from lakehouse.settings import Settings


@dataclass(frozen=True)
class PlannedRebuild:
    """The event days to rebuild, the number of rows judged differently, and the code and contract of silver's newest commit."""

    days: list[date]
    rows_judged_otherwise: int
    before: dict[str, str | None]


def plan_rebuild(
    settings: Settings,
    contract: SourceContract,
    session: Callable[[], SparkSession],
    first: date,
    last: date,
    *,
    reason: str,
    runner_id: str,
    operation: str = rebuild_requests.BUG_REPLAY,
    keys: pa.Array | None = None,
) -> PlannedRebuild:
    """Record that the days from ``first`` through ``last`` must be rebuilt, and judge their rows again.

    Days outside the range are planned as well if a row that is judged differently affects them.

    :param keys: judge only the rows of these keys again, and rebuild only the days on which they have rows.
    :param operation: its name in the audit and in the numbers: a bug replay, or a backfill.
    """
    settings = with_table_cache(settings)
    source = contract.dataset
    spark_commits.add_missing_columns(session, settings, locations.bronze(settings, source), bronze_columns(contract))
    days, otherwise, judged = days_to_rebuild(settings, contract, session, first, last, keys)
    before, now = provenance.newest_in_silver(settings, source), provenance.stamp(contract)
    entry = RebuildRequest(
        source=source,
        operation=operation,
        first_day=first,
        last_day=last,
        reason=reason,
        runner_id=runner_id,
        code_before=before["code"],
        code_after=now["code"],
        contract_before=before["contract"],
        contract_after=now["contract"],
        recorded_at=settings.clock(),
        rows_judged_otherwise=judged,
        touched_days=sorted(days),
    )
    stopped = _unfinished_repeats(settings, entry)
    if stopped:
        entry = stopped[-1]
    elif days:
        entry = replace(entry, operation_id=rebuild_requests.record(settings, entry))
    if len(otherwise):
        judgement_history.record(settings, source, entry.operation_id, otherwise, settings.clock())
        row_writer.upsert(
            locations.key_log(settings, source), otherwise, judgement_history.CLAIM, options=settings.storage_options
        )
        # Recorded again: a run of silver may have applied the first record before the rows were judged.
        rebuild_requests.record(settings, replace(entry, attempt=entry.attempt + 1))
    planned = days.union(*(request.touched_days for request in stopped))
    if planned:
        account_tables.after_rebuild(settings, contract, planned)
    return PlannedRebuild(sorted(planned), judged, before)


def days_to_rebuild(
    settings: Settings,
    contract: SourceContract,
    session: Callable[[], SparkSession],
    first: date | None,
    last: date | None,
    keys: pa.Array | None = None,
) -> tuple[set[date], pa.Table, int]:
    """The event days that a rebuild of a range evaluates. Writes nothing.

    :param first: None for the first existing event day; ``last`` likewise.
    :param keys: see :func:`plan_rebuild`.
    :returns: the days, the claims of rows that are now judged differently, and the number of these rows.
    """
    source = contract.dataset
    existing = key_log.days(settings, source) | _days_of_silver(settings, source)
    in_range = {day for day in existing if (first is None or first <= day) and (last is None or day <= last)}
    if keys is not None:
        in_range &= set(pc.unique(_claims_about(settings, source, ["event_date"], keys)["event_date"]).to_pylist())
    otherwise = _judged_otherwise(settings, contract, session, in_range, keys)
    judged = pc.sum(pc.not_equal(otherwise["kind"], "retire")).as_py() or 0
    if not len(otherwise):
        return in_range, otherwise, judged
    changed_keys = pc.unique(otherwise["record_key"])
    row_days = set(pc.unique(otherwise["event_date"].drop_null()).to_pylist())
    return in_range | claims.affected_event_days(settings, contract, row_days, changed_keys), otherwise, judged


def _unfinished_repeats(settings: Settings, entry: RebuildRequest) -> list[RebuildRequest]:
    """The records of the same request that cover its days and still have pending days."""
    waiting = applied_inputs.pending_manual_inputs(settings, entry.source)
    unfinished: set[str] = set().union(*waiting.values())
    return [
        request
        for request in rebuild_requests.all_of(settings, entry.source)
        if request.identity == entry.identity
        and request.operation_id in unfinished
        and set(entry.touched_days) <= set(request.touched_days)
    ]


def _judged_otherwise(
    settings: Settings, contract: SourceContract, session: Callable[[], SparkSession], days: set[date], keys: pa.Array | None
) -> pa.Table:
    """The claims of rows on ``days`` whose judgement has changed, as the key log should hold them.

    :param keys: only the claims about these keys; None for all.
    """
    columns = ["ingestion_id", "line_number", "arrival_date", "kind", *key_log.JUDGED]
    path, options = locations.key_log(settings, contract.dataset), settings.storage_options
    if days and keys is not None:
        about = _claims_about(settings, contract.dataset, [*columns, "event_date"], keys)
        log = table_io.meeting(about, {"event_date": days}).select(columns)
    else:
        log = table_io.read(path, columns, {"event_date": days}, options) if days else None
    if log is None or not len(log):
        return key_log.SCHEMA.empty_table()
    where = {name: pc.unique(log[name]).to_pylist() for name in ("arrival_date", "ingestion_id")}
    judged = pa.concat_tables(map(key_log.claims, row_rules.judged(settings, contract, session, where)))
    return judgement_history.judged_otherwise(log, judged)


def _claims_about(settings: Settings, source: str, columns: Sequence[str], keys: pa.Array) -> pa.Table:
    found = key_log.about(settings, source, columns, keys)
    return key_log.SCHEMA.empty_table().select(columns) if found is None else found


def _days_of_silver(settings: Settings, source: str) -> set[date]:
    """The event days for which silver has files."""
    rows = table_io.read(locations.silver(settings, source), ["event_date"], None, settings.storage_options)
    return set() if rows is None else set(pc.unique(rows["event_date"]).to_pylist())
