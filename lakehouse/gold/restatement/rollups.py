"""Longer periods: their numbers from published days, restated when the days that they are computed from are published.

A number is the sum of the published days; measures that are not additive come from the Silver rows of the same days. It never
mixes two states of a day: for a day whose newest computed number is not published, the rows of the published number are used.
Adjustments that are booked in the period are included. Checking and publishing drafts belongs to ``write_audit_publish``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import CommitFailedError

from lakehouse import locations
from lakehouse.contracts.series import source_read
from lakehouse.gold import isolation
from lakehouse.gold.numbers import lifecycle, served_version
from lakehouse.gold.numbers.lifecycle import PublishAction, RevisionReason, State
from lakehouse.gold.numbers.published_table import RollupInputs
from lakehouse.gold.publication import candidates, held_numbers, late_at_close, restatement_reports, write_audit_publish
from lakehouse.gold.publication.candidates import NumberLineage
from lakehouse.gold.publication.write_audit_publish import PublishResult, Run, again_on_conflict
from lakehouse.gold.restatement import closing, derived_inputs, exact_sums, lineage, metric_query, silver_tables
from lakehouse.gold.restatement import silver_rows as rows_read
from lakehouse.gold.restatement.pending import find_pending, record_restatement
from lakehouse.lake import table_io
from lakehouse.ledger import failures
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import date

    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.calendar.periods import Period
    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.series import Series
    from lakehouse.contracts.source import SourceContract
    from lakehouse.gold.restatement.pending import PendingRestatement
    from lakehouse.lake import Lake

_SHOWN = 5
_OF_VERSION = ["version_name", "reason"]


def restate(
    lake: Lake,
    contract: SourceContract,
    rollup: Series,
    session: Callable[[], SparkSession],
    starts: Collection[date],
    run: Run,
    follows: PendingRestatement | None = None,
) -> PublishResult:
    """Compute periods again from the published days and publish those with new content or a new state.

    :param starts: the first days of the periods.
    :param session: called only if a measure is not additive, or a period is empty.
    :param follows: the changes that the run responds to; if it covers them, the roll-up is recorded as following the days up to
        there.
    """
    lake = lake.cached()
    periods = {rollup.period(start) for start in starts}
    done = _publish_periods(lake, contract, rollup, session, sorted(periods), run)
    wanted = _booked(lake, rollup, periods)
    while wanted:  # an adjusted closed period also changes the period that the adjustment is booked in
        now = _publish_periods(lake, contract, rollup, session, sorted(wanted), run)
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
    rollup: Series,
    session: Callable[[], SparkSession],
    periods: Sequence[Period],
    run: Run,
) -> PublishResult:
    daily, before = rollup.daily, write_audit_publish.read(lake, rollup, [period.start for period in periods])
    table = locations.gold(lake, daily).open()
    served_version.transaction(daily, table)  # raises if readers now see days of another dataset version
    days = sorted({day for period in periods for day in period.days})
    rows = None if table is None else table_io.read_version(table, None, {daily.by: days})
    if table is None or rows is None or not periods:
        return PublishResult()
    booked = booked_in(lake, rollup, periods)

    def compute(metric: MetricContract | None, part: Sequence[Period]) -> dict[Period, pa.Table]:
        of_rollup = replace(rollup, metric=metric or rollup.metric)
        found = totals_of_periods(lake, contract, of_rollup, session, part, rows, booked)
        # Of a period without a day, later revisions contain all that was booked in it.
        emptied = [period for period in part if period not in found and period.start in before.published_states]
        return found | (dict.fromkeys(emptied, nothing(lake, of_rollup, session)) if emptied else {})

    computed = isolation.numbers_of(lake, rollup, periods, compute, lambda period: period.start)
    today = lifecycle.today(lake.now(), rollup.metric.publication)
    limits = closing.limits(lake, contract, rollup, list(computed.numbers), [period.start for period in computed.numbers])
    drafts = []
    for period, number in computed.numbers.items():
        published = before.published_states.get(period.start)
        days_of_period = latest_days(rows, daily, period)
        earlier = _earlier(before.existing, rollup, period)
        changed_days = _changed_days(earlier, daily, days_of_period)
        booked_since = _booked_since(lake, rollup, earlier, booked.get(period))
        reasons = _reasons_since(earlier, daily, rows, changed_days, booked_since)
        limit, reason = limits.get(period.start), _reason(reasons, published, run)
        at_most = limit.at_most if limit else State.FINAL
        draft = candidates.draft_period(before, period.start, number, candidates.DraftTerms(today, at_most), requested=reason)
        if draft is not None:
            explanation = run.explanation or f"{draft.reason.value}: {_explain(changed_days, booked_since)}"
            draft = replace(draft, explanation=explanation, lineage=_lineage(days_of_period, daily, booked.get(period)))
            drafts += candidates.with_cause(before, draft)
    why = {
        "input_versions": {f"gold/{daily.name}": {"version": table.version(), "from": f"{days[0]}", "through": f"{days[-1]}"}},
        "trigger": run.about | {"series": daily.name, "gold_version": table.version()},
        "downstream": list(rollup.metric.consumers),
    }
    failed = computed.by(lambda period: period.start).failed
    return write_audit_publish.publish(lake, before, drafts, run, why, uncomputed=failed)


def _booked(lake: Lake, rollup: Series, periods: Collection[Period]) -> set[Period]:
    """The periods in which adjustments of the given periods are booked, including those of a run that was stopped."""
    table, where = locations.gold(lake, rollup), {rollup.by: [period.start for period in periods]}
    found = table.read(["booked_on"], where) if derived_inputs.has_bookings(table) else None
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


def _booked_since(lake: Lake, rollup: Series, earlier: RollupInputs, booked: pa.Table | None) -> pa.Table | None:
    """What changed the bookings in a period since its newest number: adjustments that it does not include, and revisions of days
    that contain adjustments which it includes; None without one.
    """
    names = [] if booked is None else booked["version_name"].to_pylist()
    is_new = pa.array([name not in earlier.adjustments for name in names], pa.bool_())
    new = [] if booked is None else [booked.select(_OF_VERSION).filter(is_new)]
    gone = sorted({*earlier.adjustments} - {*names})
    for series in (rollup.daily, rollup) if gone else ():
        table = locations.gold(lake, series)
        contained = table.read([series.by], {"version_name": gone})
        if contained is not None and len(contained):
            new.append(table.read(_OF_VERSION, {series.by: pc.unique(contained[series.by]).to_pylist(), "is_latest": [True]}))
    changes = pa.concat_tables(new) if new else None
    return changes if changes is not None and len(changes) else None


def _reasons_since(
    earlier: RollupInputs, daily: Series, rows: pa.Table, changed_days: pa.Table, booked_since: pa.Table | None
) -> set[RevisionReason]:
    """Why every revision of the changed days, and what changed the bookings, was published since the newest number of a period.

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
    """A sentence that lists the days with another revision than the newest number was computed from, and changes of bookings."""
    changed = sorted(set(changed_days["period"].to_pylist()))
    changed += [] if booked_since is None else sorted(set(booked_since["version_name"].to_pylist()))
    return f"recomputed from {join_limited(changed, _SHOWN)}" if changed else "recomputed"


def period_numbers(
    lake: Lake, contract: SourceContract, rollup: Series, session: Callable[[], SparkSession], periods: Sequence[Period]
) -> dict[Period, pa.Table]:
    """The number of each period with a published day."""
    daily = rollup.daily
    days = {daily.by: sorted({day for period in periods for day in period.days})}
    rows = locations.gold(lake, daily).read(None, days)
    if rows is None or not len(rows):
        return {}
    booked = booked_in(lake, rollup, periods)
    return totals_of_periods(lake, contract, rollup, session, periods, rows, booked)


def totals_of_periods(
    lake: Lake,
    contract: SourceContract,
    rollup: Series,
    session: Callable[[], SparkSession],
    periods: Sequence[Period],
    rows: pa.Table,
    booked: Mapping[Period, pa.Table],
) -> dict[Period, pa.Table]:
    """The number of each period with a published day or a booked adjustment."""
    metric, daily = rollup.metric, rollup.daily
    added = {}
    for period in periods:
        own, there = latest_days(rows, daily, period), booked.get(period)
        if len(own) or (there is not None and len(there)):
            added[period] = add_up(rollup, own, there)
    others = [measure for measure in metric.measures if not measure.additive]
    if not others or not added:
        return added
    found = _from_silver(lake, contract, daily, session, list(added), rows)
    if any(period.start not in found for period in added):
        nothing = metric_query.nothing(session, lake, daily.metric.whole)  # all rows of the period are gone
        found = {period.start: nothing for period in added} | found
    return {period: joined(rollup, number, found[period.start]) for period, number in added.items()}


def nothing(lake: Lake, rollup: Series, session: Callable[[], SparkSession]) -> pa.Table:
    """The number of a period without rows: one row without a grain."""
    return metric_query.nothing(session, lake, rollup.metric.whole).select([*rollup.grain, *rollup.numbers])


def add_up(rollup: Series, days: pa.Table, booked: pa.Table | None) -> pa.Table:
    """The sums of days and booked adjustments by grain: of row_count and the additive measures; other measures are NULL.

    NULL is ignored, as in SQL.
    """
    names = [*rollup.metric.additive, "row_count"]
    columns = [*rollup.grain, *names]
    filled = days.filter(pc.greater(days["row_count"], 0))  # the others are rows of empty days
    parts = [(filled if len(filled) else days.slice(0, 1)).select(columns)]
    if booked is not None and len(booked):
        parts.append(booked.select(columns))
    sums = exact_sums.summed(pa.concat_tables(parts), rollup.grain, names)
    types = {item.name: item.type for item in days.schema}
    sums_of = {name: sums[name] if name in names else pa.nulls(len(sums), types[name]) for name in rollup.numbers}
    return pa.table({name: sums[name] for name in rollup.grain} | sums_of)


def _from_silver(
    lake: Lake,
    contract: SourceContract,
    daily: Series,
    session: Callable[[], SparkSession],
    periods: Sequence[Period],
    rows: pa.Table,
) -> dict[date, pa.Table]:
    """The numbers of whole periods, computed from the Silver rows of the published days, by first day."""
    metric = daily.metric
    silver_tables.require_rows(lake, metric)
    version = silver_tables.versions_read(lake, metric)
    published = set(rows.filter(rows["is_latest"])[daily.by].to_pylist())
    unpublished = {held.start for held in candidates.held(lake, daily, published)}
    unpublished |= find_pending(lake, daily).starts & published
    unpublished |= failures.failing(lake, daily.name, published).keys()
    # The published number of these days stays different: the new one was refused, or became an adjustment.
    unpublished |= held_numbers.find_refused(lake, daily, rows, published).keys() & published
    unpublished |= set(rows.filter(pc.is_valid(rows["adjustment"]))[daily.by].to_pylist())
    numbers = None if unpublished else metric_query.of_few_periods(lake, metric, periods, published)
    if numbers is None:
        numbers = _by_spark(lake, contract, daily, session(), periods, rows, unpublished)
    if (changed := silver_tables.changed_since(lake, metric, version)) is not None:
        msg = f"silver/{changed} kept changing while periods were computed from it; run it again later"
        raise CommitFailedError(msg)
    return numbers


def _by_spark(
    lake: Lake,
    contract: SourceContract,
    daily: Series,
    spark: SparkSession,
    periods: Sequence[Period],
    rows: pa.Table,
    unpublished: Collection[date],
) -> dict[date, pa.Table]:
    """The same by Spark; the rows of ``unpublished`` days are those of their published numbers."""
    metric = daily.metric
    published = set(rows.filter(rows["is_latest"])[daily.by].to_pylist()) - set(unpublished)
    limited = published - late_at_close.counting_every_row(lake, daily, rows)
    named = lineage.named_now(lake, metric, limited) if limited else None
    frames = [rows_read.silver_rows(spark, lake, metric, published, named=named)]
    frames += _as_published(lake, contract, spark, daily, rows, unpublished)
    silver_rows: DataFrame = frames[0]
    for frame in frames[1:]:
        silver_rows = silver_rows.unionByName(frame.select(silver_rows.columns))
    return metric_query.of_periods(silver_rows, metric, periods)


def _as_published(
    lake: Lake, contract: SourceContract, spark: SparkSession, daily: Series, rows: pa.Table, days: Collection[date]
) -> list[DataFrame]:
    """The Silver rows of published numbers of days that Silver has changed since, computed again from Bronze."""
    frames, read = [], source_read(daily.metric, contract)
    columns = [daily.by, "inputs", "inputs_without", "dimension_inputs"]
    named = table_io.with_columns(rows.filter(rows["is_latest"]), columns)
    for row in {row[daily.by]: row for row in named.to_pylist() if row[daily.by] in days}.values():
        day = row[daily.by]
        ids = lineage.ids_by_day(lake, contract.dataset, row["inputs"], row["inputs_without"], [day])[day]
        of_day, _ = rows_read.rows_of_inputs(spark, lake, daily.metric, read, {day: ids}, row["dimension_inputs"])
        frames.append(of_day)
    return frames


def joined(series: Series, added: pa.Table, found: pa.Table) -> pa.Table:
    """Sums by grain, with the measures that are not additive taken from computed numbers."""
    grain = series.grain
    others = [measure.name for measure in series.metric.measures if not measure.additive]
    computed = {tuple(row[name] for name in grain): row for row in found.to_pylist()}
    rows = [
        row | {name: computed.get(tuple(row[one] for one in grain), {}).get(name) for name in others} for row in added.to_pylist()
    ]
    return pa.Table.from_pylist(rows, schema=added.schema)


def booked_in(lake: Lake, rollup: Series, periods: Sequence[Period]) -> dict[Period, pa.Table]:
    """The adjustments booked in each period: of closed days, and of closed periods of the roll-up itself."""
    days, tables = [day for period in periods for day in period.days], []
    for series in (rollup.daily, rollup):
        columns = [*rollup.content, "booked_on", "version_name", "reason", series.by]
        adjustments = derived_inputs.booked_on(locations.gold(lake, series), series.by, days, columns)
        if adjustments is not None and len(adjustments):
            # A period that is closed on its last day books nothing in itself; for days this cannot happen.
            of = adjustments[series.by] if series is rollup else pa.nulls(len(adjustments), pa.date32())
            tables.append(adjustments.drop_columns([series.by]).append_column("of", of))
    rows = pa.concat_tables(tables, promote_options="default") if tables else None
    return {} if rows is None else {period: _booked_in(rows, period) for period in periods}


def _booked_in(rows: pa.Table, period: Period) -> pa.Table:
    own = pc.fill_null(pc.equal(rows["of"], pa.scalar(period.start, pa.date32())), False)
    return rows.filter(pc.and_(pc.is_in(rows["booked_on"], pa.array(period.days, pa.date32())), pc.invert(own)))


def latest_days(rows: pa.Table, daily: Series, period: Period) -> pa.Table:
    """The newest revisions of a period's days, in the order of the days and the grain."""
    own = pc.and_(rows["is_latest"], pc.is_in(rows[daily.by], pa.array(period.days, pa.date32())))
    return rows.filter(own).sort_by([(name, "ascending") for name in [daily.by, *daily.metric.grain]])
