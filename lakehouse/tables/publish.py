"""How a metric's days are published: computed from silver, drafted where they say something new, and audited (R7 to R9).

Here is what silver's changes mean for a metric and what its numbers become; how a draft comes before readers is in
``audited``. Whoever publishes the same period in between makes all of it happen again from a fresh read.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from deltalake.exceptions import CommitFailedError

from lakehouse.domain import publishing
from lakehouse.domain.days import reach_ahead
from lakehouse.domain.publishing import GRAVEST, Reason, Step
from lakehouse.ledger import dropped, publications, restatements, store
from lakehouse.ledger.restatements import Restatement
from lakehouse.tables import audited, basis, changes, gold, patch, series, served, silver
from lakehouse.tables.audited import Published, Read, Run, again_on_conflict
from lakehouse.tables.revisions import MADE_FROM, Draft

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import date, datetime

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.settings import Settings
    from lakehouse.tables.basis import Basis, Trigger
    from lakehouse.tables.series import Series

_SAMPLE = 5


@dataclass(frozen=True)
class PendingRestatement:
    """What silver has changed since the metric last followed: the causes by silver day, the metric's days, the versions."""

    causes: dict[date, Counter[str]]
    days: frozenset[date]
    silver_version: int
    since: int = 0
    keys: dict[date, list[str]] = field(default_factory=dict)


def pending(settings: Settings, one: Series) -> PendingRestatement:
    """Read silver's change feed since the metric last followed it; no JVM."""
    table = store.open_table(silver.path(settings, one.metric.source), settings.storage_options)
    if table is None:
        return PendingRestatement({}, frozenset(), -1)
    done = restatements.silver_version(settings, served.follower(one))
    version = table.version()
    since = done + 1 if done <= version else 0
    causes: dict[date, Counter[str]] = defaultdict(Counter)
    keys: dict[date, list[str]] = defaultdict(list)
    try:
        moves = changes.moves(table, since, version)
    except changes.ForgottenFeedError:  # so every day may be another one; equal content makes no revision
        known = series.partitions(settings, silver.path(settings, one.metric.source), "event_date")
        known = reach_ahead(known, one.metric.window) | series.partitions(settings, one.path(settings), one.by)
        return PendingRestatement({}, frozenset(known), version, since)
    for move in moves:
        causes[move.day][move.what] += 1
        if len(keys[move.day]) < _SAMPLE:
            keys[move.day].append(move.key)
    return PendingRestatement(dict(causes), frozenset(reach_ahead(causes, one.metric.window)), version, since, dict(keys))


def due(settings: Settings, one: Series) -> list[date]:
    """The days whose number is to change its state by now, or whose start delay is over; no JVM."""
    terms = one.metric.publication
    today = publishing.today(settings.clock(), terms)
    days = set(series.due(settings, one, today))
    if terms.start_delay:
        waited = reach_ahead(
            series.partitions(settings, silver.path(settings, one.metric.source), "event_date"), one.metric.window
        )
        waited -= series.partitions(settings, one.path(settings), one.by)
        waited -= {entry.period_start for entry in dropped.of(settings, one.name)}
        days |= {day for day in waited if publishing.may_be_published(day, today, terms)}
    return sorted(days)


@store.reusing_tables()
def restate(
    settings: Settings,
    one: Series,
    session: Callable[[], SparkSession],
    days: Collection[date],
    run: Run,
    follows: PendingRestatement | None = None,
) -> Published:
    """Compute ``days`` anew and publish those whose number or state is another one.

    :param follows: what the run answers; when it covers all of that, the metric is recorded as following silver so far.
    """
    done = _publish_days(settings, one, session, sorted(days), run, follows)
    audited.tidy(settings, one)
    publications.follow(settings, one.name, one.path(settings))
    complete = follows is not None and follows.days <= set(days)
    if done.revisions or complete:
        causes = {day.isoformat(): dict(what) for day, what in follows.causes.items()} if follows else {}
        entry = Restatement(
            metric=served.follower(one),
            run_id=run.run_id,
            as_of=settings.clock(),
            silver_version=follows.silver_version if follows and complete else -1,
            gold_version=store.version(one.path(settings), settings.storage_options),
            days=sorted(done.days),
            causes=causes,
        )
        restatements.record(settings, entry)
    return done


@again_on_conflict
def _publish_days(
    settings: Settings,
    one: Series,
    session: Callable[[], SparkSession],
    days: Sequence[date],
    run: Run,
    follows: PendingRestatement | None,
) -> Published:
    today, source = publishing.today(settings.clock(), one.metric.publication), one.metric.source
    days = [day for day in days if publishing.may_be_published(day, today, one.metric.publication)]
    before = audited.read(settings, one, days)  # before silver is read
    made_from = basis.of_silver(settings, source)
    trigger = basis.trigger(settings, source, follows.since, follows.silver_version) if follows else None
    numbers = _numbers(settings, one.metric, session, days, before)
    drafts = _drafts(settings, before, numbers, made_from, run, follows, trigger)
    from_silver = [
        draft.start for draft in drafts if draft.silver_version == made_from.silver_version
    ]  # others stand as they were
    expected = rows_in_silver(settings, one.metric, from_silver)
    if store.version(silver.path(settings, source), settings.storage_options) != made_from.silver_version:
        msg = f"silver/{source} moved on while {one.name} was computed from it, again and again; run it again later"
        raise CommitFailedError(msg)
    return audited.publish(settings, before, drafts, run, lineage(one, run, made_from, follows, trigger), expected)


def lineage(
    one: Series, run: Run, made_from: Basis, follows: PendingRestatement | None, trigger: Trigger | None
) -> dict[str, Any]:
    """What the commit of a publication tells about where its numbers come from."""
    arrivals = sorted(entry.arrival_date for entry in made_from.ingested.values())
    return {
        "input_versions": {
            f"silver/{one.metric.source}": {
                "version": made_from.silver_version,
                "arrivals_from": f"{arrivals[0]}" if arrivals else None,
                "arrivals_through": f"{arrivals[-1]}" if arrivals else None,
            }
        },
        "trigger": run.about
        | (trigger.as_json() if trigger else {"run": run.job_name, "reason": (run.said or Reason.MANUAL).value}),
        "keys": {
            f"{day}": {"changed": sum(what.values()), "sample": follows.keys.get(day, [])} for day, what in follows.causes.items()
        }
        if follows
        else {},
        "downstream": [*(f"gold/{rollup.name}" for rollup in one.rollups), *one.metric.consumers],
    }


def rows_in_silver(settings: Settings, metric: MetricContract, days: Collection[date]) -> dict[date, int]:
    """How many silver rows the number of each day covers, counted by delta-rs."""
    table = store.open_table(silver.path(settings, metric.source), settings.storage_options)
    if table is None or not days:
        return {}
    found = store.read_version(table, ["event_date"], {"event_date": gold.source_days(metric, days)})
    counts = Counter(found["event_date"].to_pylist())
    return {day: sum(counts[day - timedelta(days=back)] for back in range(metric.window)) for day in days}


def _numbers(
    settings: Settings, metric: MetricContract, session: Callable[[], SparkSession], days: Sequence[date], before: Read
) -> dict[date, pa.Table]:
    """What silver says about each day; about one that was published and is empty now, that it is empty."""
    if not days:
        return {}
    found = patch.numbers(session(), settings, before, days)
    rest = [day for day in days if day not in found]
    found |= gold.numbers(session(), settings, metric, rest) if rest else {}
    emptied = set(before.standings) - set(found)
    if emptied:
        empty = gold.nothing(session(), settings, metric)
        found |= dict.fromkeys(emptied, empty)
    return found


def _drafts(
    settings: Settings,
    before: Read,
    numbers: Mapping[date, pa.Table],
    made_from: Basis,
    run: Run,
    follows: PendingRestatement | None,
    trigger: Trigger | None,
) -> list[Draft]:
    """What is to be published of some numbers: new content, or a new state."""
    metric, standings = before.series.metric, before.standings
    terms = metric.publication
    today = publishing.today(settings.clock(), terms)
    refused = refusals(settings, before.series, before.existing, list(numbers)) if numbers else {}
    drafted, stands = {}, set()
    for day, rows in sorted(numbers.items()):
        standing = standings.get(day)
        content = series.digest(rows)
        if content in refused.get(day, ()):
            if standing is None:
                continue
            # Somebody said that the published number stands, with what is booked to it; its state moves on.
            rows, content = before.latest[day], standing.restated or standing.content  # noqa: PLW2901
            stands.add(day)
        state = publishing.state_of(standing, day, today, terms)
        step = publishing.step(standing, content, state, terms)
        if step is not Step.NOTHING:
            drafted[day] = (rows, state, step)
    if not drafted:
        return []
    covered = {day: gold.source_days(metric, [day]) for day in drafted}
    undecided = basis.undecided(settings, metric.source, set().union(*covered.values()))
    name = basis.record(settings, metric.source, made_from)
    drafts = []
    for day, (rows, state, step) in drafted.items():
        causes: Counter[str] = Counter()
        for other in covered[day]:
            causes.update(follows.causes.get(other, {}) if follows else {})
        remade = {trigger.remade[other] for other in covered[day] if other in trigger.remade} if trigger else set()
        said = next((reason for reason in GRAVEST if reason in remade), run.said)
        reason = publishing.reason_for(step, standings.get(day), said, {} if remade else causes)
        lacking = made_from.without(covered[day])
        drafts.append(
            Draft(
                start=day,
                rows=rows,
                state=state,
                step=step,
                reason=reason,
                explanation=run.explanation or told(reason, causes),
                changed_rows=sum(causes.values()) if causes else None,
                undecided_rows=sum(undecided.get(other, 0) for other in covered[day]),
                known_through=made_from.known_through(covered[day]),
                inputs=name,
                inputs_without=json.dumps(lacking) if lacking else None,
                silver_version=made_from.silver_version,
                booked_on=today if step is Step.ADJUSTMENT else None,
            )
        )
    return [_as_made(before, draft) if draft.start in stands else draft for draft in drafts]


def refusals(settings: Settings, one: Series, existing: pa.Table | None, starts: Collection[date]) -> dict[date, set[str]]:
    """Per period the digests of the numbers that were refused since its content was published last.

    :param existing: all rows of these periods.
    """
    changed: dict[date, datetime] = {}
    names = [one.by, "revision", "is_latest", "adjustment", "published_at", "restated_on"]
    for row in [] if existing is None else existing.select(names).to_pylist():
        content = row["restated_on"] or (row["published_at"] if row["revision"] == 1 or row["adjustment"] else None)
        if content is not None and (row[one.by] not in changed or content > changed[row[one.by]]):
            changed[row[one.by]] = content
    found: dict[date, set[str]] = defaultdict(set)
    for entry in dropped.of(settings, one.name, starts):
        if entry.period_start not in changed or entry.dropped_at >= changed[entry.period_start]:
            found[entry.period_start].add(entry.content)
    return dict(found)


def _as_made(before: Read, draft: Draft) -> Draft:
    """A number that stands although silver says another one: it is made from what it was made from."""
    if before.existing is None:
        return draft
    newest = before.existing.filter(before.existing["is_latest"]).select([before.series.by, *MADE_FROM])
    made = next(row for row in newest.to_pylist() if row[before.series.by] == draft.start)
    return replace(draft, **{name: made[name] for name in MADE_FROM})


_WORDS = {
    "inserted": "arrived late",
    "corrected": "corrected",
    "moved_in": "moved here from another day",
    "moved_out": "moved to another day",
    "deleted": "withdrawn",
}


def told(reason: Reason, causes: Mapping[str, int]) -> str:
    """The reason of a restatement, to a person."""
    what = ", ".join(f"{causes[kind]:,} {word}" for kind, word in _WORDS.items() if causes.get(kind))
    return f"{reason.value}: {what}" if what else reason.value
