"""What a backfill has done, read from the tables that it wrote: counts, a verdict on each partition, and what consumers are told.

No JVM, and nothing is taken from the memory of a run: a backfill that was stopped and went on is told of as a whole.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.bronze import checks as bronze_checks
from lakehouse.calendar.days import reach_ahead
from lakehouse.delta import table_io
from lakehouse.gold.numbers import history as numbers_history
from lakehouse.gold.numbers import served_version
from lakehouse.gold.publication import candidates
from lakehouse.gold.restatement import checks as restatement_checks
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.ledger import applied_inputs, ingestions, publications
from lakehouse.operations.backfills.plan import BackfillPlan, Layer, spikes
from lakehouse.silver import checks as silver_checks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lakehouse.contracts import Catalog, SourceContract
    from lakehouse.contracts.series import Series
    from lakehouse.ledger.ingestions import Ingestion
    from lakehouse.quality.check_result import Outcome
    from lakehouse.settings import Settings

#: What a publication's trigger calls the plan that it belongs to.
PLAN = "backfill"


@dataclass(frozen=True)
class BackfillVerification:
    """The checklist of a backfill: how many partitions of each table were looked at, and what is wrong with any."""

    partitions: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """The checklist as JSON knows it."""
        return dict(vars(self))


def verify(settings: Settings, catalog: Catalog, plan: BackfillPlan) -> BackfillVerification:
    """Look at each partition that the plan is about, and hold the counts against it."""
    verdict = BackfillVerification()
    contract = catalog.sources[plan.source]
    if plan.metric is None:
        _count_files(settings, plan, verdict)
        _judge(
            verdict,
            f"bronze/{plan.source}",
            plan.arrival_days,
            lambda days: bronze_checks.check_bronze(settings, contract, days),
        )
        days = touched(settings, plan)
        _judge(verdict, f"silver/{plan.source}", days, lambda days: silver_checks.check_silver(settings, contract, days))
        _look_for_spike(settings, contract, plan, verdict)
        waiting = applied_inputs.pending(settings, plan.source).keys() & set(days)
        verdict.problems.extend(f"silver/{plan.source} {day}: still waits for what was brought in" for day in sorted(waiting))
    for daily in series_of(settings, catalog, plan):
        own = _days_of(settings, plan, daily)
        if plan.metric is not None:
            _judge(
                verdict,
                f"gold/{daily.name}",
                own,
                lambda days, one=daily: restatement_checks.check_published(settings, one, days),
            )
        _look_at_numbers(settings, plan, daily, own, verdict)
    return verdict


def series_of(settings: Settings, catalog: Catalog, plan: BackfillPlan) -> list[Series]:
    """The daily series that a plan brings up to date."""
    metrics = catalog.metrics_of(plan.source) if plan.metric is None else [catalog.metrics[plan.metric]]
    return [served_version.daily(settings, catalog, metric) for metric in metrics]


def touched(settings: Settings, plan: BackfillPlan) -> list[date]:
    """The event days that the plan's files touch and, where it overwrites, those of its range that silver has."""
    days = {day for entry in _ingested(settings, plan) for day in entry.touched_days}
    if plan.write_mode == "overwrite":
        days |= {day for wave in plan.waves if wave.table.startswith("silver/") for day in wave.partitions}
    return sorted(days)


def _days_of(settings: Settings, plan: BackfillPlan, daily: Series) -> list[date]:
    """The days of a metric that are the plan's own: others may wait for what came since, or for somebody else."""
    if plan.metric is None:
        return sorted(reach_ahead(touched(settings, plan), daily.metric.window))
    return sorted({day for wave in plan.waves if wave.layer is Layer.GOLD for day in wave.partitions})


def summary(settings: Settings, catalog: Catalog, plan: BackfillPlan) -> dict[str, Any]:
    """What was brought in and published because of the plan."""
    entries = _ingested(settings, plan)
    told: dict[str, Any] = {
        "files": len(entries),
        "rows": sum(entry.rows for entry in entries),
        "malformed": sum(entry.malformed for entry in entries),
        "event_days": len(touched(settings, plan)) if plan.metric is None else 0,
        "published": {},
    }
    for daily in series_of(settings, catalog, plan):
        for one in (daily, *daily.rollups):
            if counted := _published(settings, one, plan):
                told["published"][one.name] = counted
    return told


def _published(settings: Settings, one: Series, plan: BackfillPlan) -> dict[str, Any]:
    """How many numbers of a series were published because of the plan, by reason, and which periods that were known before."""
    own = [entry for entry in publications.of(settings, one.name) if entry.trigger.get(PLAN) == plan.plan_id]
    names = {name for entry in own for name in entry.published.values()}
    if not names:
        return {}
    starts = sorted({date.fromisoformat(start) for entry in own for start in entry.published})
    known = numbers_history.history(settings, one, starts)
    versions = [version for start in starts for version in known.get(start, ()) if version.name in names]
    restated = sorted({version.period for version in versions if version.reason.value not in ("initial", "daily_finalization")})
    reasons = Counter(version.reason.value for version in versions)
    return {"numbers": len(versions), "reasons": dict(sorted(reasons.items())), "restated": restated}


def _ingested(settings: Settings, plan: BackfillPlan) -> list[Ingestion]:
    hashes = {file.sha256 for file in plan.new_files}
    known = ingestions.ingested(ingestions.all_of(settings, plan.source))
    return [entry for entry in known.values() if entry.content_hash in hashes]


def _count_files(settings: Settings, plan: BackfillPlan, verdict: BackfillVerification) -> None:
    rows = {entry.content_hash: entry.rows for entry in _ingested(settings, plan)}
    for file in plan.new_files:
        found = rows.get(file.sha256)
        if found is None:
            verdict.problems.append(f"{file.file}: is not in Bronze; materialize bronze/{plan.source} for {file.arrival_date}")
        elif found != file.rows:
            verdict.problems.append(f"{file.file}: rows: {found:,} in Bronze, {file.rows:,} planned")


def _judge(verdict: BackfillVerification, table: str, days: list[date], check: Any) -> None:
    verdict.partitions[table] = len(days)
    outcomes: Iterable[Outcome] = check(days) if days else ()
    for outcome in outcomes:
        if not outcome.passed:
            told = f"{table} {outcome.day}: {outcome.check}: {outcome.explanation or 'failed'}"
            (verdict.warnings if outcome.warns else verdict.problems).append(told)


def _look_for_spike(settings: Settings, contract: SourceContract, plan: BackfillPlan, verdict: BackfillVerification) -> None:
    """Whether many more rows wait for a steward than did before."""
    own = {entry.ingestion_id: entry.rows for entry in _ingested(settings, plan)}
    others = ingestions.ingested(ingestions.all_of(settings, plan.source))
    rows_before = sum(entry.rows for one, entry in others.items() if one not in own)
    where = {"quarantine_status": ["open"]}
    found = table_io.read(locations.quarantine(settings, contract.dataset), ["ingestion_id"], where, settings.storage_options)
    waiting = Counter([] if found is None else pc.fill_null(found["ingestion_id"], "").to_pylist())
    new = sum(count for one, count in waiting.items() if one in own)
    if spikes(sum(own.values()), new, rows_before, waiting.total() - new):
        told = (
            f"{new:,} of {sum(own.values()):,} new rows wait in quarantine, far more than before; see 'lakehouse quarantine list'"
        )
        verdict.warnings.append(told)


def _look_at_numbers(
    settings: Settings, plan: BackfillPlan, daily: Series, own: list[date], verdict: BackfillVerification
) -> None:
    if plan.metric is None:  # days of a range that were computed again are remembered as waiting while one outside of it does
        behind = find_pending(settings, daily).starts.intersection(own)
        verdict.problems.extend(f"gold/{daily.name} {day}: does not follow silver yet" for day in sorted(behind))
    for rollup in daily.rollups:
        pending = find_pending(settings, rollup).starts
        late = sorted(period for period in {rollup.period(day) for day in own} if period.start in pending)
        verdict.problems.extend(f"gold/{rollup.name} {period.name}: does not follow its days yet" for period in late)
    for one in (daily, *daily.rollups):
        verdict.warnings.extend(_held(settings, one))


def _held(settings: Settings, one: Series) -> Iterator[str]:
    for waiting in candidates.held(settings, one):
        why = ", ".join(waiting.failed)
        yield f"gold/{one.name} {one.period(waiting.start).name}: held ({why}); 'lakehouse gold held' shows it"
