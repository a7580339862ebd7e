"""Drafts and candidates: the numbers that a period may be published with, checked before readers see them (rule R8).

A draft also has the form of its publication. ``gold/<series>_candidates`` has the numbers that are being checked and those that
are *held*. A period has at most one candidate, the newest. A published candidate is removed in the commit after the one that
published it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake.exceptions import CommitFailedError

from lakehouse import locations
from lakehouse.contracts.series import CANDIDATE, LINEAGE, Origin, named
from lakehouse.delta import layout, partition_writer, provenance
from lakehouse.gold.numbers import lifecycle, window_history
from lakehouse.gold.numbers.lifecycle import PublishAction, RevisionReason, State
from lakehouse.gold.numbers.published_table import arrow_schema, content_of, digest
from lakehouse.lake import table_io
from lakehouse.ledger import failures as failed_numbers

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import date, datetime

    from lakehouse.contracts.publication import PublicationRules
    from lakehouse.contracts.series import Series
    from lakehouse.gold.numbers.window_history import WindowReason
    from lakehouse.gold.publication.write_audit_publish import SeriesSnapshot
    from lakehouse.lake import Lake
    from lakehouse.quality.check_rules import CheckResult


@dataclass(frozen=True)
class NumberLineage:
    """The inputs of a number; they stay the same when the number is published again.

    The fields are the published columns of :data:`LINEAGE`. ``code_version`` and ``contract_version`` are set if an earlier run
    computed the number; otherwise they are those of the publishing run. ``dimension_inputs`` has the inputs of the further
    sources and of the dimensions that the metric joins, as ``restatement.lineage.record_others`` writes them.
    """

    undecided_rows: int = 0
    known_through: date | None = None
    made_from: str | None = None
    inputs: str | None = None
    inputs_without: str | None = None
    dimension_inputs: str | None = None
    silver_version: int | None = None
    code_version: str | None = None
    contract_version: str | None = None

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> NumberLineage:
        """The lineage in a published row or a candidate; columns that an earlier release did not have are empty."""
        return cls(**{name: row[name] for name in LINEAGE if name in row})


@dataclass(frozen=True)
class Draft:
    """A number that may become a revision or an adjustment of a period.

    :param start: the first day of the period.
    :param rows: the content columns of the series, in the order of the grain; for an adjustment, what a restatement would
        publish.
    :param explanation: why the number differs from the published one, for people.
    :param changed_rows: the number of changes of Silver rows that led to it, if known.
    :param booked_on: the open day that an adjustment is booked to.
    :param windows: why the number of each window differs, by ``window_history.place``; empty if that is not known.
    """

    start: date
    rows: pa.Table
    state: State
    action: PublishAction
    reason: RevisionReason
    explanation: str | None = None
    changed_rows: int | None = None
    booked_on: date | None = None
    windows: Mapping[str, WindowReason] = field(default_factory=dict)
    lineage: NumberLineage = field(default_factory=NumberLineage)

    @property
    def content(self) -> str:
        """The digest of the rows; for an adjustment, that of the closed number plus the adjustment."""
        return digest(self.rows)


@dataclass(frozen=True)
class DraftTerms:
    """What decides the state of a draft.

    :param today: the day in the metric's calendar.
    :param at_most: the latest state that the known input of the period permits.
    :param rules: when a number is final and what may change it afterwards; default: the rules of the series' contract.
    """

    today: date
    at_most: State = State.FINAL
    rules: PublicationRules | None = None


def draft_period(
    before: SeriesSnapshot,
    start: date,
    rows: pa.Table,
    terms: DraftTerms,
    *,
    requested: RevisionReason | None = None,
    causes: Mapping[str, int] | None = None,
    content: str | None = None,
) -> Draft | None:
    """Draft the publication of a period's number; None if there is nothing to publish.

    :param requested: the reason that the run gives; None if it follows the data.
    :param causes: the changes of the number's Silver rows: counts of inserted, corrected, moved and deleted keys.
    :param content: the digest to compare with the published content; default: that of ``rows``.
    """
    published, today, last = before.published_states.get(start), terms.today, before.series.period(start).last
    rules = terms.rules or before.series.metric.publication
    state = lifecycle.state_of(published, last, today, rules, terms.at_most)
    action = lifecycle.publish_action(published, content or content_of(rows, lifecycle.contents_of(published)), state, rules)
    if action is PublishAction.NOTHING:
        return None
    return Draft(
        start=start,
        rows=rows,
        state=state,
        action=action,
        reason=lifecycle.reason_for(action, published, requested, causes or {}, is_running=lifecycle.is_running(last, today)),
        booked_on=today if action is PublishAction.ADJUSTMENT else None,
    )


_SCHEMA = arrow_schema(CANDIDATE)


@dataclass(frozen=True)
class HeldCandidate:
    """A candidate that is not published: the revision that it would be, and per failed check the explanation.

    If no check failed, its run was stopped before all checks had ended; computing the period again resolves it.
    """

    start: date
    revision: int
    draft: Draft
    failed: Mapping[str, str]
    proposed_at: datetime
    run_id: str

    @property
    def identity(self) -> tuple[object, ...]:
        """The values that two equal candidates of a period share."""
        return _identity(self.draft, self.revision)


def with_cause(before: SeriesSnapshot, draft: Draft) -> list[Draft]:
    """The draft of a number that is made of published numbers; none if it adjusts a closed one and names the same inputs.

    Then only redacted values were masked in them, which books nothing.
    """
    if draft.action is not PublishAction.ADJUSTMENT or before.existing is None:
        return [draft]
    rows = table_io.meeting(before.existing, {before.series.by: [draft.start]})
    newest = max(rows.select(["revision", "adjustment", "made_from"]).to_pylist(), key=_version)
    return [] if newest["made_from"] == draft.lineage.made_from else [draft]


def _version(row: Mapping[str, Any]) -> tuple[int, int]:
    return row["revision"], row["adjustment"] or 0


def propose(lake: Lake, series: Series, drafts: Sequence[tuple[Draft, int]], run_id: str, now: datetime) -> None:
    """Write drafts, each with the revision that it would be; they replace older candidates of their periods.

    A draft that is already a candidate is not written again, so that ``proposed_at`` stays the time of its first proposal.

    :raises CommitFailedError: when another run proposes a number for one of the periods at the same time.
    """
    waiting = {one.start: one.identity for one in held(lake, series, [draft.start for draft, _ in drafts])}
    new = [(draft, number) for draft, number in drafts if waiting.get(draft.start) != _identity(draft, number)]
    if not new:
        return
    rows = pa.concat_tables([_rows(series, draft, number, run_id, now) for draft, number in new], promote_options="default")
    where = locations.candidates(lake, series)
    table = where.open()
    if table is None:
        partition_by, properties = layout.of_days(lake, series.by, partition_writer.ALL_STATISTICS)
        table = partition_writer.create(where, rows.schema, partition_by, properties=properties)
    partition_writer.replace(table, rows, [draft.start for draft, _ in new])


def read_back(lake: Lake, series: Series, drafts: Sequence[tuple[Draft, int]]) -> dict[date, pa.Table]:
    """Read the content of proposed drafts from the candidates table.

    :raises CommitFailedError: when another run has replaced or settled one of them meanwhile.
    """
    where = {series.by: [draft.start for draft, _ in drafts]}
    columns = [series.by, *series.content, "content", "revision"]
    table = locations.candidates(lake, series).read(columns, where)
    candidates_by_start = {} if table is None else table_io.split(table, series.by)
    for draft, number in drafts:
        rows = candidates_by_start.get(draft.start)
        proposed = set() if rows is None else {*zip(rows["content"].to_pylist(), rows["revision"].to_pylist())}
        if rows is None or proposed != {(content_of(draft.rows, {content for content, _ in proposed}), number)}:
            msg = f"another run is publishing {series.name} for {draft.start}; run it again later"
            raise CommitFailedError(msg)
    return {start: rows.select(series.content) for start, rows in candidates_by_start.items()}


def settle(lake: Lake, series: Series, starts: Collection[date], failed: Mapping[date, Sequence[CheckResult]]) -> None:
    """Keep the candidates that failed, with the explanations of their checks, and remove the others of ``starts``.

    :raises CommitFailedError: when another run has removed a failed candidate, or writes to the table at the same time.
    """
    table = locations.candidates(lake, series).open()
    if table is None or not starts:
        return
    failures = {start: {one.check: one.explanation or "failed" for one in outcomes} for start, outcomes in failed.items()}
    if {one.start: one.failed for one in held(lake, series, starts)} == failures:
        return
    kept = table_io.read_version(table, None, {series.by: list(failed)})
    if set(kept[series.by].to_pylist()) != set(failed):
        msg = f"another run is publishing {series.name}; run it again later"
        raise CommitFailedError(msg)
    stored = pa.array([json.dumps(failures[start]) for start in kept[series.by].to_pylist()], pa.string())
    partition_writer.replace(table, kept.set_column(kept.column_names.index("failed"), "failed", stored), starts)


def remove(lake: Lake, series: Series, decided: HeldCandidate) -> None:
    """Remove a candidate that a person decided on; a candidate that was proposed for the period since then stays.

    :raises CommitFailedError: when another run writes to the table at the same time.
    """
    table = locations.candidates(lake, series).snapshot()
    if table is not None and [one.identity for one in held(lake, series, [decided.start])] == [decided.identity]:
        partition_writer.replace(table, table_io.read_version(table, None, {series.by: []}), [decided.start])


def held(lake: Lake, series: Series, starts: Collection[date] | None = None) -> list[HeldCandidate]:
    """The candidates, by period."""
    where = None if starts is None else {series.by: starts}
    table = locations.candidates(lake, series).read(None, where)
    if table is None:
        return []
    result = []
    for start, rows in sorted(table_io.split(table, series.by).items()):
        row = table_io.with_columns(rows.slice(0, 1), _SCHEMA.names).to_pylist()[0]
        draft = Draft(
            start=start,
            rows=rows.select([name for name in series.content if name in rows.column_names]),  # it may have more now
            state=State(row["state"]),
            action=PublishAction(row["step"]),
            reason=RevisionReason(row["reason"]),
            explanation=row["explanation"],
            changed_rows=row["changed_rows"],
            booked_on=row["booked_on"],
            windows=window_history.by_place(rows, series.metric),
            lineage=NumberLineage.of_row(row),
        )
        failed = json.loads(row["failed"] or "{}")
        result.append(HeldCandidate(start, row["revision"], draft, failed, row["proposed_at"], row["run_id"]))
    return result


def failing(lake: Lake, series: Series) -> dict[date, dict[str, str]]:
    """The checks that the candidate of each period failed, by name, with explanations; without candidates that are still being
    checked.
    """
    table = locations.candidates(lake, series).read([series.by, "failed"], None)
    failed_by_start = {} if table is None else dict(zip(table[series.by].to_pylist(), table["failed"].to_pylist()))
    checks = {start: dict(sorted(json.loads(failed).items())) for start, failed in sorted(failed_by_start.items()) if failed}
    return {start: reasons for start, reasons in checks.items() if reasons}


def holding(lake: Lake, series: Series) -> dict[date, list[str]]:
    """The checks that hold the newest number of each period: those that its candidate failed, or that it cannot be computed."""
    checks = {start: [*reasons] for start, reasons in failing(lake, series).items()}
    for start in failed_numbers.failing(lake, series.name):
        checks[start] = [*checks.get(start, ()), failed_numbers.COMPUTED]
    return checks


def _identity(draft: Draft, revision: int) -> tuple[object, ...]:
    return (draft.content, revision, draft.state, draft.action, draft.reason, draft.lineage.inputs, draft.lineage.inputs_without)


def _rows(series: Series, draft: Draft, revision: int, run_id: str, now: datetime) -> pa.Table:
    values: dict[str, Any] = {name: getattr(draft, name) for name in named(CANDIDATE, Origin.DRAFT)} | vars(draft.lineage)
    values |= {
        "code_version": draft.lineage.code_version or provenance.code(),
        "contract_version": draft.lineage.contract_version or provenance.of_contract(series.metric),
        "revision": revision,
        "state": draft.state.value,
        "step": draft.action.value,
        "reason": draft.reason.value,
        "failed": None,
        "proposed_at": now,
        "run_id": run_id,
    }
    size = len(draft.rows)
    columns = {series.by: pa.array([draft.start] * size, pa.date32())}
    columns |= {name: draft.rows[name] for name in draft.rows.column_names}
    columns |= window_history.stored(draft.rows, series.metric, draft.windows)
    return pa.table(columns | {item.name: pa.array([values[item.name]] * size, item.type) for item in _SCHEMA})
