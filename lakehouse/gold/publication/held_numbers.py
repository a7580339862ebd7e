"""The numbers that are not published: those that failed a check, those that a person refused, and those of reverted periods (R8).

A person decides about a held number: sign it off, so that it is published, or drop it. ``ops/dropped`` has the dropped numbers;
the same number is not proposed again.

``ops/reverts`` has the periods that a person has reverted to an earlier revision, and their release. A reverted period keeps its
number, whatever Silver contains, until it is released; then it is computed again. Reverting a number belongs to
``restatement.revert``.

The checks that fail, and the numbers that they hold, are those in the tables now. Commands that update numbers end with them (see
``cli.console.end_of_update``), whichever run failed them.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from deltalake.exceptions import CommitFailedError

from lakehouse import locations
from lakehouse.contracts.series import Series
from lakehouse.errors import LakehouseError
from lakehouse.gold.numbers import lifecycle
from lakehouse.gold.numbers.lifecycle import RevisionReason, State
from lakehouse.gold.publication import candidates, late_at_close, restatement_reports, revisions, write_audit_publish
from lakehouse.gold.publication.write_audit_publish import Run, again_on_conflict
from lakehouse.ledger import failures
from lakehouse.ledger.log_table import LogTable

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Mapping
    from datetime import date, datetime

    import pyarrow as pa

    from lakehouse.calendar.periods import Period
    from lakehouse.contracts import Catalog
    from lakehouse.gold.publication.candidates import HeldCandidate
    from lakehouse.gold.publication.revisions import Revision
    from lakehouse.lake import Lake


class HoldError(LakehouseError):
    """A held number that does not exist, or has another revision than the given one. The message names the held number."""


@again_on_conflict
def sign_off(
    lake: Lake, series: Series, period: Period, revision: int, run: Run, reason: str, at_most: State = State.FINAL
) -> Revision | None:
    """Publish a held number on a person's responsibility; calling it again changes nothing.

    :param run: names the person.
    :param at_most: the latest state that the known input of the period permits.
    :returns: the published revision; None if readers already see the number.
    :raises HoldError: if another revision, or none, is held; if the period is reverted.
    """
    lake = lake.cached()
    if kept := kept_periods(lake, series.name, [period.start]).get(period.start):
        msg = (
            f"{series.name} {period.name} is put back to {kept.version} by {kept.by}, and nothing else is published for it; "
            f"let it follow silver again first: lakehouse gold release {series.metric.name} {period.name}"
        )
        raise HoldError(msg)
    before = write_audit_publish.read(lake, series, [period.start])
    held = _held(lake, series, period, revision)
    published_state, today = (
        before.published_states.get(period.start),
        lifecycle.today(lake.now(), series.metric.publication),
    )
    at_most = late_at_close.at_most(series, published_state, held.draft.state, at_most)
    current = candidates.draft_period(before, period.start, held.draft.rows, candidates.DraftTerms(today, at_most))
    published: list[Revision] = []
    if current is not None:
        draft = replace(held.draft, state=current.state, action=current.action, booked_on=current.booked_on)
        expected = write_audit_publish.next_revision(draft, published_state)
        if expected != revision:
            msg = (
                f"{series.name} has changed: the held number for {period.name} would be r{expected} now, not r{revision}; "
                f"review it with 'lakehouse gold held {series.metric.name}'"
            )
            raise HoldError(msg)
        inputs = {"version": draft.lineage.silver_version, "inputs": draft.lineage.inputs}
        why = {
            "trigger": {"held_since": held.proposed_at, "overruled": dict(held.failed)},
            "input_versions": {f"silver/{locations.silver_name(series.metric)}": inputs},
        }
        signed = write_audit_publish.signature(lake, series, run, why, reason)
        published = revisions.publish(lake, series, before.table, before.existing, [draft], signed)
    candidates.remove(lake, series, held)
    restatement_reports.follow(lake, series)
    return published[0] if published else None


def drop(lake: Lake, series: Series, period: Period, revision: int, by: str, reason: str) -> None:
    """Refuse a held number: the published one stays, and the same number is not proposed again.

    :raises HoldError: if another revision, or none, is held.
    """
    held = _held(lake, series, period, revision)
    entry = RejectedCandidate(series.name, period.start, revision, held.draft.content, by, reason, lake.now())
    record_rejected(lake, entry, held.proposed_at)
    again_on_conflict(candidates.remove)(lake, series, held)


def _held(lake: Lake, series: Series, period: Period, revision: int) -> HeldCandidate:
    held = candidates.held(lake, series, [period.start])
    if not held:
        msg = f"no number of {series.name} is held for {period.name}"
        raise HoldError(msg)
    if held[0].revision != revision:
        msg = f"the held number of {series.name} for {period.name} is r{held[0].revision}, not r{revision}"
        raise HoldError(msg)
    return held[0]


class _EveryNumber:
    """A container of every digest: a reverted period refuses all numbers."""

    def __contains__(self, content: object) -> bool:
        return True


def find_refused(lake: Lake, series: Series, existing: pa.Table | None, starts: Collection[date]) -> dict[date, Container[str]]:
    """The digests of the numbers of each period that were refused since its content was last published; all for a reverted
    period.

    :param existing: all rows of these periods.
    """
    published: dict[date, datetime] = {}
    names = [series.by, "revision", "is_latest", "adjustment", "published_at", "restated_on", "reason"]
    for row in [] if existing is None else existing.select(names).to_pylist():
        start, content_since = row[series.by], row["restated_on"]
        if RevisionReason(row["reason"]).is_growth or row["adjustment"]:
            content_since = row["published_at"]
        if content_since is not None and (start not in published or content_since > published[start]):
            published[start] = content_since
    refused: dict[date, set[str]] = defaultdict(set)
    for entry in rejected(lake, series.name, starts):
        if entry.period_start not in published or entry.dropped_at >= published[entry.period_start]:
            refused[entry.period_start].add(entry.content)
    return {**refused, **dict.fromkeys(kept_periods(lake, series.name, starts), _EveryNumber())}


#: By check, with its table, and partition: a sentence for people.
Failures = dict[tuple[str, str], str]


def failures_of_source(lake: Lake, catalog: Catalog, source: str) -> Failures:
    """The failing checks of a source, and the held numbers of all metrics that follow it."""
    failing = {(f"{one.table} {one.check}", f"{one.day}"): one.explanation for one in failures.failing_checks(lake, source)}
    return _sentences(failing) | failures_of_metrics(lake, catalog, [metric.name for metric in catalog.metrics_following(source)])


def failures_of_metrics(lake: Lake, catalog: Catalog, names: Collection[str]) -> Failures:
    """The held numbers of metrics, days first."""
    failing: Failures = {}
    for name in names:
        daily = Series(catalog.metrics[name])
        for series in (daily, *daily.rollups):
            for start, reasons in candidates.failing(lake, series).items():
                failing |= {(f"gold/{series.name} {check}", f"{start}"): why for check, why in reasons.items()}
            for start, failed in failures.failing(lake, series.name).items():
                failing[f"gold/{series.name} {failures.COMPUTED}", f"{start}"] = f"{failed.explanation}."
    return _sentences(failing)


def failure_sentence(check: str, partition: str, explanation: str | None) -> str:
    """A failed check as a sentence.

    :param check: the table and the name of the check.
    """
    return f"{check} failed for {partition}: {explanation or 'no reason is given'}"


def _sentences(failing: Failures) -> Failures:
    return {place: failure_sentence(*place, explanation) for place, explanation in failing.items()}


@dataclass(frozen=True)
class RejectedCandidate:
    """A refused candidate: the digest of its content, the revision that it would have been, and by whom, why and when it was
    refused.
    """

    series: str
    period_start: date
    revision: int
    content: str
    by: str
    reason: str
    dropped_at: datetime


def rejected_log(lake: Lake) -> LogTable[RejectedCandidate]:
    """The table."""
    return LogTable(RejectedCandidate, lake, locations.rejected_candidates(lake), partition_by="series", journaled=True)


def record_rejected(lake: Lake, entry: RejectedCandidate, proposed_at: datetime) -> None:
    """Append a refusal, once; the same number may be proposed again after another one was published, and refused again."""
    app_id = f"dropped:{entry.series}:{entry.period_start}:{entry.revision}:{entry.content}:{proposed_at.isoformat()}"
    rejected_log(lake).append([entry], app_id=app_id)


def rejected(lake: Lake, series: str, starts: Collection[date] | None = None) -> list[RejectedCandidate]:
    """The rejected candidates of a series, oldest first."""
    where = {"series": [series]} | ({} if starts is None else {"period_start": list(starts)})
    return sorted(rejected_log(lake).read(where), key=lambda entry: (entry.dropped_at, entry.period_start))


_ATTEMPTS = 20


class RevertEvent(str, Enum):
    """The events of a reverted period; ``followed`` is its first computation after the release."""

    REVERTED = "reverted"
    RELEASED = "released"
    FOLLOWED = "followed"


@dataclass(frozen=True)
class RevertedPeriod:
    """An event of a period; ``version`` is the label to which it was reverted, ``number`` counts the events of a series
    from 1.
    """

    series: str
    period_start: date
    number: int
    event: RevertEvent
    version: str
    by: str
    reason: str
    recorded_at: datetime


def revert_log(lake: Lake) -> LogTable[RevertedPeriod]:
    """The table."""
    return LogTable(RevertedPeriod, lake, locations.reverts(lake), partition_by="series", journaled=True)


def kept_periods(lake: Lake, series: str, starts: Collection[date] | None = None) -> dict[date, RevertedPeriod]:
    """The periods of a series, or those of ``starts``, that keep an earlier number, by their first day."""
    return _standing(lake, series, starts, RevertEvent.REVERTED)


def released_periods(lake: Lake, series: str, starts: Collection[date] | None = None) -> dict[date, RevertedPeriod]:
    """The periods that were released and have not been computed since, by their first day."""
    return _standing(lake, series, starts, RevertEvent.RELEASED)


def keep_periods(lake: Lake, series: str, versions: Mapping[date, str], by: str, reason: str) -> None:
    """Keep periods at a version, such as ``r1``, from now on; periods already kept at it are not recorded again."""
    before = kept_periods(lake, series, versions)
    new = {start: label for start, label in versions.items() if start not in before or before[start].version != label}
    _record(lake, series, RevertEvent.REVERTED, new, by, reason)


def release_periods(lake: Lake, series: str, starts: Collection[date], by: str, reason: str) -> list[date]:
    """Let the numbers of periods follow Silver again; returns those that were kept."""
    before = {start: entry.version for start, entry in kept_periods(lake, series, starts).items()}
    _record(lake, series, RevertEvent.RELEASED, before, by, reason)
    return sorted(before)


def follow_reverts(lake: Lake, series: str, computed: Collection[date]) -> None:
    """Record that released periods have been computed."""
    for entry in released_periods(lake, series, computed).values():
        _record(lake, series, RevertEvent.FOLLOWED, {entry.period_start: entry.version}, entry.by, entry.reason)


def _record(lake: Lake, series: str, event: RevertEvent, versions: Mapping[date, str], by: str, reason: str) -> None:
    if not versions:
        return
    for _ in range(_ATTEMPTS):
        last = max((entry.number for entry in revert_log(lake).read({"series": [series]})), default=0)
        entries = [
            RevertedPeriod(series, start, number, event, versions[start], by, reason, lake.now())
            for number, start in enumerate(sorted(versions), last + 1)
        ]
        # Of two writers that read the same last number, the later one writes nothing and reads again.
        if revert_log(lake).append(entries, app_id=f"reverts:{series}", app_version=entries[-1].number):
            return
    msg = f"other commands keep reverting {series}: nothing was recorded, run it again later"
    raise CommitFailedError(msg)


def _standing(lake: Lake, series: str, starts: Collection[date] | None, event: RevertEvent) -> dict[date, RevertedPeriod]:
    entries = sorted(revert_log(lake).read({"series": [series]}), key=lambda entry: entry.number)
    newest = {entry.period_start: entry for entry in entries}
    wanted = None if starts is None else set(starts)
    return {
        start: entry for start, entry in sorted(newest.items()) if entry.event is event and (wanted is None or start in wanted)
    }
