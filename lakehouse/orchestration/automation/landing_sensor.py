"""The sensors of arrivals: for stable files in landing, for waiting messages, and for arrivals that Silver has not applied.

They read with delta-rs and start no JVM; their cursors are described in ``automation.looks``. Which files may be
ingested is determined in ``bronze.pending_files``.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import dagster as dg

from lakehouse import locations
from lakehouse.bronze import landing as bronze_landing
from lakehouse.bronze import pending_files
from lakehouse.calendar.days import business_day_of
from lakehouse.errors import LakehouseError
from lakehouse.lateness import missing_inputs
from lakehouse.ledger import applied_inputs
from lakehouse.orchestration import plan_runs, run_events
from lakehouse.orchestration.assets.source_assets import keys
from lakehouse.orchestration.automation import looks
from lakehouse.orchestration.automation.ready import LARGE, Ready, tables_of_source, tag_of
from lakehouse.orchestration.dagster_internals import BulkActionsFilter, BulkActionStatus
from lakehouse.orchestration.run_events import table_of
from lakehouse.streams import status
from lakehouse.streams.client import StreamProblem
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import date

    from pyarrow.fs import FileInfo

    from lakehouse.bronze.pending_files import IngestRequest
    from lakehouse.contracts import Catalog, SourceContract
    from lakehouse.contracts.inputs import KafkaTopic
    from lakehouse.lake import Lake
    from lakehouse.ledger.ingestions import Ingestion
    from lakehouse.streams.status import TopicStatus

_SHOWN = 5
#: A run takes at most so many files of a source at once.
_FILES = 500
#: About the size of a message, to tell whether many wait.
_BYTES_A_MESSAGE = 200
#: Set on runs for new files: the source, first arrival day and its files' state.
LANDS_TAG = "lakehouse/lands"
#: Set on runs for arrivals that Silver has not applied: the source and ingestions.
RECONCILES_TAG = "lakehouse/reconciles"


def kinds(lake: Lake, catalog: Catalog) -> list[looks.LookKind]:
    """The kinds ``landing`` and ``reconcile``, each with a look for each source."""
    contracts, seconds = list(catalog.sources.values()), lake.tick_seconds
    landing = [
        _stream(catalog, contract, contract.source.kafka) if contract.source.kafka else _landing(catalog, contract)
        for contract in contracts
    ]
    reconcile = [_reconciling(catalog, contract) for contract in contracts]
    again = "Event days that wait for silver with no run in progress start it."
    return [
        looks.LookKind(
            "landing", "New or changed files, and new messages, start bronze and what follows from it.", landing, seconds
        ),
        looks.LookKind("reconcile", again, reconcile, max(60, seconds)),
    ]


def _landing(catalog: Catalog, contract: SourceContract) -> looks.Look:
    """Runs bronze for arrival days with new or changed files that are stable and may be ingested, and what follows from them."""
    source, nothing = contract.dataset, "no new file"
    key, _, _ = keys(source)

    def take(context: looks.LookContext, lake: Lake) -> Iterator[looks.Answer]:
        now = datetime.now(timezone.utc)
        infos = listed(lake, contract)
        files = bronze_landing.state_of(infos)
        state, is_idle = context.newest(lambda: looks.state_of(lake, [locations.ingestions(lake)], [contract], files))
        if is_idle:
            because = context.reason_at(state)
            context.keep(looks.Cursor(state, because))
            yield dg.SkipReason(because or nothing)
            return
        scan = pending_files.scan_landing(
            lake, contract, bronze_landing.listing(lake, contract, infos), context.before.seen, now, catalog.sources.values()
        )
        missing_inputs.record(lake, source, "unfinished_day", scan.unfinished)
        reasons = list(scan.remarks)
        if scan.unsettled:
            reasons.append(f"not stable yet: {join_limited(scan.unsettled, _SHOWN, ' files')}")
        if scan.is_idle:
            missing_inputs.record(lake, source, "failed_ingestion", {})
            because = join_limited(reasons, _SHOWN, " remarks") or nothing
            context.keep(looks.Cursor(state, because))
            yield dg.SkipReason(because)
            return
        context.keep(looks.Cursor(seen=scan.observations))
        causes = {request_spec.cause: day for day, request_spec in scan.requests.items()}
        known = {request_spec.cause for request_spec in scan.requests.values() if request_spec.known}
        planned = plan_runs.plan_run_requests(context.instance, tag_of(LANDS_TAG, source), list(causes), known, key)
        given_up = {
            causes[cause]: f"{plan_runs.ATTEMPTS} runs failed to ingest files of {causes[cause]}" for cause in planned.given_up
        }
        missing_inputs.record(lake, source, "failed_ingestion", given_up)
        is_suspect = lake.settings.shared_runs and bool(scan.requests) and key in context.suspects()
        work = _of_files(lake, catalog, contract, scan.requests, planned, is_suspect=is_suspect)
        yield from _work_or_reasons(context, work, reasons + _why_not(planned, causes, "ingest the files of"))

    return looks.Look(f"landing_{source}", table_of(key), f"source/{source}", nothing, take, [source])


def _of_files(
    lake: Lake,
    catalog: Catalog,
    contract: SourceContract,
    requests: Mapping[date, IngestRequest],
    planned: plan_runs.RunRequestPlan,
    *,
    is_suspect: bool,
) -> list[Ready]:
    """Files to ingest: of a day that a run has tried, or else of all arrival days that no run has tried, as far as they are few.

    Where tables share no runs, each arrival day has a run of its own.

    :param is_suspect: whether Bronze failed not long ago: one day at a time then shows which one fails.
    """
    source = contract.dataset
    key, _, _ = keys(source)
    tables = tables_of_source(lake, catalog, source)

    def work(days: Sequence[date]) -> Ready:
        files = {name: state for day in days for name, state in requests[day].files.items()}
        cause, size = requests[days[0]].cause, sum(requests[day].bytes for day in days)
        return Ready(LANDS_TAG, source, cause, planned.attempts[cause], key, days, tables, files, size)

    wanted = [day for day, request in requests.items() if request.cause in planned.attempts]
    if not lake.settings.shared_runs:
        return [work([day]) for day in wanted]
    untried = [day for day in wanted if not planned.attempts[requests[day].cause]]
    tried = [day for day in wanted if planned.attempts[requests[day].cause]]
    days = tried[:1] or (untried[:1] if is_suspect else _few(untried, requests))
    return [work(days)] if days else []


def _few(days: Sequence[date], requests: Mapping[date, IngestRequest]) -> list[date]:
    """The first days, one at least, up to a number of files and of bytes: others are for the next run."""
    few: list[date] = []
    files = size = 0
    for day in days:
        files, size = files + len(requests[day].files), size + requests[day].bytes
        if few and (files > _FILES or size > LARGE):
            break
        few.append(day)
    return few


def _reconciling(catalog: Catalog, contract: SourceContract) -> looks.Look:
    """Runs silver for event days that wait for it without a run in progress.

    So a run killed between Bronze's commit and its events loses nothing (R11).
    """
    source, nothing = contract.dataset, "nothing waits for silver"
    bronze_key, arrivals_key, silver_key = keys(source)

    def take(context: looks.LookContext, lake: Lake) -> Iterator[looks.Answer]:
        read = [locations.ingestions(lake), locations.applied_inputs(lake)]
        state, is_idle = context.newest(lambda: looks.state_of(lake, read, [contract]))
        waiting = {} if is_idle else applied_inputs.pending_entries(lake, source)
        if not waiting:
            context.keep(looks.Cursor(state))
            yield dg.SkipReason(nothing)
            return
        if _is_run_active(context.instance, {bronze_key, silver_key}):
            yield dg.SkipReason(f"{len(waiting)} days wait for silver, and a run is in progress")
            return
        left_behind = _left_behind(context.instance, arrivals_key, waiting, timedelta(seconds=lake.settings.reconcile_seconds))
        if not left_behind:
            yield dg.SkipReason(f"{len(waiting)} days wait for silver, all were announced recently")
            return
        cause = f"{source}:{plan_runs.short_hash('|'.join(sorted(set().union(*left_behind.values()))))}"
        planned = plan_runs.plan_run_requests(context.instance, tag_of(RECONCILES_TAG, source), [cause], asset=silver_key)
        if not planned.attempts:
            shown = join_limited([f"{day}" for day in sorted(left_behind)], _SHOWN, " days")
            given_up = f"{plan_runs.ATTEMPTS} runs did not make silver follow the arrivals for {shown}"
            yield dg.SkipReason(f"{given_up}; see the newest one and start it again")
            return
        tables = {key: paused for key, paused in tables_of_source(lake, catalog, source).items() if key != bronze_key}
        days, attempt = sorted(left_behind), planned.attempts[cause]
        files = {entry.ingestion_id: entry.bytes for day in days for entry in waiting[day]}
        yield Ready(RECONCILES_TAG, source, cause, attempt, silver_key, days, tables, size=sum(files.values()))

    return looks.Look(f"reconcile_{source}", table_of(silver_key), f"source/{source}", nothing, take, [source])


#: How long a look waits for the list of a landing folder, in seconds: a folder of the network may hang for ever.
_LISTING_SECONDS = 5.0
#: The lists that were not complete when a look ended, by landing folder, with what they find. A later look takes it.
_listings: dict[str, tuple[threading.Thread, list[Any]]] = {}
#: The newest listing of all landing folders in an object store, with its time; it serves the sources of a tick.
_every_landing: dict[str, tuple[float, list[FileInfo]]] = {}
_TICK = 3.0


def listed(lake: Lake, contract: SourceContract) -> list[FileInfo]:
    """The files of a landing folder. In an object store a tick lists the folders of all sources at once.

    :raises HangingFolderError: if the list is not complete in time. A later call waits for the same list.
    """
    folder = f"{lake.landing_of(contract.dataset)}/{contract.source.landing}"
    if "://" not in folder:
        return _listed(folder, lambda: bronze_landing.list_landing(lake, contract))
    every = lake.settings.landing or f"{lake.root}/landing"
    listed_at, infos = _every_landing.get(every, (-math.inf, []))
    if time.monotonic() - listed_at > _TICK:
        began, infos = time.monotonic(), _listed(every, lambda: bronze_landing.list_every_landing(lake, contract))
        _every_landing[every] = (began, infos)
    return bronze_landing.below(lake, contract, infos)


def _listed(folder: str, list_files: Callable[[], Iterable[FileInfo]]) -> list[FileInfo]:
    answer: list[Any] = []

    def listing() -> None:
        try:
            answer.append(list(list_files()))
        except Exception as problem:  # noqa: BLE001 - raised again by the thread that waits
            answer.append(problem)

    if folder not in _listings:
        _listings[folder] = threading.Thread(target=listing, daemon=True), answer
        _listings[folder][0].start()
    thread, answered = _listings[folder]
    thread.join(_LISTING_SECONDS)
    if not answered:
        msg = f"the landing folder {folder} was not listed within {_LISTING_SECONDS:.0f} seconds; see whether it can be reached"
        raise HangingFolderError(msg)
    _listings.pop(folder, None)
    if isinstance(answered[0], Exception):
        raise answered[0]
    return list(answered[0])


class HangingFolderError(LakehouseError):
    """A landing folder does not answer."""


def _left_behind(
    instance: dg.DagsterInstance, arrivals: dg.AssetKey, waiting: Mapping[date, Sequence[Ingestion]], patience: timedelta
) -> dict[date, list[str]]:
    """The waiting event days that were not announced recently, each with the ingestions that wait.

    A shared run announces days that it takes to silver itself: they were left behind if it has ended.
    """
    announced = run_events.newest(instance, arrivals, [day.isoformat() for day in waiting])
    announced_by = sorted({announcement.run_id for announcement in announced.values()})
    runs = instance.get_runs(dg.RunsFilter(run_ids=announced_by)) if announced_by else []
    shared = {run.run_id for run in runs if run_events.is_shared(run)}
    recent = (datetime.now(timezone.utc) - patience).timestamp()
    left: dict[date, list[str]] = {}
    for event_day, entries in waiting.items():
        announcement = announced.get(event_day.isoformat())
        if announcement is None or announcement.timestamp < recent or announcement.run_id in shared:
            left[event_day] = [entry.ingestion_id for entry in entries]
    return left


def _why_not(planned: plan_runs.RunRequestPlan, days: Mapping[str, date], task: str) -> list[str]:
    """The reasons for not requesting runs.

    :param days: the arrival day of each cause.
    :param task: the task of the runs, as a verb that takes these days.
    """
    reasons = []
    if planned.on_their_way:
        reasons.append(f"runs for {_days(planned.on_their_way, days)} are in progress")
    if planned.given_up:
        reasons.append(
            f"{plan_runs.ATTEMPTS} runs did not {task} {_days(planned.given_up, days)}; see the newest one and start it again"
        )
    if planned.answered:
        reasons.append(f"files of {_days(planned.answered, days)} are held: see the check no_file_held")
    if planned.later:
        reasons.append(f"{planned.later} more arrival days wait until these have ended")
    return reasons


def _days(causes: Sequence[str], days: Mapping[str, date]) -> str:
    return join_limited([f"{days[cause]}" for cause in causes], _SHOWN, " days")


def _work_or_reasons(context: looks.LookContext, work: list[Ready], reasons: list[str]) -> Iterator[looks.Answer]:
    """Yield work, or one skip reason, because Dagster does not accept both: if there is work, the reasons are logged."""
    reason = join_limited(reasons, _SHOWN, " remarks")
    if not work:
        yield dg.SkipReason(reason)
        return
    if reason:
        context.tick.log.warning(reason)
    yield from work


def _is_run_active(instance: dg.DagsterInstance, assets: set[dg.AssetKey]) -> bool:
    """Whether a run or a backfill of one of the assets is in progress."""
    runs = instance.get_runs(dg.RunsFilter(statuses=plan_runs.RUNNING))
    if any(run.asset_selection is None or run.asset_selection & assets for run in runs):
        return True
    backfills = instance.get_backfills(BulkActionsFilter(statuses=[BulkActionStatus.REQUESTED]))
    return any(assets & set(backfill.asset_selection or []) for backfill in backfills)


#: Set on runs for waiting messages: the source and the offsets from which they wait.
WAITS_TAG = "lakehouse/waits"


def _stream(catalog: Catalog, contract: SourceContract, kafka: KafkaTopic) -> looks.Look:
    """Runs bronze when messages wait in the topic; one run ingests all of them."""
    source, nothing = contract.dataset, "no new message"
    key, _, _ = keys(source)

    def take(context: looks.LookContext, lake: Lake) -> Iterator[looks.Answer]:
        try:
            known = status.of_topic(lake, contract, kafka)
        except StreamProblem as problem:
            yield dg.SkipReason(f"{problem}")
            return
        today = business_day_of(lake.now(), ZoneInfo(contract.clocks.timezone))
        cause = _cause(lake, source, known)
        planned = plan_runs.plan_run_requests(context.instance, tag_of(WAITS_TAG, source), [cause] if cause else [], asset=key)
        given_up = {today: f"{plan_runs.ATTEMPTS} runs failed to take messages of {kafka.topic}"} if planned.given_up else {}
        missing_inputs.record(lake, source, "failed_ingestion", given_up)
        if cause in planned.attempts:
            yield Ready(
                WAITS_TAG,
                source,
                cause,
                planned.attempts[cause],
                key,
                [today],
                tables_of_source(lake, catalog, source),
                size=known.lag * _BYTES_A_MESSAGE,
            )
        elif planned.given_up:
            yield dg.SkipReason(f"{given_up[today]}; see the newest one and start it again")
        elif planned.on_their_way:
            yield dg.SkipReason(f"{known.lag:,} messages wait, and a run is in progress")
        else:
            gaps = sorted({entry.gap for entry in known.partitions if entry.gap})
            yield dg.SkipReason("; ".join(gaps) or nothing)

    return looks.Look(f"landing_{source}", table_of(key), f"source/{source}", nothing, take, [source])


def _cause(lake: Lake, source: str, known: TopicStatus) -> str:
    """The cause of a run: readable messages, or an unrecorded gap; empty without one."""
    recorded = {entry.text for entry in status.open_gaps(lake, source)}
    waiting = [entry for entry in known.partitions if (entry.gap not in recorded if entry.gap else entry.lag)]
    if not waiting:
        return ""
    places = "|".join(f"{entry.partition}@{entry.next_offset}{entry.gap or ''}" for entry in waiting)
    return f"{source}:{plan_runs.short_hash(f'{known.state.topic_id}|{places}')}"
