"""Making the plan of a backfill: which files and partitions it is about, what stands there, what it would restate. No JVM.

Nothing is written here. What a plan is, is in ``operations.backfills.plan``; what a changed day touches is followed in
``reached``.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.bronze import landing as bronze_landing
from lakehouse.bronze import preview, readiness
from lakehouse.calendar.days import reach_ahead
from lakehouse.delta import provenance, table_io
from lakehouse.dispositions import claims
from lakehouse.errors import LakehouseError
from lakehouse.gold.numbers import published_table, served_version
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.impact import affected_periods
from lakehouse.ledger import applied_inputs, ingestions, key_log
from lakehouse.operations.backfills import plan as backfill_plan
from lakehouse.operations.backfills.plan import BackfillPlan, Layer, PlannedFile, Wave

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from datetime import date, datetime

    from lakehouse.bronze.landing import LandingFile
    from lakehouse.bronze.manifests import Promise
    from lakehouse.bronze.preview import Preview
    from lakehouse.contracts import Catalog, SourceContract
    from lakehouse.contracts.series import Series
    from lakehouse.impact.affected_periods import Affected
    from lakehouse.operations.backfills.plan import Order, WriteMode
    from lakehouse.settings import Settings


class PlanProblemError(LakehouseError):
    """A backfill that cannot be planned or must not start. Its text says why, and the way out."""


@dataclass(frozen=True)
class BackfillRequest:
    """What somebody wants made again."""

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
    promised: Sequence[Promise] = ()


def plan(
    settings: Settings,
    catalog: Catalog,
    wish: BackfillRequest,
    now: datetime,
    read: Callable[[int, int], None] = lambda _done, _of: None,
) -> BackfillPlan:
    """Look at everything that the wish concerns.

    :param read: is told how many of how many files have been read.
    :raises PlanProblemError: for a target that no contract describes, or files that are not as the manifest says.
    """
    made = _of_source(settings, catalog, wish, read) if wish.target in catalog.sources else _of_metric(settings, catalog, wish)
    text = f"{wish}{made}{now.isoformat()}"
    plan_id = f"bf-{now:%Y%m%d}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"
    return BackfillPlan(
        plan_id=plan_id,
        target=wish.target,
        source=made.source,
        metric=made.metric,
        first_day=wish.first_day,
        last_day=wish.last_day,
        reason=wish.reason,
        runner_id=wish.runner_id,
        max_parallel=wish.max_parallel,
        order=wish.order,
        write_mode=wish.write_mode,
        wave_size=wish.wave_size,
        code_version=provenance.code(),
        contracts=contract_versions(catalog, made.source),
        files=tuple(made.files),
        waves=tuple(made.waves),
        consumers=tuple(made.consumers),
        notes=tuple(made.notes),
        created_at=now,
    )


def contract_versions(catalog: Catalog, source: str) -> dict[str, str]:
    """The versions of a source's contract and of those of the metrics that read it, by name."""
    metrics = catalog.metrics_of(source)
    return {source: provenance.of_contract(catalog.sources[source])} | {one.name: provenance.of_contract(one) for one in metrics}


def files_now(
    settings: Settings,
    contract: SourceContract,
    first: date,
    last: date,
    read: Callable[[int, int], None] = lambda _done, _of: None,
) -> tuple[list[PlannedFile], dict[str, Preview], list[str]]:
    """The files of some arrival days as they lie in landing, what the new ones would say, and what keeps any from being read.

    A file that Bronze knows as it is now, by name, size and time, is not read again; one that waits for others is none.
    """
    listing = bronze_landing.listing(settings, contract)
    known = ingestions.all_of(settings, contract.dataset)
    seen = {(one.source_file, one.bytes, one.modified): one for one in known if one.status != "held"}
    rows_of = {one: entry.rows for one, entry in ingestions.ingested(known).items()}
    found, said, problems = [], {}, list(listing.complaints)
    wanted: list[LandingFile] = []
    for day, lying in groupby(listing.files, lambda file: file.arrival_date):
        if first <= day <= last:
            files = list(lying)
            new = [file for file in files if (file.name, file.size, file.modified) not in seen]
            ready = readiness.of_day(settings, contract, day, new, listing.tellers.get(day, []), known)
            left = set(new).difference(ready.files)
            wanted += [file for file in files if file not in left]
            problems += ready.waiting
    for number, file in enumerate(wanted, start=1):
        entry = seen.get((file.name, file.size, file.modified))
        if entry is not None:
            found.append(_planned(file, rows_of.get(entry.ingestion_id, entry.rows), entry.content_hash, known=True))
        else:
            print_ = bronze_landing.fingerprint(settings, contract, file)
            if print_.problem:
                problems.append(f"{file.name}: {print_.problem}; it would be held")
            elif print_.ingestion_id in rows_of:
                found.append(_planned(file, rows_of[print_.ingestion_id], print_.content_hash, known=True))
            else:
                preview_ = preview.of(settings, contract, file, print_)
                said[file.name] = preview_
                rows = rows_of[print_.ingestion_id] = sum(preview_.rows.values()) + sum(preview_.out.values())
                found.append(_planned(file, rows, print_.content_hash, known=False))
        read(number, len(wanted))
    return found, said, problems


@dataclass(frozen=True)
class _Made:
    source: str
    metric: str | None
    files: Sequence[PlannedFile]
    waves: Sequence[Wave]
    consumers: Sequence[str]
    notes: Sequence[str]


def _of_source(settings: Settings, catalog: Catalog, wish: BackfillRequest, read: Callable[[int, int], None]) -> _Made:
    contract = catalog.sources[wish.target]
    if wish.dataset_version is not None:
        msg = f"--target-version is for a metric; {wish.target} is a source: name one of its metrics instead"
        raise PlanProblemError(msg)
    found, said, problems = files_now(settings, contract, wish.first_day, wish.last_day, read)
    _agree(wish.promised, found, problems)
    days = _silver_days(settings, contract, wish, said)
    waves = [*_bronze_waves(settings, wish, found), *_silver_waves(settings, wish, days)]
    consumers: list[str] = []
    gold: list[Wave] = []
    rollups: list[Wave] = []
    for metric in catalog.metrics_of(wish.target):
        daily = served_version.daily(settings, catalog, metric)
        behind = find_pending(settings, daily)  # what somebody left at silver is followed, too; of a forgotten feed all days
        changed = sorted({*days, *(behind.causes or behind.starts)})
        affected, _ = affected_periods.through(settings, daily, changed, lambda _one, _starts: ())
        gold += _numbers(affected, Layer.GOLD, [daily])
        rollups += _numbers(affected, Layer.ROLLUPS, daily.rollups)
        consumers += metric.consumers
    return _Made(wish.target, None, found, [*waves, *gold, *rollups], list(dict.fromkeys(consumers)), problems)


def _of_metric(settings: Settings, catalog: Catalog, wish: BackfillRequest) -> _Made:
    name = wish.target if wish.dataset_version in (None, 1) else f"{wish.target}_v{wish.dataset_version}"
    if name not in catalog.metrics:
        known = ", ".join(sorted([*catalog.sources, *catalog.metrics])) or "none"
        msg = f"no contract has 'dataset: {wish.target}' or a metric called {name}; known are {known}"
        raise PlanProblemError(msg)
    if wish.promised:
        msg = f"a manifest speaks of files, and {wish.target} is a metric: plan a backfill of its source"
        raise PlanProblemError(msg)
    metric = catalog.metrics[name]
    daily = served_version.daily(settings, catalog, metric)
    days = metric_days(settings, daily, wish.first_day, wish.last_day)
    affected, _ = affected_periods.through(settings, daily, sorted(days), lambda _one, _starts: ())
    own = [one for one in affected if one.series != daily.name or one.start in days]
    waves = [wave for part in backfill_plan.chunks(days, wish.order, wish.wave_size) for wave in _of_days(own, daily, part)]
    rollups = _numbers(own, Layer.ROLLUPS, daily.rollups)
    return _Made(metric.source, name, (), [*waves, *rollups], metric.consumers, ())


def metric_days(settings: Settings, daily: Series, first: date, last: date) -> set[date]:
    """The days of a metric in a range: those that silver has rows for, and those that were published."""
    there = published_table.partitions(settings, locations.silver(settings, daily.metric.source), "event_date")
    days = reach_ahead(there, daily.metric.window) | published_table.partitions(
        settings, locations.gold(settings, daily), daily.by
    )
    return {day for day in days if first <= day <= last}


def _silver_days(settings: Settings, contract: SourceContract, wish: BackfillRequest, said: dict[str, Preview]) -> set[date]:
    """The event days that silver would make: those that new files touch, those that wait and, to overwrite, all of the range."""
    source = contract.dataset
    days = set(applied_inputs.pending(settings, source))
    if said:  # all at once: each look-up reads the key log
        own = {day for one in said.values() for day in one.rows}
        keys = pc.unique(pa.chunked_array([one.keys for one in said.values()]))
        days |= claims.reach(settings, contract, own, keys)
    if wish.write_mode == "overwrite":
        there = key_log.days(settings, source) | published_table.partitions(
            settings, locations.silver(settings, source), "event_date"
        )
        days |= {day for day in there if wish.first_day <= day <= wish.last_day}
    return days


def _bronze_waves(settings: Settings, wish: BackfillRequest, found: Sequence[PlannedFile]) -> Iterable[Wave]:
    arrivals = {file.arrival_date for file in found if not file.known}
    there = _rows_by_day(settings, locations.bronze(settings, wish.target), "arrival_date", arrivals)
    for part in backfill_plan.chunks(arrivals, wish.order, wish.wave_size):
        rows = sum(there[day] for day in part)
        yield Wave(layer=Layer.BRONZE, table=f"bronze/{wish.target}", partitions=tuple(part), rows=rows)


def _silver_waves(settings: Settings, wish: BackfillRequest, days: Collection[date]) -> Iterable[Wave]:
    there = _rows_by_day(settings, locations.silver(settings, wish.target), "event_date", days)
    for part in backfill_plan.chunks(days, wish.order, wish.wave_size):
        rows = sum(there[day] for day in part)
        yield Wave(layer=Layer.SILVER, table=f"silver/{wish.target}", partitions=tuple(part), rows=rows)


def _numbers(affected: Sequence[Affected], layer: Layer, wanted: Sequence[Series]) -> Iterable[Wave]:
    """A wave per series, with what becomes of its numbers."""
    for one in wanted:
        own = [
            period
            for period in affected
            if period.series == one.name and period.outcome is not affected_periods.ImpactOutcome.UNCHANGED
        ]
        if own:
            starts = tuple(sorted(period.start for period in own))
            yield Wave(layer=layer, table=f"gold/{one.name}", partitions=starts, outcomes=_outcomes(own))


def _of_days(affected: Sequence[Affected], daily: Series, days: Collection[date]) -> Iterable[Wave]:
    own = [period for period in affected if period.series == daily.name and period.start in days]
    if own:
        yield Wave(layer=Layer.GOLD, table=f"gold/{daily.name}", partitions=tuple(days), outcomes=_outcomes(own))


def _outcomes(periods: Sequence[Affected]) -> dict[str, int]:
    counts = Counter(period.outcome.value for period in periods)
    counts |= {"final": sum(period.state == "final" for period in periods)}
    return {name: count for name, count in sorted(counts.items()) if count}


def _agree(promised: Sequence[Promise], found: Sequence[PlannedFile], problems: Sequence[str]) -> None:
    told = backfill_plan.differences(promised, found) if promised else []
    if told:
        msg = "the files are not as the manifest says:\n  " + "\n  ".join([*told, *problems])
        raise PlanProblemError(msg)


def _planned(file: LandingFile, rows: int, content_hash: str, *, known: bool) -> PlannedFile:
    return PlannedFile(
        file=file.name, arrival_date=file.arrival_date, bytes=file.size, rows=rows, sha256=content_hash, known=known
    )


def _rows_by_day(settings: Settings, path: str, column: str, days: Collection[date]) -> dict[date, int]:
    """How many rows stand on each day, as the log counts them."""
    table = table_io.open_table(path, settings.storage_options)
    counted: dict[date, int] = defaultdict(int)
    if table is None or not days:
        return counted
    files = pa.table(table.get_add_actions(flatten=True))
    for day, rows in zip(files[f"partition.{column}"].to_pylist(), files["num_records"].to_pylist()):
        counted[day] += rows or 0
    return counted


def still_as_planned(settings: Settings, catalog: Catalog, planned: BackfillPlan) -> None:
    """Hold files, code and contracts against the plan, before anything is done.

    :raises PlanProblemError: naming each file and version that is another one now.
    """
    told = backfill_plan.moved_pins(
        planned.code_version, planned.contracts, provenance.code(), contract_versions(catalog, planned.source)
    )
    known = {one.content_hash for one in ingestions.ingested(ingestions.all_of(settings, planned.source)).values()}
    missing = [file for file in planned.new_files if file.sha256 not in known]
    if missing:
        contract = catalog.sources[planned.source]
        lying = {file.name: file for file in bronze_landing.landing_files(settings, contract)[0]}
        for file in missing:
            if file.file not in lying:
                told.append(f"{file.file} is gone from landing, and Bronze has not taken it in")
            elif bronze_landing.fingerprint(settings, contract, lying[file.file]).content_hash != file.sha256:
                told.append(f"{file.file} has other content than when the plan was made")
    if told:
        msg = f"{planned.plan_id} is not what would be done now: " + "; ".join(told) + "; make a new plan"
        raise PlanProblemError(msg)
