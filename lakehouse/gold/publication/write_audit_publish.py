"""Write, audit, publish: drafts are written to the candidates, read back and checked, then published in one commit or held (R8).

The steps are the same for every series. Drafting belongs to ``restatement.days``, ``restatement.rollups`` and ``promotion.plan``;
the commit itself to ``revisions``.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from deltalake.exceptions import CommitFailedError
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from lakehouse import locations, pieces
from lakehouse.calendar.periods import Kind
from lakehouse.contracts.series import days_reached
from lakehouse.delta import layout, provenance
from lakehouse.gold.numbers import history, published_table
from lakehouse.gold.numbers.lifecycle import PublishAction, RevisionReason
from lakehouse.gold.publication import candidates, revisions
from lakehouse.gold.publication import checks as publication_checks
from lakehouse.gold.publication.revisions import Revision, Signature
from lakehouse.lake import table_io
from lakehouse.lake.table_cache import look_again
from lakehouse.ledger import failures

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import date

    import pyarrow as pa
    from deltalake import DeltaTable

    from lakehouse.contracts.series import Series
    from lakehouse.gold.numbers.lifecycle import PublishedState
    from lakehouse.gold.publication.candidates import Draft
    from lakehouse.lake import Lake
    from lakehouse.quality.check_rules import CheckResult

_ATTEMPTS = 20
#: Repeats a function from a fresh read when another writer has committed in between.
again_on_conflict = retry(
    retry=retry_if_exception_type(CommitFailedError),
    stop=stop_after_attempt(_ATTEMPTS),
    wait=wait_random_exponential(multiplier=0.1, max=3),
    before_sleep=lambda _: look_again(),
    reraise=True,
)


@dataclass(frozen=True)
class Run:
    """The run that publishes.

    :param reason: the reason why it changes numbers, unless that is determined by the data.
    :param by: the person who started it.
    :param explanation: the reason in words, for people.
    :param backfill: the name of the backfill plan or of the stage that it belongs to.
    :param sign_off: why numbers that fail a blocking check are published all the same, signed off by ``by``; None to hold them.
    """

    run_id: str
    job_name: str = "lakehouse"
    reason: RevisionReason | None = None
    by: str | None = None
    explanation: str | None = None
    backfill: str | None = None
    sign_off: str | None = None

    @property
    def about(self) -> dict[str, str]:
        """The part of a publication's trigger that names the backfill plan."""
        return {"backfill": self.backfill} if self.backfill else {}


@dataclass(frozen=True)
class PublishResult:
    """The result of a publishing run.

    :param revisions: the revisions and adjustments that it published.
    :param held: the first days of the periods whose new number is held.
    :param outcomes: the results of the checks on every new number.
    :param lineage: the metadata of the commit; empty if nothing was committed.
    """

    revisions: list[Revision] = field(default_factory=list)
    held: list[date] = field(default_factory=list)
    outcomes: list[CheckResult] = field(default_factory=list)
    lineage: Mapping[str, Any] = field(default_factory=dict)

    @property
    def days(self) -> set[date]:
        """The first days of the periods that got a revision or an adjustment."""
        return {revision.start for revision in self.revisions}


@dataclass(frozen=True)
class SeriesSnapshot:
    """A series before the inputs of drafts were read, with all rows of the requested periods (``starts``)."""

    series: Series
    table: DeltaTable | None
    existing: pa.Table | None
    starts: Sequence[date]

    @cached_property
    def published_states(self) -> dict[date, PublishedState]:
        """The newest published number of each period."""
        return published_table.published_states(self.existing, self.series.by)

    @cached_property
    def latest(self) -> dict[date, pa.Table]:
        """The content of the newest revision of each period that has one."""
        return {} if self.existing is None else published_table.latest(self.existing, self.series)


def read(lake: Lake, series: Series, starts: Sequence[date] | None = None, *, to_publish: bool = True) -> SeriesSnapshot:
    """Open a series: if another run publishes one of the periods from now on, a commit through it fails.

    :param starts: the first days of the periods; by default all that the table has.
    :param to_publish: False if nothing will be published through it; then an already open table is used.
    :raises LostNumbersError: if the table has lost published versions, and something is to be published.
    """
    if to_publish:
        revisions.make_up_for_lost_commits(lake, series)
    published = locations.gold(lake, series)
    table = published.newest_snapshot() if to_publish else published.open()  # the inputs have to be as new as it
    existing = None if table is None else table_io.read_version(table, None, None if starts is None else {series.by: starts})
    if starts is None:
        starts = [] if existing is None else sorted(set(existing[series.by].to_pylist()))
    return SeriesSnapshot(series, table, existing, starts)


def publish(
    lake: Lake,
    before: SeriesSnapshot,
    drafts: Sequence[Draft],
    run: Run,
    why: Mapping[str, Any],
    expected: Mapping[date, int] | None = None,
    uncomputed: Mapping[date, tuple[str | None, str]] | None = None,
) -> PublishResult:
    """Write drafts to the candidates, check them, publish those that pass, and hold the others.

    :param why: metadata for the commit: input versions, trigger, downstream tables.
    :param expected: the number of Silver rows that each number should cover, counted independently.
    :param uncomputed: the periods among those of ``before`` whose number cannot be computed: the measure and the explanation.
    :raises CommitFailedError: when another run published one of the periods since ``before`` was read.
    """
    lake = lake.cached()
    unbookable = _unbookable(before, drafts)
    done = _publish(lake, before, [draft for draft in drafts if draft.start not in unbookable], run, why, expected)
    failed = {**(uncomputed or {}), **unbookable}
    mended = failures.record(lake, before.series, failed, before.starts, run.run_id)
    outcomes = [publication_checks.computed(start, explanation) for start, (_, explanation) in failed.items()]
    judged = {outcome.day for outcome in done.outcomes}
    outcomes += [publication_checks.computed(start) for start in mended if start not in judged]
    if not outcomes:
        return done
    return replace(done, held=sorted({*done.held, *failed}), outcomes=[*done.outcomes, *outcomes])


def _publish(
    lake: Lake,
    before: SeriesSnapshot,
    drafts: Sequence[Draft],
    run: Run,
    why: Mapping[str, Any],
    expected: Mapping[date, int] | None,
) -> PublishResult:
    series = before.series
    starts = [draft.start for draft in drafts]
    waiting = {held.start for held in candidates.held(lake, series, before.starts)}
    if not drafts:
        candidates.settle(lake, series, waiting, {})
        return PublishResult()
    proposed = [(draft, next_revision(draft, before.published_states.get(draft.start))) for draft in drafts]
    candidates.propose(lake, series, proposed, run.run_id, lake.now())
    read_back = candidates.read_back(lake, series, proposed)
    before_these = trailing(lake, series, starts)
    failed_inputs = _failed_inputs(lake, series)
    outcomes: list[CheckResult] = []
    failed: dict[date, list[CheckResult]] = {}
    for checked, (draft, revision) in enumerate(proposed, 1):
        candidate = replace(
            candidate_of(before, draft.start, revision, draft.rows),
            read_back=read_back[draft.start],
            trailing=before_these,
            silver_rows=(expected or {}).get(draft.start),
            failed_inputs=failed_inputs.get(draft.start),
        )
        findings = publication_checks.audit(series.checks, candidate)
        outcomes += findings
        blocking = publication_checks.blocking(findings)
        if blocking and not run.sign_off:
            failed[draft.start] = blocking
        pieces.report(f"numbers of {series.name} checked", checked, len(proposed))
    passed = [draft for draft in drafts if draft.start not in failed]
    done: list[Revision] = []
    lineage: Mapping[str, Any] = {}
    if passed:
        failures = sum(not outcome.passed for outcome in outcomes)
        validation = {"checks": len(outcomes), "failed": failures, "held": len(failed)}
        signed = signature(lake, series, run, {**why, "validation": validation}, run.sign_off)
        done = revisions.publish(lake, series, before.table, before.existing, passed, signed)
        lineage = {"publication_id": signed.publication_id, **signed.why}
    # The publication must be reported in any case: on a conflict only the clean-up of the candidates is repeated.
    settle = again_on_conflict(candidates.settle) if done else candidates.settle
    settle(lake, series, {*starts, *waiting}, failed)
    for table in (locations.gold(lake, series), locations.candidates(lake, series)):
        layout.keep(lake, table)
    return PublishResult(done, sorted(failed), outcomes, lineage)


def _unbookable(before: SeriesSnapshot, drafts: Sequence[Draft]) -> dict[date, tuple[str | None, str]]:
    """The closed periods whose adjustment does not fit the type of a measure: the measure and the explanation."""
    adjusted = [draft for draft in drafts if draft.action is PublishAction.ADJUSTMENT]
    series = before.series
    failed: dict[date, tuple[str | None, str]] = {}
    published = table_io.split(before.existing, series.by) if adjusted and before.existing is not None else {}
    for draft in adjusted:
        problem = history.unbookable(series, published.get(draft.start), draft.rows)
        if problem is not None:
            measure = next((one for one in series.metric.measures if one.name == problem.name), None)
            failed[draft.start] = (problem.name, failures.explained(series, draft.start, measure, problem))
    return failed


def candidate_of(before: SeriesSnapshot, start: date, revision: int, rows: pa.Table) -> publication_checks.Candidate:
    """The number that would be ``revision`` of a period, for its checks; it counts as read back as it was computed."""
    return publication_checks.Candidate(
        metric=before.series.name,
        period=start,
        revision=revision,
        grain=before.series.grain,
        rows=rows,
        read_back=rows,
        published=_with_adjustments(before, start),
    )


def _with_adjustments(before: SeriesSnapshot, start: date) -> pa.Table | None:
    """The newest number of a period, with its adjustments: what a checked number is compared with."""
    latest = before.latest.get(start)
    if latest is None or before.existing is None or before.published_states[start].restated is None:
        return latest
    of_period = table_io.meeting(before.existing, {before.series.by: [start]})
    return history.with_adjustments(before.series, of_period, latest.schema)


def _failed_inputs(lake: Lake, series: Series) -> dict[date, str]:
    """By day, the failing checks of the silver rows and arrivals from which its number is computed.

    Longer periods and derived numbers are made of published numbers, which were held themselves.
    """
    if series.kind is not Kind.DAY:
        return {}
    failing: dict[date, dict[str, None]] = {}
    for source in {*series.metric.sources_read}:
        for day, entries in failures.by_event_day(lake, source).items():
            texts = {f"{entry.table} {entry.check} of {entry.day}: {entry.explanation}": None for entry in entries}
            for reached in days_reached(series.metric, [day]):
                failing.setdefault(reached, {}).update(texts)
    return {day: "; ".join(texts) for day, texts in failing.items()}


@again_on_conflict
def remove_published_candidates(lake: Lake, series: Series) -> None:
    """Remove the candidates that a run published before it was stopped, because no later run requests these periods."""
    unfinished = [held for held in candidates.held(lake, series) if not held.failed]
    if not unfinished:
        return
    published_states = read(lake, series, [held.start for held in unfinished]).published_states
    done = []
    for held in unfinished:
        published = published_states.get(held.start)
        is_published = published and published_table.is_content(held.draft.rows, published.restated or published.content)
        if published and is_published and published.state.rank >= held.draft.state.rank:
            done.append(held.start)
    candidates.settle(lake, series, done, {})


def next_revision(draft: Draft, before: PublishedState | None) -> int:
    """The revision number that a draft would get; an adjustment has that of the closed number."""
    return (before.revision if before else 0) + (draft.action is not PublishAction.ADJUSTMENT)


def signature(lake: Lake, series: Series, run: Run, why: Mapping[str, Any], reason: str | None = None) -> Signature:
    """The run, code and contract of a publication made now.

    :param reason: why a person signs it off; None without a sign-off.
    """
    code, contract = provenance.code(), provenance.of_contract(series.metric)
    signed_by = run.by if reason else None
    metadata = {**why, "job_name": run.job_name, "by": run.by, "code_version": code, "contract_version": contract}
    metadata["code_commit"] = provenance.commit_of_contracts(lake)
    metadata |= {"signed_off_by": signed_by, "sign_off_reason": reason}
    return Signature(run.run_id, code, contract, uuid.uuid4().hex, lake.now(), signed_by, reason, metadata)


def trailing(lake: Lake, series: Series, starts: Collection[date]) -> pa.Table | None:
    """The newest numbers of the days before ``starts``, as far back as the contract's checks need; None if they need none."""
    look_back = series.checks.trailing_days
    if not look_back:
        return None
    wanted = sorted({start - timedelta(days=back) for start in starts for back in range(1, look_back + 1)})
    columns = [series.by, *series.content, "is_latest"]
    found = locations.gold(lake, series).read(columns, {series.by: wanted})
    return None if found is None else found.filter(found["is_latest"]).drop_columns(["is_latest"])
