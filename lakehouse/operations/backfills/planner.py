"""Plans a backfill: its files and partitions, their present rows, and the numbers that it would restate.

The files are those in landing for a range of arrival days or event days, with a preview of each new file. The numbers are the
days of a metric, and the waves of days and roll-ups with their outcomes; ``impact.affected_periods`` determines the numbers that
a changed day affects. This module only reads. The plan itself is defined in ``plan``.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.bronze import landing as bronze_landing
from lakehouse.bronze import pending_files, reader
from lakehouse.contracts.series import days_reached, source_days
from lakehouse.delta import provenance
from lakehouse.dispositions import claims
from lakehouse.errors import LakehouseError
from lakehouse.gold.numbers import published_table, served_version
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.impact import affected_periods
from lakehouse.lake import table_parts
from lakehouse.ledger import applied_inputs, ingestions, key_log
from lakehouse.operations.backfills import entity_scope
from lakehouse.operations.backfills import plan as backfill_plan
from lakehouse.operations.backfills.plan import (
    BackfillPlan,
    Layer,
    PlannedFile,
    Wave,
    are_independent_arrivals,
    are_independent_numbers,
    cut_into_waves,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import date, datetime

    from lakehouse.bronze.file_completeness import ManifestEntry
    from lakehouse.bronze.landing import LandingFile
    from lakehouse.bronze.reader import Preview
    from lakehouse.contracts import Catalog, MetricContract, SourceContract
    from lakehouse.contracts.series import Series
    from lakehouse.impact.affected_periods import Affected
    from lakehouse.lake import Lake, Table
    from lakehouse.operations.backfills.plan import Clock, Order, WriteMode


@dataclass(frozen=True)
class CurrentFiles:
    """The files of a plan.

    :param previews: the previews of new files, by name.
    :param problems: the reasons for leaving out other files, as sentences.
    """

    planned: Sequence[PlannedFile]
    previews: Mapping[str, Preview]
    problems: Sequence[str]

    @property
    def in_bronze(self) -> set[str]:
        """The ids of the files that Bronze has."""
        return {file.ingestion_id for file in self.planned if file.known}


def current_files(
    lake: Lake,
    contract: SourceContract,
    request: BackfillRequest,
    metrics: Collection[MetricContract],
    progress: Callable[[int, int], None] = lambda _done, _of: None,
) -> CurrentFiles:
    """The files in landing of the arrival days in the range, or of the arrival days that bring rows of its event days.

    A file that Bronze has ingested in its present state (name, size and time) is not read again. A file that waits for other
    files of its day is left out. An arrival day is ingested as a whole, so all of its files belong to the plan.

    :param metrics: the metrics of the source, in which rows may come too late to count.
    :param progress: called with the number of files read so far and the number of all files.
    """
    first, last, clock = request.first_day, request.last_day, request.clock
    listing = bronze_landing.listing(lake, contract)
    log = ingestions.all_of(lake, contract.dataset)
    by_identity = {entry.identity: entry for entry in log if entry.is_in_bronze}
    recorded = ingestions.ingested(log)
    rows_of = {ingestion_id: entry.rows for ingestion_id, entry in recorded.items()}
    ready_files: list[LandingFile] = []
    problems = list(listing.complaints)
    for day, of_day in groupby(listing.files, lambda file: file.arrival_date):
        files = list(of_day)
        new = [file for file in files if file.identity not in by_identity]
        if first <= day <= last if clock == "arrival" else new:
            ready = pending_files.check_readiness(lake, contract, day, new, listing.completion_markers.get(day, []), log)
            waiting = set(new).difference(ready.files)
            ready_files += [file for file in files if file not in waiting]
            problems += ready.waiting
        elif clock == "event":
            ready_files += files
    planned: list[PlannedFile] = []
    previews: dict[str, Preview] = {}
    days_of: dict[str, Collection[date]] = {
        ingestion_id: [day for day, rows in entry.rows_by_day.items() if rows] for ingestion_id, entry in recorded.items()
    }
    for number, file in enumerate(ready_files, start=1):
        entry = by_identity.get(file.identity)
        if entry is not None:
            planned.append(_planned(file, rows_of.get(entry.ingestion_id, entry.rows), entry.content_hash, known=True))
        else:
            fingerprint = bronze_landing.fingerprint(lake, contract, file)
            if fingerprint.problem:
                problems.append(f"{file.name}: {fingerprint.problem}; it would be held")
            elif fingerprint.ingestion_id in rows_of:
                planned.append(_planned(file, rows_of[fingerprint.ingestion_id], fingerprint.content_hash, known=True))
            else:
                admits = request.admit_history
                content = reader.preview_file(lake, contract, file, fingerprint, admit_history=admits, metrics=metrics)
                previews[file.name], days_of[fingerprint.ingestion_id] = content, content.event_days
                rows = rows_of[fingerprint.ingestion_id] = sum(content.rows.values()) + sum(content.out.values())
                made = _planned(file, rows, fingerprint.content_hash, known=False)
                planned.append(made.model_copy(update={"beyond": content.beyond, "behind": content.behind}))
        progress(number, len(ready_files))
    held = entity_scope.held_rows_of_files(lake, contract.dataset, {file.ingestion_id for file in planned if file.known})
    if clock == "event":
        for row in held.group_by(["ingestion_id", "event_date"]).aggregate([]).to_pylist():
            days_of[row["ingestion_id"]] = {*days_of.get(row["ingestion_id"], ()), row["event_date"]}
        problems += _unplaced(previews, planned, days_of, first, last)
        chosen = {file.arrival_date for file in planned if _within(days_of.get(file.ingestion_id, ()), first, last)}
        planned = [file for file in planned if file.arrival_date in chosen]
        previews = {file.file: previews[file.file] for file in planned if file.file in previews}
    return CurrentFiles(_with_held(planned, held), previews, problems)


def _within(days: Iterable[date], first: date, last: date) -> bool:
    return any(first <= day <= last for day in days)


def _unplaced(
    previews: Mapping[str, Preview],
    files: Sequence[PlannedFile],
    days_of: Mapping[str, Collection[date]],
    first: date,
    last: date,
) -> Iterator[str]:
    """The sentences about new files that a plan of event days leaves out."""
    for name, content in previews.items():
        if not content.event_days:
            yield f"{name}: no row has an event day; plan it by its arrival day, with --arrival-from and --arrival-through"
    arrived = [file for file in files if not file.known and _within([file.arrival_date], first, last)]
    if arrived and not any(_within(days_of.get(file.ingestion_id, ()), first, last) for file in files):
        yield (
            f"no file has rows of these event days; {len(arrived):,} new files arrived on these days: --arrival-from and "
            "--arrival-through select them"
        )


def _with_held(planned: Sequence[PlannedFile], held: pa.Table) -> list[PlannedFile]:
    """The files; those in Bronze with the number of their rows that the cutoff holds."""
    counted = held.group_by("ingestion_id").aggregate([([], "count_all")])
    counts = dict(zip(counted["ingestion_id"].to_pylist(), counted["count_all"].to_pylist()))
    return [file.model_copy(update={"beyond": counts.pop(file.ingestion_id, 0)}) if file.known else file for file in planned]


def _planned(file: LandingFile, rows: int, content_hash: str, *, known: bool) -> PlannedFile:
    return PlannedFile(
        file=file.name,
        arrival_date=file.arrival_date,
        bytes=file.size,
        rows=rows,
        sha256=content_hash,
        known=known,
    )


def behind_source(lake: Lake, catalog: Catalog, source: str, days: Collection[date]) -> tuple[list[Wave], list[str]]:
    """The numbers that follow the event days ``days`` of a source, and their consumers."""
    consumers: list[str] = []
    gold: list[Wave] = []
    rollups: list[Wave] = []
    for metric in catalog.metrics_of(source):
        daily = served_version.daily(lake, catalog, metric)
        pending = find_pending(lake, daily)  # earlier changes of silver are followed, too; all days if the feed is gone
        changed = sorted({*days, *(pending.causes or pending.starts)})
        affected = affected_periods.affected(lake, daily, changed)
        gold += waves_of_series(affected, Layer.GOLD, [daily])
        rollups += waves_of_series(affected, Layer.ROLLUPS, daily.rollups)
        consumers += metric.consumers
    return [*gold, *rollups], list(dict.fromkeys(consumers))


def days_of_metric(lake: Lake, daily: Series, first: date, last: date) -> set[date]:
    """The days of a metric in a range: days with silver rows, and published days."""
    return {day for day in published_table.known_days(lake, daily) if first <= day <= last}


def waves_of_series(affected: Sequence[Affected], layer: Layer, every: Sequence[Series]) -> Iterable[Wave]:
    """A wave per series, with the outcomes of its numbers."""
    for series in every:
        periods = [
            period
            for period in affected
            if period.series == series.name and period.outcome is not affected_periods.ImpactOutcome.UNCHANGED
        ]
        if periods:
            starts = tuple(sorted(period.start for period in periods))
            yield Wave(layer=layer, table=f"gold/{series.name}", partitions=starts, outcomes=_outcomes(periods))


def waves_of_days(affected: Sequence[Affected], daily: Series, days: Collection[date]) -> Iterable[Wave]:
    """A wave with the days ``days`` of a series, in their order; none if no number is affected."""
    periods = [period for period in affected if period.series == daily.name and period.start in days]
    if periods:
        parallel = are_independent_numbers(daily.metric)
        yield Wave(
            layer=Layer.GOLD,
            table=f"gold/{daily.name}",
            partitions=tuple(days),
            outcomes=_outcomes(periods),
            parallel=parallel,
        )


def _outcomes(periods: Sequence[Affected]) -> dict[str, int]:
    counts = Counter(period.outcome.value for period in periods)
    counts |= {"final": sum(period.state == "final" for period in periods)}
    return {name: count for name, count in sorted(counts.items()) if count}


class PlanProblemError(LakehouseError):
    """A backfill that cannot be planned or must not start. The message states the reason and the remedy."""


@dataclass(frozen=True)
class BackfillRequest:
    """A request to recompute a range of days.

    :param clock: whether the days of a source are event days, or the arrival days of files.
    :param admit_history: whether rows that the cutoff would hold are admitted, as a decision by ``runner_id``.
    """

    target: str
    first_day: date
    last_day: date
    reason: str
    runner_id: str
    max_parallel: int = 2
    order: Order = "ascending"
    write_mode: WriteMode = "merge"
    wave_size: int = 100
    retries: int = 2
    where: str | None = None
    dataset_version: int | None = None
    promised: Sequence[ManifestEntry] = ()
    clock: Clock = "arrival"
    admit_history: bool = False


def plan(
    lake: Lake,
    catalog: Catalog,
    request: BackfillRequest,
    now: datetime,
    progress: Callable[[int, int], None] = lambda _done, _of: None,
) -> BackfillPlan:
    """Plan a requested backfill.

    :param progress: called with the number of files read so far and the number of all files.
    :raises PlanProblemError: if no contract describes the target, or files do not match the manifest.
    """
    scope = (
        _of_source(lake, catalog, request, progress) if request.target in catalog.sources else _of_metric(lake, catalog, request)
    )
    text = f"{request}{scope}{now.isoformat()}"
    plan_id = f"bf-{now:%Y%m%d}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"
    return BackfillPlan(
        plan_id=plan_id,
        target=request.target,
        source=scope.source,
        metric=scope.metric,
        first_day=request.first_day,
        last_day=request.last_day,
        clock=request.clock if scope.metric is None else "event",
        admit_history=request.admit_history,
        reason=f"{request.reason} (only {request.where})" if request.where else request.reason,
        runner_id=request.runner_id,
        max_parallel=request.max_parallel,
        order=request.order,
        write_mode=request.write_mode,
        wave_size=request.wave_size,
        retries=request.retries,
        where=request.where,
        rows_of_entity=scope.rows_of_entity,
        code_version=provenance.code(),
        contracts=provenance.of_contracts(catalog, scope.source),
        files=tuple(scope.files),
        waves=tuple(scope.waves),
        consumers=tuple(scope.consumers),
        notes=tuple(scope.notes),
        created_at=now,
    )


@dataclass(frozen=True)
class _Scope:
    """The parts of the plan that depend on the target."""

    source: str
    metric: str | None
    files: Sequence[PlannedFile]
    waves: Sequence[Wave]
    consumers: Sequence[str]
    notes: Sequence[str]
    rows_of_entity: int = 0


def _of_source(lake: Lake, catalog: Catalog, request: BackfillRequest, progress: Callable[[int, int], None]) -> _Scope:
    contract = catalog.sources[request.target]
    if request.dataset_version is not None:
        msg = f"--target-version is for a metric; {request.target} is a source: name one of its metrics instead"
        raise PlanProblemError(msg)
    if request.where is not None:
        return _of_entity(lake, catalog, contract, request)
    files = current_files(lake, contract, request, catalog.metrics_of(request.target), progress)
    _check_manifest(request.promised, files.planned, files.problems)
    days = _silver_days(lake, contract, request, files)
    waves = [*_bronze_waves(lake, contract, request, files.planned), *_silver_waves(lake, request, days)]
    numbers, consumers = behind_source(lake, catalog, request.target, days)
    return _Scope(request.target, None, files.planned, [*waves, *numbers], consumers, files.problems)


def _of_entity(lake: Lake, catalog: Catalog, contract: SourceContract, request: BackfillRequest) -> _Scope:
    """The rows of an entity in a source, and the event days on which it has rows; files in landing are left to other runs."""
    if request.write_mode != "overwrite" or request.promised or request.admit_history:
        msg = (
            "--where judges rows again that Bronze has: it needs '--write-mode overwrite', and takes no --manifest and no "
            "--admit-history"
        )
        raise PlanProblemError(msg)
    wanted = entity_scope.parse(contract, request.where or "")
    entity = entity_scope.of_source(lake, contract, wanted, request.first_day, request.last_day)
    numbers, consumers = behind_source(lake, catalog, request.target, entity.days)
    notes = [f"rows of {len(entity.keys):,} keys are judged again; they came on {len(entity.arrival_days):,} arrival days"]
    waves = [*_silver_waves(lake, request, entity.days), *numbers]
    return _Scope(request.target, None, (), waves, consumers, notes, entity.rows)


def _of_metric(lake: Lake, catalog: Catalog, request: BackfillRequest) -> _Scope:
    name = request.target if request.dataset_version in (None, 1) else f"{request.target}_v{request.dataset_version}"
    if name not in catalog.metrics:
        known = ", ".join(sorted([*catalog.sources, *catalog.metrics])) or "none"
        msg = f"no contract has 'dataset: {request.target}' or a metric called {name}; known are {known}"
        raise PlanProblemError(msg)
    if request.admit_history:
        msg = f"--admit-history admits rows of files, and {request.target} is a metric: plan a backfill of its source"
        raise PlanProblemError(msg)
    if request.promised:
        msg = f"a manifest lists files, and {request.target} is a metric: plan a backfill of its source"
        raise PlanProblemError(msg)
    metric = catalog.metrics[name]
    if metric.is_derived:
        made_of = ", ".join(metric.derived_from)
        msg = (
            f"{name} is made of {made_of}: plan a backfill of these or their sources, and it follows; after a change of its "
            f"logic materialize gold/{name}"
        )
        raise PlanProblemError(msg)
    if metric.sources and request.where is not None:
        msg = f"{name} reads several sources, and 'where' chooses rows of one: plan the range without it"
        raise PlanProblemError(msg)
    daily = served_version.daily(lake, catalog, metric)
    days = days_of_metric(lake, daily, request.first_day, request.last_day)
    rows_of_entity = 0
    if request.where is not None:
        wanted = entity_scope.parse(catalog.sources[metric.source], request.where)
        with_rows = entity_scope.days_in_silver(lake, metric.source, wanted, source_days(metric, days))
        days &= days_reached(metric, with_rows)
        rows_of_entity = sum(with_rows.values())
    affected = affected_periods.affected(lake, daily, days)
    planned = [period for period in affected if period.series != daily.name or period.start in days]
    parts = cut_into_waves(days, request.order, request.wave_size)
    waves = [wave for part in parts for wave in waves_of_days(planned, daily, part)]
    rollups = waves_of_series(planned, Layer.ROLLUPS, daily.rollups)
    return _Scope(metric.source, name, (), [*waves, *rollups], metric.consumers, (), rows_of_entity)


def _silver_days(lake: Lake, contract: SourceContract, request: BackfillRequest, files: CurrentFiles) -> set[date]:
    """The event days that silver would update.

    These are the days that new files touch, the days of Bronze rows that are admitted as history, pending days and, to overwrite,
    the whole range.
    """
    source = contract.dataset
    days = set(applied_inputs.pending(lake, source))
    held = entity_scope.held_rows_of_files(lake, source, files.in_bronze if request.admit_history else ())
    if files.previews or len(held):  # all at once: each lookup reads the key log
        touched = {day for preview in files.previews.values() for day in preview.rows} | set(held["event_date"].to_pylist())
        of_files = [preview.keys for preview in files.previews.values()]
        keys = pc.unique(pa.chunked_array([*of_files, *held["record_key"].chunks], pa.string()))
        days |= claims.affected_event_days(lake, contract, touched, keys)
    if request.write_mode == "overwrite":
        existing = key_log.days(lake, source) | published_table.days_held(locations.silver(lake, source))
        days |= {day for day in existing if request.first_day <= day <= request.last_day}
    return days


def _bronze_waves(lake: Lake, contract: SourceContract, request: BackfillRequest, files: Sequence[PlannedFile]) -> Iterable[Wave]:
    arrivals = {file.arrival_date for file in files if not file.known}
    rows_by_day = _rows_by_day(locations.bronze(lake, request.target))
    parallel = are_independent_arrivals(contract, files)
    for part in cut_into_waves(arrivals, request.order, request.wave_size):
        rows = sum(rows_by_day[day] for day in part)
        yield Wave(layer=Layer.BRONZE, table=f"bronze/{request.target}", partitions=tuple(part), rows=rows, parallel=parallel)


def _silver_waves(lake: Lake, request: BackfillRequest, days: Collection[date]) -> Iterable[Wave]:
    rows_by_day = _rows_by_day(locations.silver(lake, request.target))
    for part in cut_into_waves(days, request.order, request.wave_size):
        rows = sum(rows_by_day[day] for day in part)
        yield Wave(layer=Layer.SILVER, table=f"silver/{request.target}", partitions=tuple(part), rows=rows)


def _check_manifest(promised: Sequence[ManifestEntry], files: Sequence[PlannedFile], problems: Sequence[str]) -> None:
    differences = backfill_plan.differences(promised, files) if promised else []
    if differences:
        msg = "the files do not match the manifest:\n  " + "\n  ".join([*differences, *problems])
        raise PlanProblemError(msg)


def _rows_by_day(table: Table) -> Counter[date]:
    """The number of rows for each day of a table; empty without a table."""
    opened = table.open()
    return Counter({} if opened is None else table_parts.rows(opened))


def still_as_planned(lake: Lake, catalog: Catalog, planned: BackfillPlan) -> None:
    """Compare files, code and contracts with the plan, before any work starts.

    :raises PlanProblemError: if any has changed since planning; the message names each file and version.
    """
    changes = backfill_plan.moved_pins(
        planned.code_version, planned.contracts, provenance.code(), provenance.of_contracts(catalog, planned.source)
    )
    ingested = {entry.content_hash for entry in ingestions.ingested(ingestions.all_of(lake, planned.source)).values()}
    missing = [file for file in planned.new_files if file.sha256 not in ingested]
    if missing:
        contract = catalog.sources[planned.source]
        in_landing = {file.name: file for file in bronze_landing.landing_files(lake, contract)[0]}
        for file in missing:
            if file.file not in in_landing:
                changes.append(f"{file.file} is no longer in landing, and Bronze has not ingested it")
            elif bronze_landing.fingerprint(lake, contract, in_landing[file.file]).content_hash != file.sha256:
                changes.append(f"{file.file} has other content than when the plan was made")
    if changes:
        msg = f"{planned.plan_id} is out of date: " + "; ".join(changes) + "; make a new plan"
        raise PlanProblemError(msg)
