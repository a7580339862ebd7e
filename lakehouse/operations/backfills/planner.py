"""Planning a backfill: its files and partitions, the rows that these have now, and the numbers that it would restate.

This module only reads. The plan itself is defined in ``plan``; ``planned_files`` lists its files, and
``impact.affected_periods`` finds the numbers that a changed day affects.
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
from lakehouse.calendar.days import reach_ahead
from lakehouse.delta import data_files, provenance, table_io
from lakehouse.dispositions import claims
from lakehouse.errors import LakehouseError
from lakehouse.gold.numbers import published_table, served_version
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.impact import affected_periods
from lakehouse.ledger import applied_inputs, ingestions, key_log
from lakehouse.operations.backfills import plan as backfill_plan
from lakehouse.operations.backfills import planned_files
from lakehouse.operations.backfills.plan import BackfillPlan, Layer, PlannedFile, Wave
from lakehouse.operations.backfills.waves import cut_into_waves

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from datetime import date, datetime

    from lakehouse.bronze.manifests import ManifestEntry
    from lakehouse.bronze.preview import Preview
    from lakehouse.contracts import Catalog, SourceContract
    from lakehouse.contracts.series import Series
    from lakehouse.impact.affected_periods import Affected
    from lakehouse.operations.backfills.plan import Order, WriteMode
    from lakehouse.settings import Settings


class PlanProblemError(LakehouseError):
    """A backfill that cannot be planned or must not start. The message gives the reason and what to do."""


@dataclass(frozen=True)
class BackfillRequest:
    """A request to compute a range of days again."""

    target: str
    first_day: date
    last_day: date
    reason: str
    runner_id: str
    max_parallel: int = 2
    order: Order = "ascending"
    write_mode: WriteMode = "merge"
    wave_size: int = 100
    dataset_version: int | None = None
    promised: Sequence[ManifestEntry] = ()


def plan(
    settings: Settings,
    catalog: Catalog,
    request: BackfillRequest,
    now: datetime,
    progress: Callable[[int, int], None] = lambda _done, _of: None,
) -> BackfillPlan:
    """Plan a requested backfill.

    :param progress: called with the number of files read so far and the number of all files.
    :raises PlanProblemError: for a target that no contract describes, or files that do not match the manifest.
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
        reason=request.reason,
        runner_id=request.runner_id,
        max_parallel=request.max_parallel,
        order=request.order,
        write_mode=request.write_mode,
        wave_size=request.wave_size,
        code_version=provenance.code(),
        contracts=contract_versions(catalog, scope.source),
        files=tuple(scope.files),
        waves=tuple(scope.waves),
        consumers=tuple(scope.consumers),
        notes=tuple(scope.notes),
        created_at=now,
    )


def contract_versions(catalog: Catalog, source: str) -> dict[str, str]:
    """The versions of a source's contract and of those of the metrics that read it, by name."""
    metrics = catalog.metrics_of(source)
    return {source: provenance.of_contract(catalog.sources[source])} | {
        metric.name: provenance.of_contract(metric) for metric in metrics
    }


@dataclass(frozen=True)
class _Scope:
    """What a target adds to the plan."""

    source: str
    metric: str | None
    files: Sequence[PlannedFile]
    waves: Sequence[Wave]
    consumers: Sequence[str]
    notes: Sequence[str]


def _of_source(settings: Settings, catalog: Catalog, request: BackfillRequest, progress: Callable[[int, int], None]) -> _Scope:
    contract = catalog.sources[request.target]
    if request.dataset_version is not None:
        msg = f"--target-version is for a metric; {request.target} is a source: name one of its metrics instead"
        raise PlanProblemError(msg)
    files, previews, problems = planned_files.current_files(settings, contract, request.first_day, request.last_day, progress)
    _check_manifest(request.promised, files, problems)
    days = _silver_days(settings, contract, request, previews)
    waves = [*_bronze_waves(settings, request, files), *_silver_waves(settings, request, days)]
    consumers: list[str] = []
    gold: list[Wave] = []
    rollups: list[Wave] = []
    for metric in catalog.metrics_of(request.target):
        daily = served_version.daily(settings, catalog, metric)
        pending = find_pending(settings, daily)  # earlier changes of silver are followed, too; all days if the feed is gone
        changed = sorted({*days, *(pending.causes or pending.starts)})
        affected = affected_periods.affected(settings, daily, changed)
        gold += _numbers(affected, Layer.GOLD, [daily])
        rollups += _numbers(affected, Layer.ROLLUPS, daily.rollups)
        consumers += metric.consumers
    return _Scope(request.target, None, files, [*waves, *gold, *rollups], list(dict.fromkeys(consumers)), problems)


def _of_metric(settings: Settings, catalog: Catalog, request: BackfillRequest) -> _Scope:
    name = request.target if request.dataset_version in (None, 1) else f"{request.target}_v{request.dataset_version}"
    if name not in catalog.metrics:
        known = ", ".join(sorted([*catalog.sources, *catalog.metrics])) or "none"
        msg = f"no contract has 'dataset: {request.target}' or a metric called {name}; known are {known}"
        raise PlanProblemError(msg)
    if request.promised:
        msg = f"a manifest lists files, and {request.target} is a metric: plan a backfill of its source"
        raise PlanProblemError(msg)
    metric = catalog.metrics[name]
    daily = served_version.daily(settings, catalog, metric)
    days = metric_days(settings, daily, request.first_day, request.last_day)
    affected = affected_periods.affected(settings, daily, days)
    planned = [period for period in affected if period.series != daily.name or period.start in days]
    waves = [wave for part in cut_into_waves(days, request.order, request.wave_size) for wave in _of_days(planned, daily, part)]
    rollups = _numbers(planned, Layer.ROLLUPS, daily.rollups)
    return _Scope(metric.source, name, (), [*waves, *rollups], metric.consumers, ())


def metric_days(settings: Settings, daily: Series, first: date, last: date) -> set[date]:
    """The days of a metric in a range: those that silver has rows for, and those that were published."""
    silver_days = published_table.partitions(settings, locations.silver_read(settings, daily.metric), "event_date")
    days = reach_ahead(silver_days, daily.metric.window) | published_table.partitions(
        settings, locations.gold(settings, daily), daily.by
    )
    return {day for day in days if first <= day <= last}


def _silver_days(
    settings: Settings, contract: SourceContract, request: BackfillRequest, previews: dict[str, Preview]
) -> set[date]:
    """The event days that silver would update: those that new files touch, pending days and, to overwrite, the whole range."""
    source = contract.dataset
    days = set(applied_inputs.pending(settings, source))
    if previews:  # all at once: each look-up reads the key log
        touched = {day for preview in previews.values() for day in preview.rows}
        keys = pc.unique(pa.chunked_array([preview.keys for preview in previews.values()]))
        days |= claims.affected_event_days(settings, contract, touched, keys)
    if request.write_mode == "overwrite":
        existing = key_log.days(settings, source) | published_table.partitions(
            settings, locations.silver(settings, source), "event_date"
        )
        days |= {day for day in existing if request.first_day <= day <= request.last_day}
    return days


def _bronze_waves(settings: Settings, request: BackfillRequest, files: Sequence[PlannedFile]) -> Iterable[Wave]:
    arrivals = {file.arrival_date for file in files if not file.known}
    rows_by_day = _rows_by_day(settings, locations.bronze(settings, request.target))
    for part in cut_into_waves(arrivals, request.order, request.wave_size):
        rows = sum(rows_by_day[day] for day in part)
        yield Wave(layer=Layer.BRONZE, table=f"bronze/{request.target}", partitions=tuple(part), rows=rows)


def _silver_waves(settings: Settings, request: BackfillRequest, days: Collection[date]) -> Iterable[Wave]:
    rows_by_day = _rows_by_day(settings, locations.silver(settings, request.target))
    for part in cut_into_waves(days, request.order, request.wave_size):
        rows = sum(rows_by_day[day] for day in part)
        yield Wave(layer=Layer.SILVER, table=f"silver/{request.target}", partitions=tuple(part), rows=rows)


def _numbers(affected: Sequence[Affected], layer: Layer, every: Sequence[Series]) -> Iterable[Wave]:
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


def _of_days(affected: Sequence[Affected], daily: Series, days: Collection[date]) -> Iterable[Wave]:
    periods = [period for period in affected if period.series == daily.name and period.start in days]
    if periods:
        yield Wave(layer=Layer.GOLD, table=f"gold/{daily.name}", partitions=tuple(days), outcomes=_outcomes(periods))


def _outcomes(periods: Sequence[Affected]) -> dict[str, int]:
    counts = Counter(period.outcome.value for period in periods)
    counts |= {"final": sum(period.state == "final" for period in periods)}
    return {name: count for name, count in sorted(counts.items()) if count}


def _check_manifest(promised: Sequence[ManifestEntry], files: Sequence[PlannedFile], problems: Sequence[str]) -> None:
    differences = backfill_plan.differences(promised, files) if promised else []
    if differences:
        msg = "the files do not match the manifest:\n  " + "\n  ".join([*differences, *problems])
        raise PlanProblemError(msg)


def _rows_by_day(settings: Settings, path: str) -> Counter[date]:
    """How many rows each day of a table has; none if there is no table."""
    table = table_io.open_table(path, settings.storage_options)
    return Counter({} if table is None else data_files.rows_by_partition(table))


def still_as_planned(settings: Settings, catalog: Catalog, planned: BackfillPlan) -> None:
    """Compare files, code and contracts with the plan, before anything is done.

    :raises PlanProblemError: if any has changed since the plan was made; the message names each file and version.
    """
    changes = backfill_plan.moved_pins(
        planned.code_version, planned.contracts, provenance.code(), contract_versions(catalog, planned.source)
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
