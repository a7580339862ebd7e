"""Derived numbers: computed from published numbers, published, and restated when one of these was restated (R7, R8, R15).

One function serves days and longer periods: each is made of the same period of the inputs. Checking and publishing drafts belongs
to ``write_audit_publish``.

A number is made of its inputs, summed by its grain and joined; its measures are Spark SQL over the result. The result has every
row of the grain that any input has; an input without it is NULL. A division by zero is NULL, as in the measures of other metrics;
any other failure affects only its period. Numbers are small, and are collected in this process.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse.contracts.derived import PERIOD_START, ROW_COUNT
from lakehouse.gold import isolation
from lakehouse.gold.numbers import lifecycle, published_table
from lakehouse.gold.numbers.lifecycle import RevisionReason, State
from lakehouse.gold.numbers.published_table import RollupInputs
from lakehouse.gold.publication import candidates, held_numbers, restatement_reports, write_audit_publish
from lakehouse.gold.publication.write_audit_publish import PublishResult, Run, again_on_conflict
from lakehouse.gold.restatement import derived_inputs, exact_sums
from lakehouse.gold.restatement.derived_inputs import InputError, PeriodOfInput
from lakehouse.gold.restatement.pending import record_restatement
from lakehouse.lake import table_io
from lakehouse.spark import commits, dataframes
from lakehouse.spark.session import in_zone
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import date

    from pyspark.sql import SparkSession

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.series import Series
    from lakehouse.gold.isolation import Isolated
    from lakehouse.gold.publication.candidates import Draft
    from lakehouse.gold.publication.write_audit_publish import SeriesSnapshot
    from lakehouse.gold.restatement.derived_inputs import PeriodOfInput
    from lakehouse.gold.restatement.pending import PendingRestatement
    from lakehouse.lake import Lake

_SHOWN = 5


def restate(
    lake: Lake,
    series: Series,
    session: Callable[[], SparkSession],
    starts: Collection[date],
    run: Run,
    follows: PendingRestatement | None = None,
) -> PublishResult:
    """Compute periods again from the newest published numbers of the inputs, and publish those with new content or a new state.

    A period for which an input has no number is not published.

    :param session: called only if there is something to compute.
    :param starts: the first days of the periods.
    :param follows: the changes that the run responds to; if ``starts`` cover them, the series is recorded as following its inputs
        up to there.
    """
    lake = lake.cached()
    done = _publish(lake, series, session, sorted(starts), run)
    write_audit_publish.remove_published_candidates(lake, series)
    restatement_reports.follow(lake, series)
    record_restatement(lake, series, run.run_id, done.days, starts, follows)
    held_numbers.follow_reverts(lake, series.name, starts)
    return done


@again_on_conflict
def _publish(lake: Lake, series: Series, session: Callable[[], SparkSession], starts: Sequence[date], run: Run) -> PublishResult:
    terms = series.metric.publication
    today = lifecycle.today(lake.now(), terms)
    starts = [start for start in starts if lifecycle.may_be_published(start, today, terms)]
    before = write_audit_publish.read(lake, series, starts)  # before the inputs are read
    versions = {name: table.version() for name, table in derived_inputs.tables(lake, series).items()}
    periods = derived_inputs.newest(lake, series, starts)
    computed = compute(lake, session, series, periods)
    drafts = _drafts(lake, before, periods, computed.numbers, run)
    why = {
        "input_versions": {f"gold/{name}{series.kind.suffix}": {"version": version} for name, version in versions.items()},
        "trigger": run.about | {"run": run.job_name, "inputs": sorted(versions)},
        "downstream": [*series.metric.consumers],
    }
    return write_audit_publish.publish(lake, before, drafts, run, why, uncomputed=computed.failed)


def _drafts(
    lake: Lake,
    before: SeriesSnapshot,
    periods: Mapping[date, Sequence[PeriodOfInput]],
    computed: Mapping[date, pa.Table],
    run: Run,
) -> list[Draft]:
    """Draft the numbers that have new content or a new state."""
    series, drafts = before.series, []
    today = lifecycle.today(lake.now(), series.metric.publication)
    refused = held_numbers.find_refused(lake, series, before.existing, list(computed)) if computed else {}
    released = held_numbers.released_periods(lake, series.name, computed)
    for start, rows in sorted(computed.items()):
        published = before.published_states.get(start)
        content = published_table.content_of(rows, lifecycle.contents_of(published), refused.get(start, ()))
        of_period, earlier = periods[start], _earlier(before, start)
        lineage = _lineage(of_period)
        if content in refused.get(start, ()):
            if published is None:
                continue
            # A person refused the new number, or reverted the period: the published one stays, and only its state changes.
            rows, content, lineage = before.latest[start], published.content, _of_latest(before, start)  # noqa: PLW2901
        changed = [number for number in of_period if number.named != earlier.of_metrics.get(number.input.metric)]
        limit = derived_inputs.limit(series, start, {number.input.metric: number.state for number in of_period})
        terms = candidates.DraftTerms(today, limit[0] if limit else State.FINAL)
        requested = _reason(changed, earlier, published, run)
        draft = candidates.draft_period(before, start, rows, terms, requested=requested, content=content)
        if draft is not None:
            since = released.get(start)
            why = f"released by {since.by}: {since.reason}" if since else _explain(of_period, earlier)
            draft = replace(draft, explanation=run.explanation or f"{draft.reason.value}: {why}", lineage=lineage)
            drafts += candidates.with_cause(before, draft)
    return drafts


def _earlier(before: SeriesSnapshot, start: date) -> RollupInputs:
    """The inputs of the newest number of a period."""
    return RollupInputs.parse(_of_latest(before, start).made_from if start in before.published_states else None)


def _of_latest(before: SeriesSnapshot, start: date) -> candidates.NumberLineage:
    assert before.existing is not None  # noqa: S101 (the period is published)
    is_of_start = pc.and_(before.existing["is_latest"], pc.equal(before.existing[before.series.by], start))
    return candidates.NumberLineage.of_row(before.existing.filter(is_of_start).slice(0, 1).to_pylist()[0])


def _lineage(of_period: Sequence[PeriodOfInput]) -> candidates.NumberLineage:
    """The lineage of a number; it contains the arrival days that all inputs contain."""
    first_rows: list[dict[str, Any]] = [
        number.rows.select(["undecided_rows", "known_through"]).slice(0, 1).to_pylist()[0] for number in of_period
    ]
    known = [row["known_through"] for row in first_rows if row["known_through"]]
    return candidates.NumberLineage(
        undecided_rows=sum(row["undecided_rows"] or 0 for row in first_rows),
        known_through=min(known, default=None),
        made_from=f"{derived_inputs.made_from(of_period)}",
    )


def _reason(
    changed: Sequence[PeriodOfInput], earlier: RollupInputs, published: lifecycle.PublishedState | None, run: Run
) -> RevisionReason | None:
    """The reason with the highest precedence for which one of the changed inputs was published."""
    if published is None or run.reason not in (None, RevisionReason.BACKFILL) or not changed:
        return run.reason
    reasons = {RevisionReason(text) for number in changed for text in _reasons_since(number, earlier)}
    return lifecycle.reason_of_longer(reasons, run.reason)


def _reasons_since(number: PeriodOfInput, earlier: RollupInputs) -> set[str]:
    """The reasons of the revisions of an input, and of the adjustments booked in it, since an earlier number."""
    before = earlier.of_metrics.get(number.input.metric, RollupInputs())
    since = int(before.revisions.get(number.start, "r0")[1:])
    booked = [] if number.booked is None else number.booked.select(["version_name", "reason"]).to_pylist()
    new = {row["reason"] for row in booked if row["version_name"] not in before.adjustments}
    return new | {reason for revision, reason in number.reasons.items() if revision > since}


def _explain(of_period: Sequence[PeriodOfInput], earlier: RollupInputs) -> str:
    """A sentence that lists the input numbers that differ from those of the newest number."""
    now = derived_inputs.made_from(of_period)
    changed = [f"{name} {after}" for name, _, after in now.named_changes(earlier)]
    booked = [number.input.metric for number in of_period if number.named.adjustments != _adjustments(earlier, number)]
    changed += [f"adjustments of {name}" for name in booked]
    return f"recomputed from {join_limited(changed, _SHOWN)}" if changed else "recomputed"


def _adjustments(earlier: RollupInputs, number: PeriodOfInput) -> tuple[str, ...]:
    return tuple(earlier.of_metrics.get(number.input.metric, RollupInputs()).adjustments)


def compute(
    lake: Lake, session: Callable[[], SparkSession], series: Series, periods: Mapping[date, Collection[PeriodOfInput]]
) -> Isolated[date]:
    """The number of each period (grain, measures and row_count, in the order of the grain), and the errors of the others.

    :param session: called only if there are periods.
    :param periods: by first day, the number of each input.
    """

    def of_periods(metric: MetricContract | None, starts: Collection[date]) -> dict[date, pa.Table]:
        part = {start: periods[start] for start in starts}
        return of_inputs(session, replace(series, metric=metric or series.metric), part)

    return isolation.numbers_of(lake, series, list(periods), of_periods, lambda start: start)


def of_inputs(
    session: Callable[[], SparkSession], series: Series, periods: Mapping[date, Collection[PeriodOfInput]]
) -> dict[date, pa.Table]:
    """The number of each period; all of them fail if one cannot be computed."""
    if not periods:
        return {}
    spark, metric = session(), series.metric
    inputs = dataframes.local(spark, joined(series, periods))
    measures = [F.expr(measure.checked_sql).alias(measure.name) for measure in metric.measures]
    with in_zone(spark, metric.zone), commits.watched(spark, f"{series.name} on {len(periods):,} periods"):
        numbers = dataframes.in_utc(inputs.select(PERIOD_START, *metric.grain, *measures, ROW_COUNT).toArrow())
    rows = numbers.sort_by([(name, "ascending") for name in [PERIOD_START, *metric.grain]])
    return {start: own.drop_columns([PERIOD_START]) for start, own in table_io.split(rows, PERIOD_START).items()}


def joined(series: Series, periods: Mapping[date, Collection[PeriodOfInput]]) -> pa.Table:
    """The rows that the measures are computed from: period_start, the grain, a struct per input, and row_count.

    :raises InputError: if a column of the grain has incompatible types.
    """
    keys = [PERIOD_START, *series.grain]
    parts = [part for start, of_period in periods.items() for part in _of_period(series, start, of_period)]
    try:
        rows = pa.concat_tables(parts, promote_options="permissive")
    except pa.ArrowTypeError as problem:
        msg = f"{series.name}: the inputs have grains of different types: {problem}; give the columns one type in their sources"
        raise InputError(msg) from None
    columns = [name for name in rows.column_names if name not in keys]
    found = rows.group_by(keys).aggregate([(name, "max") for name in columns])  # one row at most of each input
    table: dict[str, pa.Array | pa.ChunkedArray] = {name: found[name] for name in keys}
    counts = []
    for number in series.metric.inputs:
        fields = {name: found[f"{_column(number.metric, name)}_max"].combine_chunks() for name in number.columns}
        table[number.metric] = pa.StructArray.from_arrays(list(fields.values()), names=list(fields))
        counts.append(pc.fill_null(fields[ROW_COUNT], 0))
    total = counts[0]
    for count in counts[1:]:
        total = pc.add(total, count)
    return pa.table(table | {ROW_COUNT: total})


def _of_period(series: Series, start: date, of_period: Collection[PeriodOfInput]) -> list[pa.Table]:
    """The summed rows of each input; those of an emptied input only if they are a row of the grain, or all inputs are empty."""
    grain, some_filled = series.grain, any(map(_is_filled, of_period))
    rows = []
    for number in of_period:
        added = _added_up(grain, number)
        added = added.slice(0, 0) if grain and some_filled and not _is_filled(number) else added
        rows.append(added.add_column(0, PERIOD_START, pa.array([start] * len(added), pa.date32())))
    return rows


def _is_filled(number: PeriodOfInput) -> bool:
    """Whether a number has rows; the number of an emptied period is one row without values and without a grain."""
    first = number.rows.slice(0, 1).select([*number.input.grain, ROW_COUNT]).to_pylist()[0]
    is_nothing = first.pop(ROW_COUNT) == 0 and not any(value is not None for value in first.values())
    return number.booked is not None or len(number.rows) > 1 or not is_nothing


def _added_up(grain: Collection[str], number: PeriodOfInput) -> pa.Table:
    """The rows of an input summed by a grain, with the adjustments booked in the period; the columns are named after the
    input.
    """
    columns, read = [*grain, *number.input.columns], number.input
    rows = number.rows.select(columns)
    if number.booked is not None:
        is_emptied = not _is_filled(replace(number, booked=None))
        rows = pa.concat_tables([*([] if is_emptied else [rows]), number.booked.select(columns)])
    if number.booked is not None or read.is_summed(grain):
        rows = exact_sums.summed(rows, [*grain], read.columns)
    return rows.rename_columns([*grain, *(_column(read.metric, name) for name in read.columns)])


def _column(metric: str, name: str) -> str:
    return f"{metric}.{name}"
