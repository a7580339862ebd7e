"""The numbers computed from the silver rows of a stage, kept apart from those that readers see.

Belongs here: the stage's own tables of numbers, and which published numbers they would change. The query of a metric belongs to
``gold.restatement.metric_query``; the effect of a publication belongs to ``gold``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import write_deltalake

from lakehouse import locations
from lakehouse.contracts.series import days_reached, source_days
from lakehouse.gold import isolation
from lakehouse.gold.numbers import history, lifecycle, published_table
from lakehouse.gold.numbers.comparison import Sides
from lakehouse.gold.numbers.lifecycle import State
from lakehouse.gold.promotion import plan
from lakehouse.gold.publication import checks as publication_checks
from lakehouse.gold.publication import reverted_periods, write_audit_publish
from lakehouse.gold.restatement import metric_query
from lakehouse.gold.rows_read import rows as rows_read
from lakehouse.ledger.failed_numbers import COMPUTED
from lakehouse.stages import stage_report
from lakehouse.stages.stage_report import ChangedDay, ChangedSeries
from lakehouse.text import json_value

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import date
    from decimal import Decimal

    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.series import Series
    from lakehouse.gold.numbers.lifecycle import PublishedState
    from lakehouse.lake import Lake


@dataclass(frozen=True)
class Thresholds:
    """The greatest changes, in percent, of a measure on one day, and over all changed days together, that need no sign-off."""

    day: Decimal = stage_report.DAY_THRESHOLD
    whole_set: Decimal = stage_report.SET_THRESHOLD


def changes(
    spark: SparkSession,
    lake: Lake,
    stage: Lake,
    daily: Series,
    silver: str,
    staged_rows: DataFrame,
    changed_days: Collection[date],
    thresholds: Thresholds,
) -> ChangedSeries:
    """Compute the numbers of a metric on the days that a stage changes, write them to the stage, and compare.

    :param daily: the days of the metric as readers see them.
    :param silver: the name of the silver table that the stage changes; live rows are used for other sources of the metric.
    :param staged_rows: its rows in the stage on ``changed_days``.
    """
    today = lifecycle.today(lake.now(), daily.metric.publication)
    reached = sorted(days_reached(daily.metric, changed_days))
    days = [day for day in reached if lifecycle.may_be_published(day, today, daily.metric.publication)]
    before = write_audit_publish.read(lake, daily, days, to_publish=False)

    def compute(metric: MetricContract | None, part: Sequence[date]) -> dict[date, pa.Table]:
        metric = metric or daily.metric
        numbers = _computed(spark, lake, metric, silver, staged_rows, changed_days, part)
        emptied = before.published_states.keys() & set(part) - numbers.keys()
        return numbers | (dict.fromkeys(emptied, metric_query.nothing(lambda: spark, lake, metric)) if emptied else {})

    computed = isolation.numbers_of(lake, daily, days, compute, lambda day: day)
    differing = {
        day: rows
        for day, rows in sorted(computed.numbers.items())
        if not published_table.is_content(rows, _content(before.published_states.get(day)))
    }
    kept = sorted(reverted_periods.kept(lake, daily.name, differing))
    changing = {day: rows for day, rows in differing.items() if day not in kept}
    _write(stage, daily, changing)
    uncomputed = {day: {COMPUTED: explanation} for day, (_, explanation) in computed.failed.items()}
    changed = _changed(lake, daily, before, changing, kept, thresholds)
    return changed.model_copy(update={"held": dict(sorted({**changed.held, **uncomputed}.items()))})


def _computed(
    spark: SparkSession,
    lake: Lake,
    metric: MetricContract,
    silver: str,
    staged_rows: DataFrame,
    changed_days: Collection[date],
    days: Collection[date],
) -> dict[date, pa.Table]:
    """The numbers of ``days`` from staged rows, and from live rows on the days that the stage does not change."""
    if not days:
        return {}
    entry = next(entry for entry in metric.read if entry.silver == silver)
    rows = staged_rows.select(*rows_read.columns_of(metric, entry, staged_rows.columns))
    if set(source_days(metric, days)) - set(changed_days):
        live = rows_read.rows_held(spark, lake, metric, entry, days)
        rows = rows.unionByName(live.where(~live.event_date.isin(sorted(changed_days))), allowMissingColumns=True)
    rows = rows_read.silver_rows(spark, lake, metric, days, {silver: rows})
    return metric_query.of_days(rows, metric, days)


def _content(published: PublishedState | None) -> str | None:
    """The digest of a day's number as readers use it; for a closed day including its adjustments."""
    return None if published is None else published.restated or published.content


def _changed(
    lake: Lake,
    daily: Series,
    before: write_audit_publish.SeriesSnapshot,
    changing: Mapping[date, pa.Table],
    kept: list[date],
    thresholds: Thresholds,
) -> ChangedSeries:
    current = plan.current_numbers(before.existing, daily)
    sides = {day: _sides(daily, current[day].rows if day in current else None, rows) for day, rows in changing.items()}
    totals = stage_report.totals_of(sides.values(), [name for name in daily.metric.additive if changing])
    states = {day: before.published_states[day].state for day in changing if day in before.published_states}
    return ChangedSeries(
        series=daily.name,
        days_changed=len(changing),
        first_day=min(changing, default=None),
        last_day=max(changing, default=None),
        days=[
            ChangedDay(day=day, state=states[day].value if day in states else None, measures=_plain(sides[day]))
            for day in _listed(sides)
        ],
        totals=_plain(totals),
        rollups={rollup.name: [period.name for period in rollup.periods(list(changing))] for rollup in daily.rollups},
        consumers=list(daily.metric.consumers),
        held=_held(lake, daily, before, changing),
        kept=kept,
        exceeded=stage_report.exceeded(daily.name, sides, totals, thresholds.day, thresholds.whole_set),
        final_days=sum(state is State.FINAL for state in states.values()),
    )


def _sides(daily: Series, before: pa.Table | None, after: pa.Table) -> dict[str, Sides]:
    """Each measure of a day, in total over its grain, before and after."""
    old = {} if before is None else history.grain_totals(daily, before.to_pylist())
    new = history.grain_totals(daily, after.to_pylist())
    return {name: Sides(old.get(name), new.get(name)) for name in {**old, **new}}


def _held(
    lake: Lake, daily: Series, before: write_audit_publish.SeriesSnapshot, changing: Mapping[date, pa.Table]
) -> dict[date, dict[str, str]]:
    """The blocking checks that the number of each day fails, with their explanations."""
    trailing = write_audit_publish.trailing(lake, daily, changing)
    held = {}
    for day, rows in changing.items():
        published = before.published_states.get(day)
        revision = (published.revision if published else 0) + 1
        failed = publication_checks.blocking(write_audit_publish.judge(before, day, revision, rows, rows, trailing, None))
        if failed:
            held[day] = {one.check: one.explanation or "failed" for one in failed}
    return held


def _listed(sides: Mapping[date, Mapping[str, Sides]]) -> list[date]:
    """The days that are listed, in order: if there are many, those with the greatest changes."""
    if len(sides) <= stage_report.LISTED_DAYS:
        return sorted(sides)
    furthest = sorted(sides, key=lambda day: max((one.size for one in sides[day].values()), default=0), reverse=True)
    return sorted(furthest[: stage_report.LISTED_DAYS])


def _plain(sides: Mapping[str, Sides]) -> dict[str, tuple[Any, Any]]:
    return {name: (json_value(one.before), json_value(one.after)) for name, one in sides.items()}


def _write(stage: Lake, daily: Series, numbers: Mapping[date, pa.Table]) -> None:
    """Replace the content of the stage's table of the series by ``numbers``."""
    tables = [
        rows.add_column(0, daily.by, pa.repeat(pa.scalar(day, pa.date32()), len(rows))) for day, rows in sorted(numbers.items())
    ]
    if tables:
        rows = pa.concat_tables(tables, promote_options="default")
        write_deltalake(
            locations.gold(stage, daily).address,
            rows,
            mode="overwrite",
            schema_mode="overwrite",
            storage_options=stage.storage_options,
        )
