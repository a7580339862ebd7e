"""Reverts published numbers to an earlier revision on a person's request, and keeps them there until they are released.

Nothing is overwritten: the earlier content becomes a new revision (for a closed period under ``adjust`` an adjustment) with the
reason ``rollback`` and the inputs of the earlier revision, so that it can be reproduced. Longer periods are sums of their days,
and are reverted through the days that the revision names. Which periods are kept is recorded by ``publication.held_numbers``.

A named run of a backfill or a stage is undone in the same way: the days that it restated return to their previous numbers, as new
revisions.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING

import pyarrow as pa

from lakehouse.calendar.periods import Kind
from lakehouse.errors import LakehouseError
from lakehouse.gold.numbers import history, lifecycle
from lakehouse.gold.numbers.lifecycle import PublishAction, RevisionReason, State
from lakehouse.gold.publication import (
    candidates,
    held_numbers,
    late_at_close,
    restatement_reports,
    revisions,
    write_audit_publish,
)
from lakehouse.gold.publication.write_audit_publish import again_on_conflict
from lakehouse.gold.restatement import closing
from lakehouse.ledger import publications
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from lakehouse.calendar.periods import Period
    from lakehouse.contracts.series import Series
    from lakehouse.contracts.source import SourceContract
    from lakehouse.gold.numbers.history import PublishedVersion
    from lakehouse.gold.numbers.version_selector import VersionSelector
    from lakehouse.gold.publication.revisions import Revision
    from lakehouse.gold.publication.write_audit_publish import Run, SeriesSnapshot
    from lakehouse.lake import Lake


_SHOWN_PERIODS = 5


class RevertError(LakehouseError):
    """Numbers that cannot be reverted or released; nothing has changed. The message says why, and what to do."""


@dataclass(frozen=True)
class RevertResult:
    """The result for the days that were reverted.

    :param published: their new revisions and adjustments.
    :param unchanged: days that already had the earlier content; they are kept as well.
    :param first: days that were first published after the requested time: no number is removed, and they stay.
    """

    published: Sequence[Revision] = ()
    unchanged: Sequence[date] = field(default_factory=list)
    first: Sequence[date] = ()


def revert(
    lake: Lake, contract: SourceContract, series: Series, period: Period, to: VersionSelector, run: Run, reason: str
) -> RevertResult:
    """Revert a period's number to an earlier version; calling it again changes nothing.

    :param run: names the person.
    :raises UnknownVersionError: for a version that does not exist.
    :raises RevertError: for a version of another dataset version; for a longer period whose days were first published after it.
    """
    if series.metric.is_derived and series.kind is not Kind.DAY:
        msg = f"{series.name} is made of the same periods of {', '.join(series.metric.derived_from)}: revert the days of these"
        raise RevertError(msg)
    version = history.version(lake, series, period, to).version
    targets = {period.start: version.label} if series.kind is Kind.DAY else _days_of(lake, series, version)
    return put_back(lake, contract, series.daily, targets, run, reason)


def revert_all(lake: Lake, contract: SourceContract, daily: Series, when: datetime, run: Run, reason: str) -> RevertResult:
    """Revert every day of a metric to the number that readers saw at ``when``; days that still have that number are unchanged.

    :raises RevertError: if readers saw numbers of another dataset version then.
    """
    before = write_audit_publish.read(lake, daily, to_publish=False)
    targets, first = {}, []
    for start, versions in history.versions_in(daily, before.existing).items():
        seen = [version for version in versions if version.published_at <= when]
        if not seen:
            first.append(start)
        elif seen[-1].row["content"] != versions[-1].row["content"]:
            targets[start] = seen[-1].label
    result = put_back(lake, contract, daily, targets, run, reason) if targets else RevertResult()
    return replace(result, first=first)


def put_back(
    lake: Lake, contract: SourceContract, daily: Series, targets: Mapping[date, str], run: Run, reason: str
) -> RevertResult:
    """Revert days to earlier revisions, all of them in one commit.

    :param targets: per day the label of an existing version, such as ``r1`` or ``r3.a1``.
    :raises RevertError: as :func:`revert`.
    """
    lake = lake.cached()
    _earlier(write_audit_publish.read(lake, daily, sorted(targets)), targets)  # refuses before it records
    # The days are kept before they are published: a run that is stopped in between leaves no day that silver takes along.
    held_numbers.keep_periods(lake, daily.name, targets, run.by or "", reason)
    waiting = [held.start for held in candidates.held(lake, daily, targets)]
    if waiting:  # the number that a person could publish is that of the day when it is released
        again_on_conflict(candidates.settle)(lake, daily, waiting, {})
    published = _publish(lake, contract, daily, targets, run, reason)
    restatement_reports.follow(lake, daily)
    return RevertResult(published, sorted(targets.keys() - {one.start for one in published}))


def release(lake: Lake, series: Series, period: Period, by: str, reason: str) -> list[date]:
    """Let the days of a period follow Silver again: they are pending afterwards, for the sensor or the next run.

    :returns: the days that were kept; if none is kept any more, those that an earlier command released and that wait since.
    :raises RevertError: if no day was kept.
    """
    released = held_numbers.release_periods(lake, series.daily.name, period.days, by, reason)
    released = released or sorted(held_numbers.released_periods(lake, series.daily.name, period.days))
    if not released:
        known = [f"{day}" for day in held_numbers.kept_periods(lake, series.daily.name)]
        msg = f"no day of {series.name} {period.name} was reverted; kept are {join_limited(known, _SHOWN_PERIODS) or 'none'}"
        raise RevertError(msg)
    return released


@again_on_conflict
def _publish(
    lake: Lake, contract: SourceContract, daily: Series, targets: Mapping[date, str], run: Run, reason: str
) -> list[Revision]:
    before = write_audit_publish.read(lake, daily, sorted(targets))
    today = lifecycle.today(lake.now(), daily.metric.publication)
    limits = closing.limits(lake, contract, daily, [daily.period(start) for start in targets])
    drafts = []
    for start, version in _earlier(before, targets).items():
        published = before.published_states[start]
        limit = limits[start].at_most if start in limits else State.FINAL
        rows = pa.Table.from_pylist(version.rows, before.latest[start].schema)
        terms = candidates.DraftTerms(today, late_at_close.at_most(daily, published, State(version.row["state"]), limit))
        draft = candidates.draft_period(before, start, rows, terms, requested=RevisionReason.ROLLBACK)
        if draft is None or draft.action is PublishAction.STATE_CHANGE:
            continue  # the daily close changes the states
        explanation = f"{RevisionReason.ROLLBACK.value}: put back to {version.label} by {run.by}: {reason}"
        drafts.append(replace(draft, explanation=explanation, lineage=candidates.NumberLineage.of_row(version.row)))
    if not drafts:
        return []
    why = {
        "trigger": run.about | {"reverted": {f"{draft.start}": targets[draft.start] for draft in drafts}},
        "downstream": [*(f"gold/{rollup.name}" for rollup in daily.rollups), *daily.metric.consumers],
    }
    signed = write_audit_publish.signature(lake, daily, run, why, reason)
    return revisions.publish(lake, daily, before.table, before.existing, drafts, signed)


def _earlier(before: SeriesSnapshot, targets: Mapping[date, str]) -> dict[date, PublishedVersion]:
    """The versions to which days are reverted; an adjustment with the closed number and the adjustments before it.

    :raises RevertError: if a version belongs to another dataset version than the one that readers see.
    """
    daily, earlier = before.series, {}
    known = history.versions_in(daily, before.existing)
    for start, label in sorted(targets.items()):
        version = next(one for one in known[start] if one.label == label)
        if version.dataset_version != daily.metric.dataset_version:
            theirs, shown = version.dataset_version, daily.metric.dataset_version
            msg = (
                f"{label} of {daily.name} {version.period} belongs to v{theirs}, and readers see v{shown}: "
                f"'lakehouse gold rollback {daily.name} --to v{theirs}' goes back to it"
            )
            raise RevertError(msg)
        earlier[start] = history.in_whole(daily, version, known[start])
    return earlier


def _days_of(lake: Lake, series: Series, version: PublishedVersion) -> dict[date, str]:
    """The revision of each day that a version of a longer period was computed from.

    :raises RevertError: if days of the period were first published after it.
    """
    targets = dict(version.made_from.revisions)
    days = series.period(version.start).days
    daily = write_audit_publish.read(lake, series.daily, days, to_publish=False)
    later = sorted(daily.published_states.keys() - targets.keys())
    if later:
        named = join_limited([f"{day}" for day in later], _SHOWN_PERIODS)
        msg = (
            f"{version.label} of {series.name} {version.period} has no number of {named}, published since, and no number is "
            "taken away: revert its days one by one, or go back to a later revision"
        )
        raise RevertError(msg)
    return targets


#: The key of the runs' name in a publication's trigger.
NAMED = "backfill"
_SHOWN = 10


class UndoError(LakehouseError):
    """Runs that cannot be undone; nothing has changed. The message lists the days, and says what to do."""


@dataclass(frozen=True)
class UndoneSeries:
    """The result of the undo for the days of a metric.

    :param first: the days that were first published by these runs: there is no earlier number, and they stay.
    """

    daily: Series
    result: RevertResult
    first: Sequence[date]


@dataclass(frozen=True)
class _Earlier:
    """The earlier state of the days of a metric: the label of each, the days without any, and those that changed since."""

    targets: Mapping[date, str]
    first: Sequence[date]
    later: Sequence[str]


def undo(lake: Lake, contract: SourceContract, dailies: Sequence[Series], name: str, run: Run, reason: str) -> list[UndoneSeries]:
    """Revert the days that named runs restated to their previous numbers; calling it again changes nothing.

    :param dailies: the days of the metrics that the runs may have published.
    :param name: the name of the runs in the triggers of their publications.
    :param run: names the person.
    :raises UndoError: if one of the numbers has changed since, or the runs have restated none.
    """
    earlier = [(daily, _before(lake, daily, name)) for daily in dailies]
    later = [sentence for _, before in earlier for sentence in before.later]
    if later:
        listed = join_limited(later, _SHOWN, " numbers")
        msg = f"{name} cannot be undone, numbers have changed since: {listed}; revert days with 'lakehouse revert'"
        raise UndoError(msg)
    if not any(before.targets for _, before in earlier):
        msg = f"{name} has restated no number: there is nothing to undo"
        raise UndoError(msg)
    why = f"undo of {name}: {reason}"
    return [
        UndoneSeries(daily, put_back(lake, contract, daily, before.targets, run, why), before.first)
        for daily, before in earlier
        if before.targets
    ]


def published_by(lake: Lake, series: Series, name: str) -> dict[date, set[str]]:
    """The names of the versions that named runs published, by the first day of their period."""
    names: dict[date, set[str]] = {}
    for entry in publications.of(lake, series.name):
        for start, version in entry.published.items() if entry.trigger.get(NAMED) == name else ():
            names.setdefault(date.fromisoformat(start), set()).add(version)
    return names


def _before(lake: Lake, daily: Series, name: str) -> _Earlier:
    names = published_by(lake, daily, name)
    known = history.history(lake, daily, sorted(names)) if names else {}
    kept = held_numbers.kept_periods(lake, daily.name, known)
    targets: dict[date, str] = {}
    first, later = [], []
    for start, versions in sorted(known.items()):
        positions = [
            number for number, version in enumerate(versions) if version.name in names[start] and version.has_new_content
        ]
        if not positions:
            continue  # the runs only closed it
        if positions[0] == 0:
            first.append(start)
            continue
        label = versions[positions[0] - 1].label
        newer = [version for version in versions[positions[-1] + 1 :] if version.has_new_content]
        if newer and not (start in kept and kept[start].version == label):
            later.append(f"{newer[-1].name} ({newer[-1].reason.value})")
        targets[start] = label
    return _Earlier(targets, first, later)
