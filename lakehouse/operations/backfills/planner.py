"""Plans a backfill: its files and partitions, their present rows, and the numbers that it would restate.

This module only reads. The plan itself is defined in ``plan``; ``planned_files`` lists its files, and ``impact.affected_periods``
determines the numbers that a changed day affects.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.bronze import landing as bronze_landing
from lakehouse.contracts.series import days_reached, source_days
from lakehouse.delta import data_files, provenance, table_io
from lakehouse.dispositions import claims
from lakehouse.errors import LakehouseError
from lakehouse.gold.numbers import published_table, served_version
from lakehouse.impact import affected_periods
from lakehouse.ledger import applied_inputs, ingestions, key_log
from lakehouse.operations.backfills import entity_scope, held_history, planned_files, planned_numbers
from lakehouse.operations.backfills import plan as backfill_plan
from lakehouse.operations.backfills.plan import BackfillPlan, Layer, PlannedFile, Wave
from lakehouse.operations.backfills.waves import are_independent_arrivals, cut_into_waves

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from datetime import date, datetime

    from lakehouse.bronze.manifests import ManifestEntry
    from lakehouse.contracts import Catalog, SourceContract
    from lakehouse.operations.backfills.plan import Clock, Order, WriteMode
    from lakehouse.operations.backfills.planned_files import CurrentFiles
    from lakehouse.settings import Settings


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
    settings: Settings,
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
        _of_source(settings, catalog, request, progress)
        if request.target in catalog.sources
        else _of_metric(settings, catalog, request)
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


def _of_source(settings: Settings, catalog: Catalog, request: BackfillRequest, progress: Callable[[int, int], None]) -> _Scope:
    contract = catalog.sources[request.target]
    if request.dataset_version is not None:
        msg = f"--target-version is for a metric; {request.target} is a source: name one of its metrics instead"
        raise PlanProblemError(msg)
    if request.where is not None:
        return _of_entity(settings, catalog, contract, request)
    files = planned_files.current_files(
        settings,
        contract,
        request.first_day,
        request.last_day,
        request.clock,
        admit_history=request.admit_history,
        progress=progress,
    )
    _check_manifest(request.promised, files.planned, files.problems)
    days = _silver_days(settings, contract, request, files)
    waves = [*_bronze_waves(settings, contract, request, files.planned), *_silver_waves(settings, request, days)]
    numbers, consumers = planned_numbers.behind_source(settings, catalog, request.target, days)
    return _Scope(request.target, None, files.planned, [*waves, *numbers], consumers, files.problems)


def _of_entity(settings: Settings, catalog: Catalog, contract: SourceContract, request: BackfillRequest) -> _Scope:
    """The rows of an entity in a source, and the event days on which it has rows; files in landing are left to other runs."""
    if request.write_mode != "overwrite" or request.promised or request.admit_history:
        msg = (
            "--where judges rows again that Bronze has: it needs '--write-mode overwrite', and takes no --manifest and no "
            "--admit-history"
        )
        raise PlanProblemError(msg)
    wanted = entity_scope.parse(contract, request.where or "")
    entity = entity_scope.of_source(settings, contract, wanted, request.first_day, request.last_day)
    numbers, consumers = planned_numbers.behind_source(settings, catalog, request.target, entity.days)
    notes = [f"rows of {len(entity.keys):,} keys are judged again; they came on {len(entity.arrival_days):,} arrival days"]
    waves = [*_silver_waves(settings, request, entity.days), *numbers]
    return _Scope(request.target, None, (), waves, consumers, notes, entity.rows)


def _of_metric(settings: Settings, catalog: Catalog, request: BackfillRequest) -> _Scope:
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
    daily = served_version.daily(settings, catalog, metric)
    days = planned_numbers.days_of_metric(settings, daily, request.first_day, request.last_day)
    rows_of_entity = 0
    if request.where is not None:
        wanted = entity_scope.parse(catalog.sources[metric.source], request.where)
        with_rows = entity_scope.days_in_silver(settings, metric.source, wanted, source_days(metric, days))
        days &= days_reached(metric, with_rows)
        rows_of_entity = sum(with_rows.values())
    affected = affected_periods.affected(settings, daily, days)
    planned = [period for period in affected if period.series != daily.name or period.start in days]
    parts = cut_into_waves(days, request.order, request.wave_size)
    waves = [wave for part in parts for wave in planned_numbers.of_days(planned, daily, part)]
    rollups = planned_numbers.of_series(planned, Layer.ROLLUPS, daily.rollups)
    return _Scope(metric.source, name, (), [*waves, *rollups], metric.consumers, (), rows_of_entity)


def _silver_days(settings: Settings, contract: SourceContract, request: BackfillRequest, files: CurrentFiles) -> set[date]:
    """The event days that silver would update.

    These are the days that new files touch, the days of Bronze rows that are admitted as history, pending days and, to overwrite,
    the whole range.
    """
    source = contract.dataset
    days = set(applied_inputs.pending(settings, source))
    held = held_history.of_files(settings, source, files.in_bronze if request.admit_history else ())
    if files.previews or len(held):  # all at once: each lookup reads the key log
        touched = {day for preview in files.previews.values() for day in preview.rows} | set(held["event_date"].to_pylist())
        of_files = [preview.keys for preview in files.previews.values()]
        keys = pc.unique(pa.chunked_array([*of_files, *held["record_key"].chunks], pa.string()))
        days |= claims.affected_event_days(settings, contract, touched, keys)
    if request.write_mode == "overwrite":
        existing = key_log.days(settings, source) | published_table.partitions(
            settings, locations.silver(settings, source), "event_date"
        )
        days |= {day for day in existing if request.first_day <= day <= request.last_day}
    return days


def _bronze_waves(
    settings: Settings, contract: SourceContract, request: BackfillRequest, files: Sequence[PlannedFile]
) -> Iterable[Wave]:
    arrivals = {file.arrival_date for file in files if not file.known}
    rows_by_day = _rows_by_day(settings, locations.bronze(settings, request.target))
    parallel = are_independent_arrivals(contract, files)
    for part in cut_into_waves(arrivals, request.order, request.wave_size):
        rows = sum(rows_by_day[day] for day in part)
        yield Wave(layer=Layer.BRONZE, table=f"bronze/{request.target}", partitions=tuple(part), rows=rows, parallel=parallel)


def _silver_waves(settings: Settings, request: BackfillRequest, days: Collection[date]) -> Iterable[Wave]:
    rows_by_day = _rows_by_day(settings, locations.silver(settings, request.target))
    for part in cut_into_waves(days, request.order, request.wave_size):
        rows = sum(rows_by_day[day] for day in part)
        yield Wave(layer=Layer.SILVER, table=f"silver/{request.target}", partitions=tuple(part), rows=rows)


def _check_manifest(promised: Sequence[ManifestEntry], files: Sequence[PlannedFile], problems: Sequence[str]) -> None:
    differences = backfill_plan.differences(promised, files) if promised else []
    if differences:
        msg = "the files do not match the manifest:\n  " + "\n  ".join([*differences, *problems])
        raise PlanProblemError(msg)


def _rows_by_day(settings: Settings, path: str) -> Counter[date]:
    """The number of rows for each day of a table; empty without a table."""
    table = table_io.open_table(path, settings.storage_options)
    return Counter({} if table is None else data_files.rows_by_partition(table))


def still_as_planned(settings: Settings, catalog: Catalog, planned: BackfillPlan) -> None:
    """Compare files, code and contracts with the plan, before any work starts.

    :raises PlanProblemError: if any has changed since planning; the message names each file and version.
    """
    changes = backfill_plan.moved_pins(
        planned.code_version, planned.contracts, provenance.code(), provenance.of_contracts(catalog, planned.source)
    )
    ingested = {entry.content_hash for entry in ingestions.ingested(ingestions.all_of(settings, planned.source)).values()}
    missing = [file for file in planned.new_files if file.sha256 not in ingested]
    if missing:
        contract = catalog.sources[planned.source]
        in_landing = {file.name: file for file in bronze_landing.landing_files(settings, contract)[0]}
        for file in missing:
            if file.file not in in_landing:
                changes.append(f"{file.file} is no longer in landing, and Bronze has not ingested it")
            elif bronze_landing.fingerprint(settings, contract, in_landing[file.file]).content_hash != file.sha256:
                changes.append(f"{file.file} has other content than when the plan was made")
    if changes:
        msg = f"{planned.plan_id} is out of date: " + "; ".join(changes) + "; make a new plan"
        raise PlanProblemError(msg)
