"""How a metric's days are published: computed from silver, drafted where they say something new, and audited (R7 to R9).

Here is what silver's changes mean for a metric and what its numbers become; how a draft comes before readers is in
``audited``. Whoever publishes the same period in between makes all of it happen again from a fresh read.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from deltalake.exceptions import CommitFailedError

from lakehouse import locations
from lakehouse.delta import table_io
from lakehouse.gold.numbers import lifecycle, published_table
from lakehouse.gold.numbers.lifecycle import GRAVEST, Reason, Step
from lakehouse.gold.numbers.published_table import source_days
from lakehouse.gold.publication import write_audit_publish
from lakehouse.gold.publication.revisions import MADE_FROM, Draft
from lakehouse.gold.publication.write_audit_publish import Published, Read, Run, again_on_conflict
from lakehouse.gold.restatement import incremental, metric_query
from lakehouse.gold.restatement import lineage as restatement_lineage
from lakehouse.gold.restatement.pending import count_silver_rows, find_refused, record_restatement
from lakehouse.ledger import publications

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import date

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.gold.numbers.published_table import Series
    from lakehouse.gold.restatement.lineage import Basis, Trigger
    from lakehouse.gold.restatement.pending import PendingRestatement
    from lakehouse.settings import Settings


@table_io.reusing_tables()
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
    write_audit_publish.tidy(settings, one)
    publications.follow(settings, one.name, locations.gold(settings, one))
    record_restatement(settings, one, run.run_id, done.days, days, follows)
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
    today, source = lifecycle.today(settings.clock(), one.metric.publication), one.metric.source
    days = [day for day in days if lifecycle.may_be_published(day, today, one.metric.publication)]
    before = write_audit_publish.read(settings, one, days)  # before silver is read
    made_from = restatement_lineage.of_silver(settings, source)
    trigger = restatement_lineage.trigger(settings, source, follows.since, follows.upstream_version) if follows else None
    numbers = _numbers(settings, one.metric, session, days, before)
    drafts = _drafts(settings, before, numbers, made_from, run, follows, trigger)
    from_silver = [
        draft.start for draft in drafts if draft.silver_version == made_from.silver_version
    ]  # others stand as they were
    expected = count_silver_rows(settings, one.metric, from_silver)
    if table_io.version(locations.silver(settings, source), settings.storage_options) != made_from.silver_version:
        msg = f"silver/{source} moved on while {one.name} was computed from it, again and again; run it again later"
        raise CommitFailedError(msg)
    return write_audit_publish.publish(settings, before, drafts, run, lineage(one, run, made_from, follows, trigger), expected)


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


def _numbers(
    settings: Settings, metric: MetricContract, session: Callable[[], SparkSession], days: Sequence[date], before: Read
) -> dict[date, pa.Table]:
    """What silver says about each day; about one that was published and is empty now, that it is empty."""
    if not days:
        return {}
    found = incremental.numbers(session(), settings, before, days)
    rest = [day for day in days if day not in found]
    found |= metric_query.numbers(session(), settings, metric, rest) if rest else {}
    emptied = set(before.standings) - set(found)
    if emptied:
        empty = metric_query.nothing(session(), settings, metric)
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
    today = lifecycle.today(settings.clock(), terms)
    refused = find_refused(settings, before.series, before.existing, list(numbers)) if numbers else {}
    drafted, stands = {}, set()
    for day, rows in sorted(numbers.items()):
        standing = standings.get(day)
        content = published_table.digest(rows)
        if content in refused.get(day, ()):
            if standing is None:
                continue
            # Somebody said that the published number stands, with what is booked to it; its state moves on.
            rows, content = before.latest[day], standing.restated or standing.content  # noqa: PLW2901
            stands.add(day)
        state = lifecycle.state_of(standing, day, today, terms)
        step = lifecycle.step(standing, content, state, terms)
        if step is not Step.NOTHING:
            drafted[day] = (rows, state, step)
    if not drafted:
        return []
    covered = {day: source_days(metric, [day]) for day in drafted}
    undecided = restatement_lineage.undecided(settings, metric.source, set().union(*covered.values()))
    name = restatement_lineage.record(settings, metric.source, made_from)
    drafts = []
    for day, (rows, state, step) in drafted.items():
        causes: Counter[str] = Counter()
        for other in covered[day]:
            causes.update(follows.causes.get(other, {}) if follows else {})
        remade = {trigger.remade[other] for other in covered[day] if other in trigger.remade} if trigger else set()
        said = next((reason for reason in GRAVEST if reason in remade), run.said)
        reason = lifecycle.reason_for(step, standings.get(day), said, {} if remade else causes)
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
