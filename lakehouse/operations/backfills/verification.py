"""The verification of a backfill, read from the tables that it wrote, and its undo.

The verification has counts, checks of each partition, and publications. Nothing depends on the memory of a run, so a backfill
that was stopped and resumed is reported as a whole. An undo restores the numbers from before the backfill, and is recorded in the
log of backfills. The affected numbers, and the conditions for restoring them, belong to ``gold.restatement.revert``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from lakehouse.bronze import checks as bronze_checks
from lakehouse.contracts.series import days_reached
from lakehouse.dispositions import account_tables, claims
from lakehouse.gold.numbers import history as numbers_history
from lakehouse.gold.numbers import lifecycle, served_version
from lakehouse.gold.publication import candidates
from lakehouse.gold.restatement import reconciliation as restatement_checks
from lakehouse.gold.restatement import revert as restatement_revert
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.gold.restatement.revert import published_by
from lakehouse.ledger import applied_inputs, failures, ingestions
from lakehouse.ledger.row_states import QuarantineStatus
from lakehouse.operations.backfills import log
from lakehouse.operations.backfills.log import BackfillEvent
from lakehouse.operations.backfills.plan import BackfillPlan, Layer, spikes
from lakehouse.silver import checks as silver_checks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import date

    from lakehouse.contracts import Catalog, SourceContract
    from lakehouse.contracts.series import Series
    from lakehouse.gold.publication.write_audit_publish import Run
    from lakehouse.gold.restatement.revert import UndoneSeries
    from lakehouse.lake import Lake
    from lakehouse.ledger.ingestions import Ingestion
    from lakehouse.operations.backfills.plan import BackfillPlan
    from lakehouse.quality.check_rules import CheckResult


@dataclass(frozen=True)
class BackfillVerification:
    """The checklist of a backfill: the number of checked partitions per table, with problems and warnings."""

    partitions: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """The checklist as JSON types."""
        return dict(vars(self))


def verify(lake: Lake, catalog: Catalog, plan: BackfillPlan) -> BackfillVerification:
    """Check each partition of the plan, and compare the counts with the plan."""
    result = BackfillVerification()
    contract = catalog.sources[plan.source]
    if plan.metric is None:
        _count_files(lake, plan, result)
        _judge(
            result,
            f"bronze/{plan.source}",
            plan.arrival_days,
            lambda days: bronze_checks.check_bronze(lake, contract, days),
        )
        days = touched(lake, plan)
        _judge(result, f"silver/{plan.source}", days, lambda days: silver_checks.check_silver(lake, contract, days))
        _check_quarantine(lake, contract, plan, result)
        waiting = applied_inputs.pending(lake, plan.source).keys() & set(days)
        result.problems.extend(f"silver/{plan.source} {day}: does not contain all of its inputs yet" for day in sorted(waiting))
    for daily in series_of(lake, catalog, plan):
        days = _days_of(lake, plan, daily)
        if plan.metric is not None:
            _judge(
                result,
                f"gold/{daily.name}",
                days,
                lambda days, series=daily: restatement_checks.check_published(lake, series, days),
            )
        _check_numbers(lake, plan, daily, days, result)
    return result


def series_of(lake: Lake, catalog: Catalog, plan: BackfillPlan) -> list[Series]:
    """The daily series that a plan updates."""
    metrics = catalog.metrics_of(plan.source) if plan.metric is None else [catalog.metrics[plan.metric]]
    return [served_version.daily(lake, catalog, metric) for metric in metrics]


def touched(lake: Lake, plan: BackfillPlan) -> list[date]:
    """The event days that the plan's files touch and, if it reassesses rows of Bronze, those planned for silver."""
    days = {day for entry in _ingested(lake, plan) for day in entry.touched_days}
    if plan.write_mode == "overwrite" or plan.admit_history:
        days |= {day for wave in plan.waves if wave.table.startswith("silver/") for day in wave.partitions}
    return sorted(days)


def _days_of(lake: Lake, plan: BackfillPlan, daily: Series) -> list[date]:
    """The days of a metric that belong to the plan: others may be pending for later or unrelated changes."""
    if plan.metric is None:
        return sorted(days_reached(daily.metric, touched(lake, plan)))
    return sorted({day for wave in plan.waves if wave.layer is Layer.GOLD for day in wave.partitions})


def summary(lake: Lake, catalog: Catalog, plan: BackfillPlan) -> dict[str, Any]:
    """The ingestions and publications of the plan."""
    entries = _ingested(lake, plan)
    where = {
        "arrival_date": {entry.arrival_date for entry in entries},
        "ingestion_id": [entry.ingestion_id for entry in entries],
    }
    not_admitted = claims.not_admitted(lake, plan.source, where) if entries else {}
    counts: dict[str, Any] = {
        "files": len(entries),
        "rows": sum(entry.rows for entry in entries),
        "malformed": sum(entry.malformed for entry in entries),
        "unread_reason": ingestions.first_reason(lake, plan.source, [entry.ingestion_id for entry in entries if entry.malformed]),
        "not_admitted": [[status.value, cause, rows] for (status, cause), rows in sorted(not_admitted.items())],
        "event_days": len(touched(lake, plan)) if plan.metric is None else 0,
        "published": {},
    }
    for daily in series_of(lake, catalog, plan):
        for series in (daily, *daily.rollups):
            if published := _published(lake, series, plan):
                counts["published"][series.name] = published
    return counts


def _published(lake: Lake, series: Series, plan: BackfillPlan) -> dict[str, Any]:
    """The numbers of a series published by the plan, counted by reason, and the restated periods."""
    names = published_by(lake, series, plan.plan_id)
    if not names:
        return {}
    history = numbers_history.history(lake, series, sorted(names))
    versions = [version for start in sorted(names) for version in history.get(start, ()) if version.name in names[start]]
    restated = sorted({version.period for version in versions if lifecycle.restates(version.reason)})
    reasons = Counter(version.reason.value for version in versions)
    return {"numbers": len(versions), "reasons": dict(sorted(reasons.items())), "restated": restated}


def _ingested(lake: Lake, plan: BackfillPlan) -> list[Ingestion]:
    hashes = {file.sha256 for file in plan.new_files}
    ingested = ingestions.ingested(ingestions.all_of(lake, plan.source))
    return [entry for entry in ingested.values() if entry.content_hash in hashes]


def _count_files(lake: Lake, plan: BackfillPlan, result: BackfillVerification) -> None:
    rows = {entry.content_hash: entry.rows for entry in _ingested(lake, plan)}
    for file in plan.new_files:
        in_bronze = rows.get(file.sha256)
        if in_bronze is None:
            result.problems.append(f"{file.file}: is not in Bronze; materialize bronze/{plan.source} for {file.arrival_date}")
        elif in_bronze != file.rows:
            result.problems.append(f"{file.file}: rows: {in_bronze:,} in Bronze, {file.rows:,} planned")


def _judge(result: BackfillVerification, table: str, days: list[date], check: Any) -> None:
    result.partitions[table] = len(days)
    outcomes: Iterable[CheckResult] = check(days) if days else ()
    for outcome in outcomes:
        if not outcome.passed:
            sentence = f"{table} {outcome.day}: {outcome.check}: {outcome.explanation or 'failed'}"
            (result.warnings if outcome.warns else result.problems).append(sentence)


def _check_quarantine(lake: Lake, contract: SourceContract, plan: BackfillPlan, result: BackfillVerification) -> None:
    """Warn if the share of rows that wait for a steward is much larger than before."""
    rows = {entry.ingestion_id: entry.rows for entry in _ingested(lake, plan)}
    ingested = ingestions.ingested(ingestions.all_of(lake, plan.source))
    rows_before = sum(entry.rows for ingestion_id, entry in ingested.items() if ingestion_id not in rows)
    where = {"quarantine_status": [QuarantineStatus.OPEN.value]}
    quarantine = account_tables.quarantined(lake, contract, ["ingestion_id"], where)
    waiting = Counter([] if quarantine is None else pc.fill_null(quarantine["ingestion_id"], "").to_pylist())
    new = sum(count for ingestion_id, count in waiting.items() if ingestion_id in rows)
    if spikes(sum(rows.values()), new, rows_before, waiting.total() - new):
        share = f"{new:,} of {sum(rows.values()):,} new rows"
        result.warnings.append(f"{share} wait in quarantine, far more than before; see 'lakehouse quarantine list'")


def _check_numbers(lake: Lake, plan: BackfillPlan, daily: Series, days: list[date], result: BackfillVerification) -> None:
    if plan.metric is None:  # days of a range stay pending as long as a day outside of it is pending
        pending_days = find_pending(lake, daily).starts.intersection(days)
        result.problems.extend(f"gold/{daily.name} {day}: does not follow silver yet" for day in sorted(pending_days))
    for rollup in daily.rollups:
        pending = find_pending(lake, rollup).starts
        late = sorted(period for period in {rollup.period(day) for day in days} if period.start in pending)
        result.problems.extend(f"gold/{rollup.name} {period.name}: does not follow its days yet" for period in late)
    for series in (daily, *daily.rollups):
        result.warnings.extend(_held(lake, series))


def _held(lake: Lake, series: Series) -> Iterator[str]:
    for candidate in candidates.held(lake, series):
        failed = ", ".join(candidate.failed)
        yield f"gold/{series.name} {series.period(candidate.start).name}: held ({failed}); 'lakehouse gold held' shows it"
    for start, entry in failures.failing(lake, series.name).items():
        yield f"gold/{series.name} {series.period(start).name}: held; {entry.explanation}"


def undo(lake: Lake, catalog: Catalog, plan: BackfillPlan, run: Run, reason: str) -> list[UndoneSeries]:
    """Restore the days that a backfill restated to their numbers before it. Idempotent.

    :param run: the run, which names the person.
    :raises UndoError: if one of the numbers has changed since, or the plan restated no number.
    """
    dailies = series_of(lake, catalog, plan)
    done = restatement_revert.undo(lake, catalog.sources[plan.source], dailies, plan.plan_id, run, reason)
    said = {"by": run.by, "reason": reason, "days": {undone.daily.name: len(undone.result.published) for undone in done}}
    log.record(lake, BackfillEvent(plan.plan_id, "undone", "undone", said=said, recorded_at=lake.now()))
    return done
