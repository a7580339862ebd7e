"""A person's decision about a held number: sign it off, so that it is published, or drop it (rule R8).

The numbers of a period that are not published: those that a person refused since, and all numbers while the period is
reverted.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from lakehouse import locations
from lakehouse.errors import LakehouseError
from lakehouse.gold.numbers import lifecycle
from lakehouse.gold.numbers.lifecycle import RevisionReason, State
from lakehouse.gold.publication import (
    candidates,
    late_at_close,
    rejected_candidates,
    restatement_reports,
    reverted_periods,
    revisions,
    write_audit_publish,
)
from lakehouse.gold.publication.candidates import draft_period
from lakehouse.gold.publication.rejected_candidates import RejectedCandidate
from lakehouse.gold.publication.write_audit_publish import Run, again_on_conflict

if TYPE_CHECKING:
    from collections.abc import Collection, Container
    from datetime import date, datetime

    import pyarrow as pa

    from lakehouse.calendar.periods import Period
    from lakehouse.contracts.series import Series
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
    :raises HoldError: if another revision, or none, is held.
    """
    lake = lake.cached()
    before = write_audit_publish.read(lake, series, [period.start])
    held = _held(lake, series, period, revision)
    published_state, today = (
        before.published_states.get(period.start),
        lifecycle.today(lake.now(), series.metric.publication),
    )
    at_most = late_at_close.at_most(series, published_state, held.draft.state, at_most)
    current = draft_period(series, published_state, period.start, held.draft.rows, today, at_most=at_most)
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
    rejected_candidates.record(lake, entry)
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
    for entry in rejected_candidates.of(lake, series.name, starts):
        if entry.period_start not in published or entry.dropped_at >= published[entry.period_start]:
            refused[entry.period_start].add(entry.content)
    return {**refused, **dict.fromkeys(reverted_periods.kept(lake, series.name, starts), _EveryNumber())}
