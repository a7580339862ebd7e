"""Longer periods: restated when the days that they are computed from are published.

The numbers themselves belong to ``rollup_totals``; checking and publishing drafts belongs to ``write_audit_publish``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.gold import isolation
from lakehouse.gold.numbers import lifecycle, served_version
from lakehouse.gold.numbers.lifecycle import PublishAction, RevisionReason, State
from lakehouse.gold.numbers.published_table import RollupInputs
from lakehouse.gold.publication import restatement_reports, write_audit_publish
from lakehouse.gold.publication.candidates import NumberLineage, draft_period
from lakehouse.gold.publication.write_audit_publish import PublishResult, Run, again_on_conflict
from lakehouse.gold.restatement import closing, rollup_totals
from lakehouse.gold.restatement.pending import record_restatement
from lakehouse.lake import table_io
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from datetime import date

    from pyspark.sql import SparkSession

    from lakehouse.calendar.periods import Period
    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.series import Series
    from lakehouse.contracts.source import SourceContract
    from lakehouse.gold.restatement.pending import PendingRestatement
    from lakehouse.lake import Lake

_SHOWN = 5


def restate(
    lake: Lake,
    contract: SourceContract,
    daily: Series,
    rollup: Series,
    session: Callable[[], SparkSession],
    starts: Collection[date],
    run: Run,
    follows: PendingRestatement | None = None,
) -> PublishResult:
    """Compute periods again from the published days and publish those with new content or a new state.

    :param starts: the first days of the periods.
    :param session: called only if a measure is not additive.
    :param follows: the changes that the run responds to; if it covers them, the roll-up is recorded as following the days up to
        there.
    """
    lake = lake.cached()
    periods = {rollup.period(start) for start in starts}
    done = _publish_periods(lake, contract, daily, rollup, session, sorted(periods), run)
    wanted = _booked(lake, rollup, periods)
    while wanted:  # an adjusted closed period also changes the period that the adjustment is booked in
        now = _publish_periods(lake, contract, daily, rollup, session, sorted(wanted), run)
        both = (done.revisions + now.revisions, done.held + now.held, done.outcomes + now.outcomes)
        done = PublishResult(*both, done.lineage or now.lineage)
        adjusted = {rollup.period(one.start) for one in now.revisions if one.action is PublishAction.ADJUSTMENT}
        wanted = _booked(lake, rollup, adjusted)
    write_audit_publish.remove_published_candidates(lake, rollup)
    restatement_reports.follow(lake, rollup)
    record_restatement(lake, rollup, run.run_id, done.days, {period.start for period in periods}, follows)
    return done


@again_on_conflict
def _publish_periods(
    lake: Lake,
    contract: SourceContract,
    daily: Series,
    rollup: Series,
    session: Callable[[], SparkSession],
    periods: Sequence[Period],
    run: Run,
) -> PublishResult:
    before = write_audit_publish.read(lake, rollup, [period.start for period in periods])
    table = locations.gold(lake, daily).open()
    served_version.transaction(daily, table)  # raises if readers now see days of another dataset version
    days = sorted({day for period in periods for day in period.days})
    rows = None if table is None else table_io.read_version(table, None, {daily.by: days})
    if table is None or rows is None or not periods:
        return PublishResult()
    booked = rollup_totals.booked_in(lake, daily, rollup, periods)

    def compute(metric: MetricContract | None, part: Sequence[Period]) -> dict[Period, pa.Table]:
        of_days, of_rollup = (replace(one, metric=metric or one.metric) for one in (daily, rollup))
        return rollup_totals.of_periods(lake, contract, of_days, of_rollup, session, part, rows, booked)

    computed = isolation.numbers_of(lake, rollup, periods, compute, lambda period: period.start)
    today = lifecycle.today(lake.now(), rollup.metric.publication)
    limits = closing.limits(lake, contract, rollup, list(computed.numbers), [period.start for period in computed.numbers])
    drafts = []
    for period, number in computed.numbers.items():
        published = before.published_states.get(period.start)
        days_of_period = rollup_totals.latest_days(rows, daily, period)
        earlier = _earlier(before.existing, rollup, period)
        changed_days = _changed_days(earlier, daily, days_of_period)
        booked_since = _booked_since(earlier, booked.get(period))
        reasons = _reasons_since(earlier, daily, rows, changed_days, booked_since)
        limit, reason = limits.get(period.start), _reason(reasons, published, run)
        at_most = limit.at_most if limit else State.FINAL
        draft = draft_period(rollup, published, period.start, number, today, requested=reason, at_most=at_most)
        if draft is not None:
            explanation = run.explanation or f"{draft.reason.value}: {_explain(changed_days, booked_since)}"
            drafts.append(replace(draft, explanation=explanation, lineage=_lineage(days_of_period, daily, booked.get(period))))
    why = {
        "input_versions": {f"gold/{daily.name}": {"version": table.version(), "from": f"{days[0]}", "through": f"{days[-1]}"}},
        "trigger": run.about | {"series": daily.name, "gold_version": table.version()},
        "downstream": list(rollup.metric.consumers),
    }
    failed = computed.by(lambda period: period.start).failed
    return write_audit_publish.publish(lake, before, drafts, run, why, uncomputed=failed)


def _booked(lake: Lake, rollup: Series, periods: Collection[Period]) -> set[Period]:
    """The periods in which adjustments of the given periods are booked, including those of a run that was stopped."""
    if rollup.metric.publication.after_close != "adjust":
        return set()
    where = {rollup.by: [period.start for period in periods]}
    found = locations.gold(lake, rollup).read(["booked_on"], where)
    return set() if found is None else set(rollup.periods(set(found["booked_on"].drop_null().to_pylist())))


def _lineage(days: pa.Table, daily: Series, booked: pa.Table | None) -> NumberLineage:
    """The inputs of a longer period.

    :param days: the newest published rows of its days.
    :param booked: the adjustments that are booked in it.
    """
    inputs = RollupInputs(
        revisions={day: f"r{number}" for day, number in zip(days[daily.by].to_pylist(), days["revision"].to_pylist())},
        adjustments=sorted(set(booked["version_name"].to_pylist())) if booked is not None else (),
    )
    return NumberLineage(
        undecided_rows=sum(dict(zip(days["period"].to_pylist(), days["undecided_rows"].to_pylist())).values()),
        known_through=pc.max(days["known_through"]).as_py(),
        made_from=f"{inputs}",
        silver_version=pc.max(days["silver_version"]).as_py(),
    )


def _reason(reasons: Collection[RevisionReason], published: lifecycle.PublishedState | None, run: Run) -> RevisionReason | None:
    """The gravest of the reasons for which what the period is made of was published since its newest number."""
    if published is None or run.reason not in (None, RevisionReason.BACKFILL) or not reasons:
        return run.reason
    return lifecycle.reason_of_longer(reasons, run.reason)


def _earlier(existing: pa.Table | None, rollup: Series, period: Period) -> RollupInputs:
    """What the newest number of a period was made of."""
    if existing is None:
        return RollupInputs()
    newest = existing.filter(pc.and_(existing["is_latest"], pc.equal(existing[rollup.by], pa.scalar(period.start, pa.date32()))))
    return RollupInputs.parse(newest["made_from"][0].as_py()) if len(newest) else RollupInputs()


def _changed_days(earlier: RollupInputs, daily: Series, day_rows: pa.Table) -> pa.Table:
    """The rows of the days with another revision than the newest number was computed from."""
    named = zip(day_rows[daily.by].to_pylist(), day_rows["revision"].to_pylist())
    return day_rows.filter(pa.array([earlier.revisions.get(day) != f"r{number}" for day, number in named], pa.bool_()))


def _booked_since(earlier: RollupInputs, booked: pa.Table | None) -> pa.Table | None:
    """The adjustments booked in a period that its newest number does not include; None without one."""
    new = (
        None
        if booked is None
        else booked.filter(pc.invert(pc.is_in(booked["version_name"], pa.array(earlier.adjustments, pa.string()))))
    )
    return new if new is not None and len(new) else None


def _reasons_since(
    earlier: RollupInputs, daily: Series, rows: pa.Table, changed_days: pa.Table, booked_since: pa.Table | None
) -> set[RevisionReason]:
    """Why every revision of the changed days, and every booked adjustment, was published since the newest number of a period.

    Not the newest revision alone: a day that was restated and then closed has two since.

    :param rows: all published rows of the days.
    """
    of_days = rows.filter(pc.and_(pc.is_in(rows[daily.by], changed_days[daily.by]), pc.is_null(rows["adjustment"])))
    named = of_days.group_by([daily.by, "revision", "reason"]).aggregate([]).to_pylist()
    before = {day: int(label[1:]) for day, label in earlier.revisions.items()}
    texts = {row["reason"] for row in named if row["revision"] > before.get(row[daily.by], 0)}
    texts |= set() if booked_since is None else set(pc.unique(booked_since["reason"]).to_pylist())
    return {RevisionReason(text) for text in texts}


def _explain(changed_days: pa.Table, booked_since: pa.Table | None) -> str:
    """A sentence that lists the days with another revision than the newest number was computed from, and what is booked since."""
    changed = sorted(set(changed_days["period"].to_pylist()))
    changed += [] if booked_since is None else sorted(set(booked_since["version_name"].to_pylist()))
    return f"recomputed from {join_limited(changed, _SHOWN)}" if changed else "recomputed"
