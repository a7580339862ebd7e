"""What people have changed: decisions, corrections, redactions, rebuilds, backfills, stages, reverts, promotions and more.

Each kind has a log of its own, which is read here and never written. What sources have sent is not part of it, and neither is
what changed in the numbers: that is in ``gold.numbers.history`` and in the audit.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import timedelta
from typing import TYPE_CHECKING

from lakehouse.errors import LakehouseError
from lakehouse.gold.promotion import promotion_log
from lakehouse.gold.promotion.promotion_log import PromotionKind
from lakehouse.gold.publication import held_numbers
from lakehouse.gold.publication.held_numbers import RevertEvent
from lakehouse.lateness import cutoff, event_watermark
from lakehouse.ledger import decisions, late_decisions, publications, rebuild_requests, redactions
from lakehouse.models import promotion_log as model_promotions
from lakehouse.operations.backfills import log as backfills
from lakehouse.operations.backfills.plan import BackfillStatus
from lakehouse.operations.changes import correction_record
from lakehouse.operations.changes.change import ChangeEntry, ChangeKind, ChangeState
from lakehouse.stages import stage_log
from lakehouse.streams import status
from lakehouse.text import format_duration, join_limited

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from datetime import date, datetime

    from lakehouse.contracts import Catalog
    from lakehouse.gold.publication.held_numbers import RevertedPeriod
    from lakehouse.lake import Lake
    from lakehouse.ledger.decisions import Decision
    from lakehouse.ledger.late_decisions import LateDecision

_SHOWN = 3


class UnknownChangeError(LakehouseError):
    """No change, or more than one, has an id. The message lists the nearest ones."""


def changes(lake: Lake, catalog: Catalog, kinds: Collection[ChangeKind] = ()) -> list[ChangeEntry]:
    """All changes, the newest first.

    :param kinds: only these; all without any.
    """
    lake = lake.cached()
    readers = {
        _decided: {ChangeKind.DECISION},
        _decided_late: {ChangeKind.LATE_DECISION},
        _corrected: {ChangeKind.CORRECTION},
        _redacted: {ChangeKind.REDACTION},
        _rebuilt: {ChangeKind.REBUILD, ChangeKind.REPARSE},
        _backfilled: {ChangeKind.BACKFILL},
        _staged: {ChangeKind.STAGE},
        _signed_off: {ChangeKind.SIGN_OFF},
        _rejected: {ChangeKind.REJECTION},
        _reverted: {ChangeKind.REVERT},
        _promoted: {ChangeKind.PROMOTION},
        _promoted_models: {ChangeKind.MODEL},
        _cut_off: {ChangeKind.CUTOFF},
        _tuned: {ChangeKind.WATERMARK},
        _accepted_gaps: {ChangeKind.GAP},
    }
    listed = [
        change
        for read, of_reader in readers.items()
        if not kinds or of_reader & set(kinds)
        for change in read(lake, catalog)
        if not kinds or change.kind in kinds
    ]
    return sorted(listed, key=lambda change: (change.recorded_at, change.change_id), reverse=True)


def find(lake: Lake, catalog: Catalog, change_id: str) -> ChangeEntry:
    """The change with an id, or with the only id that begins like this.

    :raises UnknownChangeError: without exactly one such change.
    """
    known = changes(lake, catalog)
    matches = [change for change in known if change.change_id == change_id]
    matches = matches or [change for change in known if change.change_id.startswith(change_id)]
    if len(matches) != 1:
        how = f"{len(matches)} changes begin with" if matches else "no change is called"
        names = join_limited([change.change_id for change in matches or known], _SHOWN) or "none"
        msg = f"{how} {change_id!r}; {'they are' if matches else 'the newest are'} {names}"
        raise UnknownChangeError(msg)
    return matches[0]


def _decided(lake: Lake, catalog: Catalog) -> Iterator[ChangeEntry]:
    for source in catalog.sources:
        by_id: dict[str, list[Decision]] = defaultdict(list)
        for decision in decisions.all_of(lake, source):
            by_id[decision.decision_id].append(decision)
        for name, rows in by_id.items():
            first = rows[0]
            keys = join_limited(sorted({row.record_key for row in rows if row.record_key is not None}), _SHOWN)
            described = f"{first.verdict.value} {_rows(len(rows))}{': ' if keys else ''}{keys}"
            days = _span(day for row in rows for day in row.touched_days)
            yield ChangeEntry(name, ChangeKind.DECISION, source, described, first.by, first.reason, first.decided_at, days=days)


def _decided_late(lake: Lake, catalog: Catalog) -> Iterator[ChangeEntry]:
    for source in catalog.sources:
        by_id: dict[str, list[LateDecision]] = defaultdict(list)
        for decision in late_decisions.log(lake, source).read():
            by_id[decision.decision_id].append(decision)
        for name, rows in by_id.items():
            first = rows[0]
            described = f"{'admit' if first.counts else 'withdraw'} {_rows(len(rows))} that came too late"
            days = _span(day for row in rows for day in row.touched_days)
            kind = ChangeKind.LATE_DECISION
            yield ChangeEntry(name, kind, first.metric, described, first.by, first.reason, first.decided_at, days=days)


def _corrected(lake: Lake, catalog: Catalog) -> Iterator[ChangeEntry]:
    states = {
        correction_record.CorrectionEventKind.ENTERED: ChangeState.APPLIED,
        correction_record.CorrectionEventKind.REJECTED: ChangeState.CANCELLED,
    }
    for source in catalog.sources:
        for correction in correction_record.of_source(lake, source):
            proposal, end, described = correction.proposal, correction.end, correction.described
            name, state = correction.correction_id, ChangeState.PENDING if end is None else states[end.kind]
            kind, at = ChangeKind.CORRECTION, proposal.recorded_at
            yield ChangeEntry(name, kind, source, described, proposal.by, proposal.reason, at, state)


def _redacted(lake: Lake, catalog: Catalog) -> Iterator[ChangeEntry]:
    for source in catalog.sources:
        for entry in redactions.all_of(lake, source):
            described = f"mask {', '.join(entry.fields)} of {entry.record_key}"
            days, at = _span(entry.touched_days), entry.redacted_at
            yield ChangeEntry(entry.redaction_id, ChangeKind.REDACTION, source, described, entry.by, entry.reason, at, days=days)


def _rebuilt(lake: Lake, catalog: Catalog) -> Iterator[ChangeEntry]:
    """Rebuilds and readings; those of a backfill belong to it."""
    for source in catalog.sources:
        for entry in rebuild_requests.all_of(lake, source):
            if entry.operation == rebuild_requests.BACKFILL:
                continue
            is_reading = entry.operation == rebuild_requests.REPARSE
            kind = ChangeKind.REPARSE if is_reading else ChangeKind.REBUILD
            count = f"{_rows(entry.rows_judged_otherwise)} {'read' if is_reading else 'judged'} differently"
            days = (entry.first_day, entry.last_day)
            at = entry.recorded_at
            yield ChangeEntry(entry.operation_id, kind, source, count, entry.runner_id, entry.reason, at, days=days)


def _backfilled(lake: Lake, _: Catalog) -> Iterator[ChangeEntry]:
    states = {
        BackfillStatus.PLANNED: ChangeState.PENDING,
        BackfillStatus.RUNNING: ChangeState.RUNNING,
        BackfillStatus.FINISHED: ChangeState.APPLIED,
        BackfillStatus.FAILED: ChangeState.FAILED,
        BackfillStatus.CANCELLED: ChangeState.CANCELLED,
    }
    for plan in backfills.plans(lake):
        events = backfills.events(lake, plan.plan_id)
        state = states[backfills.status(events)]
        if any(event.kind == "undone" for event in events):
            state = ChangeState.UNDONE
        described = f"{len(plan.waves):,} {'wave' if len(plan.waves) == 1 else 'waves'}, {plan.clock} days"
        undo = f"lakehouse backfill undo {plan.plan_id} --by YOU --reason WHY" if state is ChangeState.APPLIED else None
        days, kind = (plan.first_day, plan.last_day), ChangeKind.BACKFILL
        by, at = plan.runner_id, plan.created_at
        yield ChangeEntry(plan.plan_id, kind, plan.target, described, by, plan.reason, at, state, days, undo=undo)


def _staged(lake: Lake, _: Catalog) -> Iterator[ChangeEntry]:
    states = {
        stage_log.StageEventKind.CREATED: ChangeState.PENDING,
        stage_log.StageEventKind.PROMOTING: ChangeState.RUNNING,
        stage_log.StageEventKind.PROMOTED: ChangeState.APPLIED,
        stage_log.StageEventKind.UNDONE: ChangeState.UNDONE,
        stage_log.StageEventKind.DROPPED: ChangeState.CANCELLED,
    }
    for stage in stage_log.all_of(lake):
        state = states[stage.state]
        undo = f"lakehouse stage undo {stage.name} --by YOU --reason WHY" if state is ChangeState.APPLIED else None
        made, kind = stage.created, ChangeKind.STAGE
        yield ChangeEntry(
            stage.name, kind, stage.source, made.described, made.by, made.reason, made.recorded_at, state, undo=undo
        )


def _signed_off(lake: Lake, _: Catalog) -> Iterator[ChangeEntry]:
    """Those of a held number or a close; the sign-off of a revert, a promotion or a stage belongs to it."""
    for entry in publications.signed_off(lake):
        if entry.trigger.keys().isdisjoint({"overruled", "closed_without"}):
            continue
        described = f"publish {join_limited(sorted(entry.published), _SHOWN)}"
        name, kind, by = entry.publication_id, ChangeKind.SIGN_OFF, entry.signed_off_by or ""
        yield ChangeEntry(name, kind, entry.series, described, by, entry.sign_off_reason or "", entry.recorded_at)


def _rejected(lake: Lake, _: Catalog) -> Iterator[ChangeEntry]:
    times = Counter[str]()
    for entry in sorted(held_numbers.rejected_log(lake).read(), key=lambda entry: entry.dropped_at):
        start = entry.period_start
        name, kind = f"{entry.series}:{start}:r{entry.revision}", ChangeKind.REJECTION
        times[name] += 1
        if times[name] > 1:  # of a closed number, which later ones would adjust, the revision stays
            name = f"{name}.{times[name]}"
        described = f"reject revision {entry.revision} of {start}"
        yield ChangeEntry(name, kind, entry.series, described, entry.by, entry.reason, entry.dropped_at, days=(start, start))


def _reverted(lake: Lake, _: Catalog) -> Iterator[ChangeEntry]:
    """One change for all periods that one command has reverted or released."""
    by_command: dict[tuple[str, RevertEvent, datetime, str, str], list[RevertedPeriod]] = defaultdict(list)
    for entry in sorted(held_numbers.revert_log(lake).read(), key=lambda entry: (entry.series, entry.number)):
        if entry.event is not RevertEvent.FOLLOWED:
            by_command[entry.series, entry.event, entry.recorded_at, entry.by, entry.reason].append(entry)
    kept = {series: held_numbers.kept_periods(lake, series) for series, *_ in by_command}
    for (series, event, at, by, reason), entries in by_command.items():
        starts = [entry.period_start for entry in entries]
        standing = tuple(entry.period_start for entry in entries if kept[series].get(entry.period_start) == entry)
        is_revert = event is RevertEvent.REVERTED
        to = " ".join(sorted({entry.version for entry in entries}))
        described = f"keep {to} for {_periods(starts)}" if is_revert else f"{_periods(starts)} follow silver again"
        undo = f"lakehouse gold release {series} {starts[0]} --by YOU --reason WHY" if standing else None
        state = ChangeState.UNDONE if is_revert and not standing else ChangeState.APPLIED
        name, kind, span = f"{series}:{entries[0].number}", ChangeKind.REVERT, _span(starts)
        yield ChangeEntry(name, kind, series, described, by, reason, at, state, span, undo=undo, periods=standing)


def _promoted(lake: Lake, catalog: Catalog) -> Iterator[ChangeEntry]:
    for metric in sorted({metric.metric for metric in catalog.metrics.values()}):
        moves = promotion_log.of(lake, metric)
        for number, entry in enumerate(moves):
            described = f"{entry.kind.value} v{entry.from_version} -> v{entry.to_version}, {entry.periods:,} periods"
            is_newest, is_forward = number == len(moves) - 1, entry.kind is PromotionKind.PROMOTE
            undo = f"lakehouse gold rollback {metric} --reason WHY" if is_newest and is_forward else None
            followed = moves[number + 1 :][:1]
            state = ChangeState.UNDONE if is_forward and _goes_back(entry, followed) else ChangeState.APPLIED
            kind, at = ChangeKind.PROMOTION, entry.moved_at
            yield ChangeEntry(entry.move_id, kind, metric, described, entry.by, entry.reason, at, state, undo=undo)


def _goes_back(entry: promotion_log.PromotionEntry, followed: list[promotion_log.PromotionEntry]) -> bool:
    return any(one.kind is PromotionKind.ROLLBACK and one.to_version == entry.from_version for one in followed)


def _promoted_models(lake: Lake, catalog: Catalog) -> Iterator[ChangeEntry]:
    for model in catalog.models:
        entries = model_promotions.completed(lake, model)
        for entry in entries:
            undo = f"lakehouse model rollback {model} --notes WHY" if entry is entries[-1] and entry.from_version else None
            name, kind = f"{model}:{entry.number}", ChangeKind.MODEL
            yield ChangeEntry(name, kind, model, entry.title, entry.by, entry.notes, entry.recorded_at, undo=undo)


def _cut_off(lake: Lake, catalog: Catalog) -> Iterator[ChangeEntry]:
    for source in catalog.sources:
        for number, entry in enumerate(cutoff.of(lake, source), 1):
            before = "none" if entry.seconds_before is None else format_duration(timedelta(seconds=entry.seconds_before))
            of_type = f" of {entry.event_type}" if entry.event_type else ""
            now = format_duration(timedelta(seconds=entry.seconds))
            described = f"cutoff{of_type} {before} -> {now} for arrivals from {entry.since}"
            name, kind = f"{source}:cutoff:{number}", ChangeKind.CUTOFF
            yield ChangeEntry(name, kind, source, described, entry.by, entry.reason, entry.decided_at)


def _tuned(lake: Lake, catalog: Catalog) -> Iterator[ChangeEntry]:
    for source in catalog.sources:
        entries = event_watermark.decisions_of(lake, source)
        for entry in entries:
            spans = [format_duration(timedelta(seconds=seconds)) for seconds in (entry.seconds_before, entry.seconds)]
            described = f"max_lateness {entry.kind}: {' -> '.join(spans)}"
            can_go_back = entry is entries[-1] and entry.kind == "applied"
            undo = f"lakehouse lateness undo {source} --by YOU --reason WHY" if can_go_back else None
            name, kind = f"{source}:watermark:{entry.number}", ChangeKind.WATERMARK
            yield ChangeEntry(name, kind, source, described, entry.by, entry.reason, entry.decided_at, undo=undo)


def _accepted_gaps(lake: Lake, catalog: Catalog) -> Iterator[ChangeEntry]:
    for source in catalog.sources:
        accepted = [entry for entry in status.gap_entries(lake, source) if entry.by is not None]
        for number, entry in enumerate(accepted, 1):
            name, kind = f"{source}:gap:{number}", ChangeKind.GAP
            yield ChangeEntry(name, kind, source, entry.text, entry.by or "", entry.reason or "", entry.recorded_at)


def _span(days: Iterable[date]) -> tuple[date, date] | None:
    known = sorted(days)
    return (known[0], known[-1]) if known else None


def _rows(count: int) -> str:
    return f"{count:,} {'row' if count == 1 else 'rows'}"


def _periods(starts: list[date]) -> str:
    return join_limited([f"{start}" for start in starts], _SHOWN, " periods")
