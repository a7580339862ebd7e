"""The days of a metric: computed from Silver, drafted where content or state is new, and published (rules R7 to R9).

This module decides the effect of changes of Silver on a metric's days. Checking and publishing drafts belongs to
``write_audit_publish``; a conflict with another publication repeats both from a fresh read.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from deltalake.exceptions import CommitFailedError

from lakehouse import locations
from lakehouse.contracts.series import LINEAGE, source_days, source_read
from lakehouse.dimensions import fact_index, interval_table
from lakehouse.dimensions.changed_facts import ChangedFacts
from lakehouse.gold import isolation
from lakehouse.gold.isolation import Isolated
from lakehouse.gold.numbers import lifecycle, published_table, window_history
from lakehouse.gold.numbers.lifecycle import REASONS_BY_PRECEDENCE, PublishAction, RevisionReason, State
from lakehouse.gold.numbers.window_history import WindowReason
from lakehouse.gold.publication import candidates, held_numbers, late_at_close, restatement_reports, write_audit_publish
from lakehouse.gold.publication.candidates import NumberLineage
from lakehouse.gold.publication.write_audit_publish import PublishResult, Run, SeriesSnapshot, again_on_conflict
from lakehouse.gold.restatement import closing, metric_query, patched_days, silver_tables
from lakehouse.gold.restatement import lineage as restatement_lineage
from lakehouse.gold.restatement.pending import record_restatement
from lakehouse.lake import table_io

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import date

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.series import Series
    from lakehouse.contracts.source import SourceContract
    from lakehouse.gold.numbers.lifecycle import PublishedState
    from lakehouse.gold.publication.candidates import Draft
    from lakehouse.gold.restatement.closing import Limit
    from lakehouse.gold.restatement.lineage import LateCauses, SilverInputs, Trigger
    from lakehouse.gold.restatement.pending import PendingRestatement
    from lakehouse.lake import Lake

_log = logging.getLogger(__name__)


def restate(
    lake: Lake,
    contract: SourceContract,
    series: Series,
    session: Callable[[], SparkSession],
    days: Collection[date],
    run: Run,
    follows: PendingRestatement | None = None,
) -> PublishResult:
    """Compute days again and publish those with new content or a new state.

    :param follows: the changes that the run responds to; if ``days`` cover all of them, the metric is recorded as following
        Silver up to there.
    """
    lake = lake.cached()
    fact_index.follow(lake, [series.metric])  # a new join of a source that has facts already
    done = _publish_days(lake, contract, series, session, sorted(days), run, follows)
    write_audit_publish.remove_published_candidates(lake, series)
    restatement_reports.follow(lake, series)
    record_restatement(lake, series, run.run_id, done.days, days, follows)
    held_numbers.follow_reverts(lake, series.name, days)
    return done


@dataclass(frozen=True)
class _DaysToDraft:
    """What the drafts of days follow from, besides their numbers: the published ones, the inputs, and the changes since."""

    before: SeriesSnapshot
    made_from: SilverInputs
    run: Run
    follows: PendingRestatement | None
    trigger: Trigger | None
    limits: Mapping[date, Limit]
    late: LateCauses


@again_on_conflict
def _publish_days(
    lake: Lake,
    contract: SourceContract,
    series: Series,
    session: Callable[[], SparkSession],
    days: Sequence[date],
    run: Run,
    follows: PendingRestatement | None,
) -> PublishResult:
    today = lifecycle.today(lake.now(), series.metric.publication)
    silver_tables.require_rows(lake, series.metric)
    days = [day for day in days if lifecycle.may_be_published(day, today, series.metric.publication)]
    before = write_audit_publish.read(lake, series, days)  # before silver is read
    read = source_read(series.metric, contract)
    _follow_dimensions(lake, series.metric)
    versions = silver_tables.versions_read(lake, series.metric)
    made_from = restatement_lineage.of_metric(lake, series.metric, read)
    trigger = _trigger(lake, series.metric, read, follows) if follows else None
    # How far a period may be closed concerns computed numbers only: that one failed before holds none of them back.
    limits = closing.limits(lake, contract, series, [series.period(day) for day in days], days)
    late = restatement_lineage.late_causes_of_days(lake, before, made_from, days, _closing(before, days, today, limits))
    computed = _numbers(lake, session, days, before, made_from, follows, late.with_every_row)
    basis = _DaysToDraft(before, made_from, run, follows, trigger, limits, late)
    drafts, refused_days = _drafts(lake, basis, computed.numbers)
    # The numbers of refused days are those of before.
    from_silver = [draft.start for draft in drafts if draft.start not in refused_days]
    expected = restatement_lineage.count_silver_rows(lake, series.metric, from_silver, late.with_every_row)
    changed = silver_tables.changed_since(lake, series.metric, versions) or _unfollowed(lake, series.metric)
    if changed is not None:
        msg = f"silver/{changed} kept changing while {series.name} was computed from it; run it again later"
        raise CommitFailedError(msg)
    why = lineage(series, run, made_from, follows, trigger)
    return write_audit_publish.publish(lake, before, drafts, run, why, expected, computed.failed)


def _closing(before: SeriesSnapshot, days: Collection[date], today: date, limits: Mapping[date, Limit]) -> set[date]:
    """The days whose next number is final."""
    terms = before.series.metric.publication
    at_most = {day: limits[day].at_most if day in limits else State.FINAL for day in days}
    states = {day: lifecycle.state_of(before.published_states.get(day), day, today, terms, at_most[day]) for day in days}
    return {day for day, state in states.items() if state is State.FINAL}


def _follow_dimensions(lake: Lake, metric: MetricContract) -> None:
    """Update the intervals of a metric's dimensions, in case a run was stopped before it had done so."""
    for contract in metric.dimensions.values():
        interval_table.follow(lake, contract)


def _unfollowed(lake: Lake, metric: MetricContract) -> str | None:
    """A dimension whose intervals are not computed from the present version of its silver table; None if there is none."""
    for name, contract in metric.dimensions.items():
        version = locations.silver(lake, name).version()
        if version >= 0 and interval_table.followed_version(lake, contract) != version:
            return name
    return None


def _trigger(lake: Lake, metric: MetricContract, contract: SourceContract, follows: PendingRestatement) -> Trigger:
    """The cause of the changes of all silver tables that a run follows."""
    trigger = restatement_lineage.trigger(lake, contract, follows.since, follows.upstream_version)
    for entry in metric.sources[1:]:
        read, first, last = metric.further_sources[entry.source], follows.since_further, follows.further
        if entry.silver in first:
            trigger += restatement_lineage.trigger(lake, entry.read_of(read), first[entry.silver], last[entry.silver])
    return trigger


def lineage(
    series: Series, run: Run, made_from: SilverInputs, follows: PendingRestatement | None, trigger: Trigger | None
) -> dict[str, Any]:
    """The metadata of the commit that publishes days: input versions, trigger, changed keys and downstream tables."""
    tables = {entry.source: entry.silver for entry in series.metric.sources}
    inputs = {locations.silver_name(series.metric): made_from}
    inputs |= {tables.get(name, name): of_table for name, of_table in made_from.others.items()}
    changed = follows.changed_facts if follows else ChangedFacts()
    return {
        "input_versions": {f"silver/{name}": _version_read(of_table) for name, of_table in inputs.items()},
        "trigger": run.about
        | (trigger.as_json() if trigger else {"run": run.job_name, "reason": (run.reason or RevisionReason.MANUAL).value}),
        "keys": {
            f"{day}": {"changed": sum(what.values()), "sample": follows.keys.get(day, [])} for day, what in follows.causes.items()
        }
        if follows
        else {},
        **({"dimension_changes": {"in_all": changed.in_all, "first": changed.changes}} if changed.in_all else {}),
        "downstream": [*(f"gold/{rollup.name}" for rollup in series.rollups), *series.metric.consumers],
    }


def _version_read(of_table: SilverInputs) -> dict[str, Any]:
    arrivals = sorted(entry.arrival_date for entry in of_table.delivered.values())
    return {
        "version": of_table.silver_version,
        "arrivals_from": f"{arrivals[0]}" if arrivals else None,
        "arrivals_through": f"{arrivals[-1]}" if arrivals else None,
    }


def _numbers(
    lake: Lake,
    session: Callable[[], SparkSession],
    days: Sequence[date],
    before: SeriesSnapshot,
    made_from: SilverInputs,
    follows: PendingRestatement | None,
    with_every_row: Collection[date],
) -> Isolated[date]:
    """The number of each day that Silver has rows for; for a published day without rows the number of an empty day.

    :param with_every_row: the days whose number counts every row, however late it came.
    """
    if with_every_row:
        rest = [day for day in days if day not in with_every_row]
        every = sorted({*days}.intersection(with_every_row))
        parts = [(rest, made_from), (every, made_from.with_every_row())]
        done = [_numbers(lake, session, part, before, inputs, follows, ()) for part, inputs in parts]
        failed = {day: why for each in done for day, why in each.failed.items()}
        return Isolated({day: rows for each in done for day, rows in each.numbers.items()}, failed)

    def compute(metric: MetricContract | None, part: Sequence[date]) -> dict[date, pa.Table]:
        measured = before.series.metric if metric is None else metric
        numbers = metric_query.of_few_rows(lake, measured, part)
        if numbers is None:
            numbers = patched_days.numbers(session, lake, before, part, made_from) if metric is None else {}
            rest = [day for day in part if day not in numbers]
            numbers |= patched_days.numbers_of_windows(session, lake, before, rest, follows) if metric is None else {}
            rest = [day for day in part if day not in numbers]
            numbers = {day: rows for day, rows in numbers.items() if len(rows)}
            numbers |= metric_query.numbers(session, lake, measured, rest, made_from) if rest else {}
        emptied = before.published_states.keys() & set(part) - set(numbers)
        if emptied:
            numbers |= dict.fromkeys(emptied, metric_query.nothing(session, lake, measured))
        return numbers

    return isolation.numbers_of(lake, before.series, days, compute, lambda day: day) if days else Isolated({})


def _drafts(lake: Lake, basis: _DaysToDraft, numbers: Mapping[date, pa.Table]) -> tuple[list[Draft], set[date]]:
    """Draft the numbers that have new content or a new state; returns also the days whose new number was refused before."""
    before, run, follows, trigger, late = basis.before, basis.run, basis.follows, basis.trigger, basis.late
    metric = before.series.metric
    today = lifecycle.today(lake.now(), metric.publication)
    refused = held_numbers.find_refused(lake, before.series, before.existing, list(numbers)) if numbers else {}
    released = held_numbers.released_periods(lake, before.series.name, numbers)
    # The changes of a number that a check has held since were followed then; its draft has the reason.
    held = {one.start: one.draft for one in candidates.held(lake, before.series, list(numbers))} if follows else {}
    drafts: list[Draft] = []
    refused_days: set[date] = set()
    for day, rows in sorted(numbers.items()):
        published = before.published_states.get(day)
        content = published_table.content_of(rows, lifecycle.contents_of(published), refused.get(day, ()))
        if content in refused.get(day, ()):
            if published is None:
                continue
            # A person refused the new number, or reverted the day: the published number stays, with its adjustments, and only its
            # state changes.
            rows, content = before.latest[day], published.restated or published.content  # noqa: PLW2901
            refused_days.add(day)
        covered, causes, attributes = source_days(metric, [day]), Counter[str](), Counter[str]()
        for source_day in covered:
            causes.update(follows.causes.get(source_day, {}) if follows else {})
            attributes.update(follows.changed_facts.attributes.get(source_day, {}) if follows else {})
        causes = late.with_causes(day, causes)
        remade = {trigger.remade[source_day] for source_day in covered if source_day in trigger.remade} if trigger else set()
        waiting = None if causes or attributes else held.get(day)
        requested = next((reason for reason in REASONS_BY_PRECEDENCE if reason in remade), run.reason)
        requested = waiting.reason if waiting and requested is None else requested
        terms = candidates.DraftTerms(today, basis.limits[day].at_most if day in basis.limits else State.FINAL)
        of_rows = None if remade else causes
        draft = candidates.draft_period(before, day, rows, terms, requested=requested, causes=of_rows, content=content)
        if draft is not None and late_at_close.waits_for_updates(lake, before.series, before.existing, draft):
            _log.warning(late_at_close.WAITING, before.series.name, day)
        elif draft is not None:
            since = released.get(day)
            why = (
                f"{draft.reason.value}: released by {since.by}: {since.reason}"
                if since
                else explain(draft.reason, causes, attributes, late.decided.get(day, ()))
            )
            same = waiting if waiting and not since and draft.reason is waiting.reason else None
            if same:
                why = same.explanation or why
            explanation = run.explanation or why
            changed_rows = sum(causes.values()) if causes else None
            windows = same.windows if same else {}
            if not windows and published is not None and follows is not None and not (remade or since or run.explanation):
                windows = _window_reasons(follows, covered, causes, draft, published, requested, today)
            drafts.append(replace(draft, explanation=explanation, changed_rows=changed_rows, windows=windows))
    if not drafts:
        return [], refused_days
    by_day = lineages(lake, before, basis.made_from, [draft.start for draft in drafts], refused_days, late.with_every_row)
    return [replace(draft, lineage=by_day[draft.start]) for draft in drafts], refused_days


def _window_reasons(
    follows: PendingRestatement,
    covered: Collection[date],
    causes: Mapping[str, int],
    draft: Draft,
    published: PublishedState,
    requested: RevisionReason | None,
    today: date,
) -> dict[str, WindowReason]:
    """Why the number of each window of a day changes; empty if rows are concerned whose windows are not known.

    :param covered: the Silver days with rows of the day's windows.
    :param causes: the changes of all their rows.
    """
    if draft.action is PublishAction.STATE_CHANGE or not causes.keys() <= _OF_ROWS:
        return {}
    is_running = lifecycle.is_running(draft.start, today)
    reasons: dict[str, WindowReason] = {}
    for place, counts in silver_tables.windows_together(*(follows.places.get(day, {}) for day in covered)).items():
        reason = lifecycle.reason_for(draft.action, published, requested, counts, is_running=is_running)
        reasons[window_history.place(place)] = WindowReason(explain(reason, counts), sum(counts.values()))
    return reasons


def lineages(
    lake: Lake,
    before: SeriesSnapshot,
    made_from: SilverInputs,
    days: Collection[date],
    refused_days: Collection[date],
    with_every_row: Collection[date],
) -> dict[date, NumberLineage]:
    """The lineage of each day's number; for a day whose new number was refused, that of the published number."""
    metric, by = before.series.metric, before.series.by
    covered = {day: source_days(metric, [day]) for day in days}
    undecided = restatement_lineage.undecided_of_metric(lake, metric, set().union(*covered.values()))
    inputs = restatement_lineage.record(lake, metric.source, made_from)
    every = restatement_lineage.record(lake, metric.source, made_from.with_every_row()) if with_every_row else inputs
    dimension_inputs = restatement_lineage.record_others(lake, metric, made_from)
    of_sources = [made_from, *(made_from.others[name] for name in metric.further_sources)]
    made: dict[date, NumberLineage] = {}
    for day in days:
        lacking = made_from.without(covered[day])
        made[day] = NumberLineage(
            undecided_rows=sum(undecided.get(source_day, 0) for source_day in covered[day]),
            known_through=restatement_lineage.known_through(of_sources, covered[day]),
            inputs=every if day in with_every_row else inputs,
            inputs_without=json.dumps(lacking) if lacking else None,
            dimension_inputs=dimension_inputs,
            silver_version=made_from.silver_version,
        )
    if before.existing is not None and refused_days:
        latest = table_io.with_columns(before.existing.filter(before.existing["is_latest"]), [by, *LINEAGE])
        made |= {row[by]: NumberLineage.of_row(row) for row in latest.to_pylist() if row[by] in refused_days}
    return made


_WORDS = {
    "on_time": "on time",
    "inserted": "arrived late",
    "corrected": "corrected",
    "moved_in": "moved here from another day",
    "moved_out": "moved to another day",
    "deleted": "withdrawn",
    restatement_lineage.AT_CLOSE: restatement_lineage.LATE_WORDS,
}
#: The causes that are changes of rows of Silver, of which the window is known.
_OF_ROWS = _WORDS.keys() - {restatement_lineage.AT_CLOSE}


def explain(
    reason: RevisionReason, causes: Mapping[str, int], attributes: Mapping[str, int] | None = None, decided: Sequence[str] = ()
) -> str:
    """Explain a restatement to people: its reason, and what happened to its Silver rows.

    :param attributes: how many rows have another value than before of an attribute, such as "tier of customers".
    :param decided: what stewards have decided about rows that came too late.
    """
    on_time, inserted = causes.get("on_time", 0), causes.get("inserted", 0)
    words = {**_WORDS, "inserted": "late"} if on_time and inserted else dict(_WORDS)
    if reason is RevisionReason.LATE_DATA and on_time and on_time == sum(causes.values()):
        words["on_time"] = "on time, taken in later"
    changes = [f"{causes[kind]:,} {word}" for kind, word in words.items() if causes.get(kind)]
    changes += [
        f"{rows:,} {'row' if rows == 1 else 'rows'} whose {name} changed" for name, rows in sorted((attributes or {}).items())
    ]
    changes += decided
    return f"{reason.value}: {', '.join(changes)}" if changes else reason.value
