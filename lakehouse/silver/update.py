"""Updates silver days: by a merge of pending ingestions where possible, else by a rebuild from Bronze.

The choice between the two, the retries and the record of applied inputs belong here. The rows are computed in ``merge``, their
audit in ``audit``.

An update refuses to run where silver contains inputs that are recorded nowhere any more, because a table was restored or has lost
its newest commit. Without the record of a decision, a redaction or a reading, the next rebuild would take it back; without that
of a file, numbers would not name it among their inputs. A record that was lost before silver applied it cannot be distinguished
from one that never existed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_fixed

from lakehouse import locations
from lakehouse.delta import change_feed, commit_log, layout, partition_writer, provenance
from lakehouse.delta.columns import bronze_columns, silver_columns
from lakehouse.dimensions import fact_index, interval_table
from lakehouse.dispositions import account_tables, readings
from lakehouse.dispositions.readings import READING_ID
from lakehouse.dispositions.reprocess_policy import policy_of
from lakehouse.errors import LakehouseError
from lakehouse.lake import table_io
from lakehouse.lake.table_cache import look_again
from lakehouse.late_events import follow as late_events
from lakehouse.ledger import applied_inputs, decisions, ingestions, key_log, rebuild_requests, redactions
from lakehouse.ledger.ids import InputKind, is_manual_input, is_redelivery
from lakehouse.silver import audit, audit_log, local_merge
from lakehouse.silver import merge as silver_merge
from lakehouse.spark import commits as spark_commits
from lakehouse.spark.session import sized_for
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Collection, Mapping
    from datetime import date

    from pyspark.sql import SparkSession

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake


@dataclass(frozen=True)
class SilverUpdate:
    """The result of a run on silver: the days merged, the days rebuilt, and the key changes on each day whose content changed.

    ``keys`` are the keys of the merged ingestions; None if there are many, or days were rebuilt: then any key may have changed.
    """

    merged: frozenset[date]
    rebuilt: frozenset[date]
    changes: dict[date, Counter[str]]
    version: int
    keys: pa.Array | None


@dataclass(frozen=True)
class UpdatePlan:
    """What the plan of a run, if it has one, says of the update.

    :param because: the ``backfill`` plan of the run, its ``reason``, and its author ``by``; recorded in the commits and in the
        audit.
    :param in_one_commit: if any of the days has to be rebuilt, rebuild all, so that readers see the days change together.
    """

    because: Mapping[str, str] = field(default_factory=dict)
    in_one_commit: bool = False


def update(
    lake: Lake,
    contract: SourceContract,
    session: Callable[[], SparkSession],
    days: Collection[date],
    run_id: str,
    metrics: Collection[MetricContract] = (),
    plan: UpdatePlan = UpdatePlan(),
) -> SilverUpdate:
    """Update ``days`` and audit the changes; merging and rebuilding give the same rows (R3), merging is cheaper.

    Under ``append`` a further table keeps the newest row of each key and is updated first: inputs are recorded as applied when
    both tables contain them. If it has yet to be built, it is built from Bronze, and all days that wait are updated.

    :param metrics: the metrics that read the source; the audit records which of their numbers a change may affect.
    :raises IncompleteKeyLogError: when the operational tables were lost and Bronze has to be run again first.
    :raises LostRowsError: when Bronze lacks rows of files that were ingested.
    :raises LostRecordsError: when inputs that silver contains are recorded nowhere any more.
    """
    lake = lake.cached()
    source = contract.dataset
    target = locations.silver(lake, source)
    _ensure_tables(session, lake, contract)
    for table in contract.silver_tables:
        _make_up_for_lost_commits(lake, table)
    ingestions.require_no_lost_rows(lake, source)
    require_no_lost_records(lake, source)
    account_tables.restore(lake, contract)
    pending = applied_inputs.pending(lake, source)
    newest_tables = contract.silver_tables[1:]
    builds = bool(newest_tables) and applied_inputs.lacks_newest(lake, source)
    days = {*days, *pending} if builds else set(days)
    waiting = {day: ids for day, ids in pending.items() if day in days}
    merged = _mergeable(contract, waiting)
    if plan.in_one_commit and merged != frozenset(days):
        merged = frozenset()
    rebuilt = frozenset(days) - merged
    before = target.version()
    if before > 0 and not applied_inputs.has_any(lake, source):
        _check_key_log(lake, source)  # the record of silver's inputs is lost: merging some of them would undo the others
    run = {"run_id": run_id, **plan.because}
    for newest in newest_tables:
        _update_newest(lake, newest, session, days, waiting, run, builds=builds)
    if merged:
        ids = set().union(*(waiting[day] for day in merged))
        _merge(lake, contract, session, merged, ids, run)
        _follow(lake, contract, metrics, merged, ids, "merge", run_id)
    if rebuilt and locations.bronze(lake, source).version() >= 0:
        ids = set().union(*(waiting.get(day, set()) for day in rebuilt))
        concerned = _with_rows(lake, contract, rebuilt, waiting)
        if concerned:
            _rebuild(lake, contract, session, concerned, ids, run)
        _follow(lake, contract, metrics, rebuilt, ids, "rebuild", run_id)
    fact_index.follow(lake, metrics)
    silver = target.open()
    after = before if silver is None else silver.version()
    changed = {} if silver is None else change_feed.describe(silver, before + 1, after)
    keys = None if rebuilt else _few_keys(lake, source, set().union(*(waiting[day] for day in merged)))
    return SilverUpdate(merged, rebuilt, {day: what for day, what in changed.items() if day in days}, after, keys)


def _make_up_for_lost_commits(lake: Lake, contract: SourceContract) -> None:
    """Give a silver table another lineage if it has lost commits: their inputs wait again, and its followers start over."""
    source, stored = contract.dataset, locations.silver_of(lake, contract)
    is_main = stored == locations.silver(lake, source)
    lost = applied_inputs.lost_versions(lake, source, None if is_main else stored)
    if lost is None:
        return
    silver = commit_log.close_gap(stored, lost.followed, lost.kept)
    if silver is not None and is_main:  # what it holds was audited when it came
        identity = commit_log.identity(silver)
        audit_log.append(lake, source, identity, silver.version(), audit_log.SCHEMA.empty_table())


def _mergeable(contract: SourceContract, waiting: Mapping[date, Collection[str]]) -> frozenset[date]:
    """The days whose pending inputs are merged; a day with a manual input is not: it may remove a row that MERGE would keep."""
    if not policy_of(contract).merges_pending:
        return frozenset()
    return frozenset(day for day, ids in waiting.items() if not any(map(is_manual_input, ids)))


def _with_rows(
    lake: Lake, contract: SourceContract, days: Collection[date], waiting: Mapping[date, Collection[str]]
) -> frozenset[date]:
    """The days without those that wait only for files without rows on them, where no key contends with another row."""
    if policy_of(contract).keys_contend:
        return frozenset(days)
    known = ingestions.inputs(ingestions.all_of(lake, contract.dataset))
    brings = {day for day, ids in waiting.items() if any(one not in known or known[one].rows_by_day.get(day) for one in ids)}
    return frozenset(days) - (waiting.keys() - brings)


def _update_newest(
    lake: Lake,
    newest: SourceContract,
    session: Callable[[], SparkSession],
    days: set[date],
    waiting: Mapping[date, Collection[str]],
    run: Mapping[str, str],
    *,
    builds: bool,
) -> None:
    """Update the newest row of each key.

    :param newest: the contract of the table.
    :param builds: whether the table is built from Bronze, for all days.
    """
    merged = _mergeable(newest, {} if builds else waiting)
    rebuilt = frozenset(days | key_log.days(lake, newest.dataset) if builds else days) - merged
    if merged:
        _merge(lake, newest, session, merged, set().union(*(waiting[day] for day in merged)), run)
    if rebuilt and locations.bronze(lake, newest.dataset).version() >= 0:
        _rebuild(lake, newest, session, rebuilt, set().union(*(waiting.get(day, ()) for day in rebuilt)), run)
    table = locations.silver_of(lake, newest).open()
    is_empty = table is not None and not table_io.rows_at_most(table, {})
    if table is not None and is_empty and table.transaction_version(applied_inputs.BUILT_EMPTY) is None:
        partition_writer.commit_without_rows(table, why=run, transaction=(applied_inputs.BUILT_EMPTY, 1))


def _ensure_tables(session: Callable[[], SparkSession], lake: Lake, contract: SourceContract) -> None:
    """Create silver's tables if they do not exist; add columns that are new in the contract to silver and Bronze.

    :raises SchemaChangeError: when a column has different types in the contract and in the table.
    """
    spark_commits.add_missing_columns(session, locations.bronze(lake, contract.dataset), bronze_columns(contract))
    for stored in (locations.silver_of(lake, table) for table in contract.silver_tables):
        spark_commits.add_missing_columns(session, stored, silver_columns(contract))
        spark_commits.table_of(stored, silver_columns(contract), *layout.of_silver(lake))


@spark_commits.recomputed_on_conflict
def _merge(
    lake: Lake,
    contract: SourceContract,
    session: Callable[[], SparkSession],
    days: frozenset[date],
    ids: set[str],
    run: Mapping[str, str],
) -> None:
    """Merge ingestions into days: in this process where few rows are concerned, else by Spark."""
    source = contract.dataset
    contents = _contents(lake, source, ids)
    arrivals = {entry.arrival_date for entry in contents.values()}
    arrivals |= key_log.retired_arrival_days(lake, source, set(contents))
    why = {**run, "method": "merge", commit_log.DAYS: _iso(days), "ingestions": sorted(ids), **provenance.stamp(contract)}
    if local_merge.merge(lake, contract, days, contents, arrivals, why):
        return
    with sized_for(session(), lake, many=True):
        silver_merge.merge(session(), lake, contract, days, contents, arrivals, why)


@spark_commits.recomputed_on_conflict
def _rebuild(
    lake: Lake,
    contract: SourceContract,
    session: Callable[[], SparkSession],
    days: frozenset[date],
    ids: set[str],
    run: Mapping[str, str],
) -> None:
    _check_key_log(lake, contract.dataset)
    known = ingestions.ingested(ingestions.all_of(lake, contract.dataset))
    why = {**run, "method": "rebuild", commit_log.DAYS: _iso(days), "ingestions": sorted(ids), **provenance.stamp(contract)}
    asked = [entry for entry in rebuild_requests.all_of(lake, contract.dataset) if entry.operation_id in ids]
    if asked:
        why |= {"operation": asked[-1].operation, "reason": asked[-1].reason, "by": asked[-1].runner_id}
    rows_of_days = silver_merge.rows_by_day(known, days)
    if sum(rows_of_days.values()) <= lake.settings.local_rows and local_merge.rebuild(lake, contract, days, why):
        return
    with sized_for(session(), lake, many=sum(entry.rows for entry in known.values()) > lake.settings.held_rows):
        silver_merge.rebuild(session(), lake, contract, days, why, rows_of_days=rows_of_days)


def _follow(
    lake: Lake,
    contract: SourceContract,
    metrics: Collection[MetricContract],
    days: frozenset[date],
    ids: set[str],
    method: str,
    run_id: str,
) -> None:
    """Bring the files into shape, audit the commit, update the intervals, then record the inputs of the commit as applied.

    If the process stops in between, the inputs are still waiting, and the repeated run completes the work.
    """
    for table in contract.silver_tables:
        layout.keep(lake, locations.silver_of(lake, table), alone=True)  # before the followers, which then have its commit
    audit.follow(lake, contract, metrics)
    late_events.follow(lake, contract, metrics)
    interval_table.follow(lake, contract)
    if not ids:
        return
    applied_inputs.record(
        lake,
        contract.dataset,
        run_id=run_id,
        days=days,
        ingestion_ids=ids,
        method=method,
        derived=[
            *account_tables.both(lake, contract.dataset),
            locations.late_rows(lake, contract.dataset),
            *(locations.silver_of(lake, table) for table in contract.silver_tables[1:]),
        ],
    )


def _few_keys(lake: Lake, source: str, ids: set[str]) -> pa.Array | None:
    """The keys of the ingestions; None if there are many."""
    contents = _contents(lake, source, ids)
    if sum(entry.rows for entry in contents.values()) > key_log.FEW_KEYS:
        return None
    return key_log.keys_and_days(lake, source, contents, {entry.arrival_date for entry in contents.values()})[0]


def _contents(lake: Lake, source: str, ids: set[str]) -> dict[str, ingestions.Ingestion]:
    """The ingestions whose rows the inputs bring, by their ids: for content that was delivered again, its first ingestion."""
    entries = ingestions.all_of(lake, source)
    known, first = ingestions.inputs(entries), ingestions.ingested(entries)
    return {known[one].ingestion_id: first[known[one].ingestion_id] for one in ids}


@retry(
    retry=retry_if_exception_type(key_log.IncompleteKeyLogError),
    stop=stop_after_attempt(3),
    wait=wait_fixed(1),
    before_sleep=lambda _: look_again(),
    reraise=True,
)
def _check_key_log(lake: Lake, source: str) -> None:
    """Check that the operational tables cover Bronze; retried, because a run of bronze may complete meanwhile.

    :raises IncompleteKeyLogError: when Bronze holds well-formed rows that are missing from the ledger or the key log.
    """
    table = locations.bronze(lake, source).open()
    log = locations.key_log(lake, source).open()
    known = ingestions.ingested(ingestions.all_of(lake, source))
    read = sum(entry.rows for entry in known.values())
    malformed = sum(entry.malformed for entry in known.values())
    malformed += sum(entry.malformed_more for entry in rebuild_requests.all_of(lake, source))
    claims = 0 if log is None else table_io.rows_at_most(log, {})
    if table is None or (table_io.rows_at_most(table, {}) == read and claims >= read - malformed):
        return  # counted from Delta's logs, so that the rebuild of a day does not read all of Bronze
    held = readings.read(lake, source, ["ingestion_id", "arrival_date", "malformed_reason"])
    if held is None:
        return
    sound = held.filter(pc.is_null(held["malformed_reason"])).group_by(["ingestion_id", "arrival_date"]).aggregate([])
    logged = set() if log is None else set(table_io.read_version(log, ["ingestion_id"])["ingestion_id"].to_pylist())
    covered = pa.array(sorted(logged & known.keys()), pa.string())
    missing = sound.filter(pc.invert(pc.is_in(sound["ingestion_id"], covered)))["arrival_date"].to_pylist()
    if missing:
        msg = (
            f"the operational tables of {source} do not cover Bronze (arrival days {min(missing)} to {max(missing)}): "
            f"materialize bronze/{source} for these days, then silver again"
        )
        raise key_log.IncompleteKeyLogError(msg)


def _iso(days: Collection[date]) -> list[str]:
    return [day.isoformat() for day in sorted(days)]


_SHOWN = 3


class LostRecordsError(LakehouseError):
    """Silver contains inputs that are recorded nowhere any more. The message names the table and what to do."""


def lost_files(lake: Lake, source: str) -> dict[str, date]:
    """The files that silver contains and the ledger does not know, by name, with their arrival days."""
    known = ingestions.ingested(ingestions.all_of(lake, source))
    lost = {
        each
        for each in applied_inputs.every_input(lake, source)
        if not (is_manual_input(each) or is_redelivery(each) or each in known)
    }
    bronze = locations.bronze(lake, source).open() if lost else None
    if bronze is None:
        return {}
    rows = table_io.distinct_of_version(bronze, ["ingestion_id", "source_file", "arrival_date"], {"ingestion_id": lost})
    return {row["source_file"]: row["arrival_date"] for row in rows.to_pylist()}


def require_no_lost_records(lake: Lake, source: str) -> None:
    """Refuse to compute silver while inputs that it contains are recorded nowhere.

    :raises LostRecordsError: naming the table.
    """
    if files := lost_files(lake, source):
        days = join_limited([f"{day}" for day in sorted({*files.values()})], _SHOWN)
        msg = (
            f"ops/ingestions has lost the entries of {len(files):,} files whose rows silver/{source} contains "
            f"({join_limited(sorted(files), _SHOWN)}): put them into landing as they were and run "
            f"'lakehouse replay {source}' (arrival days {days}), which records them again, or restore a newer copy of the table"
        )
        raise LostRecordsError(msg)
    manual = {each for each in applied_inputs.every_input(lake, source) if is_manual_input(each)}
    if not manual:
        return
    again = "give them again with the same words, or restore a newer copy of the table"
    for kind, known, table in (
        (InputKind.DECISION, decisions.touched(lake, source), f"bronze/{source}_decisions"),
        (InputKind.REDACTION, redactions.touched(lake, source), f"bronze/{source}_redactions"),
    ):
        if lost := {each for each in manual if kind.is_kind_of(each)} - known.keys():
            msg = f"{table} has lost {len(lost):,} {kind.value}s that silver/{source} contains: {again}"
            raise LostRecordsError(msg)
    requests = {each for each in manual if InputKind.REBUILD_REQUEST.is_kind_of(each)}
    unknown = requests - rebuild_requests.touched(lake, source).keys()
    if lost := unknown and unknown & _readings(lake, source):
        msg = (
            f"ops/operations has lost {len(lost):,} readings that silver/{source} contains: restore a newer copy, or "
            f"run 'lakehouse source reparse {source} --by NAME --reason WHY --now' again with the same words"
        )
        raise LostRecordsError(msg)


def _readings(lake: Lake, source: str) -> set[str]:
    """The readings whose rows were written, in force or not. A request that only rebuilds days may be lost: nothing follows."""
    rows = locations.readings(lake, source).distinct([READING_ID], None)
    return set() if rows is None else {*rows[READING_ID].to_pylist()}
