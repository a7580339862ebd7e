"""The silver rows computed from a stage and the numbers computed from them, kept apart from those that readers see.

Belongs here: the event days that a stage reaches, the stage's own tables of rows and numbers on exactly these days, and their
differences from the tables that readers see. Under ``merge``, if few rows are concerned, the rows are the live rows with the
staged ones merged into them; otherwise ``silver.merge.state`` computes them. The query of a metric belongs to
``gold.restatement.metric_query``; the effect of a publication belongs to ``gold``.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import write_deltalake
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse import locations
from lakehouse.calendar import days as day_conditions
from lakehouse.contracts.series import days_reached, source_days
from lakehouse.delta import change_feed, layout
from lakehouse.delta.columns import arrow_schema, content_columns, silver_columns
from lakehouse.delta.partition_writer import ALL_STATISTICS
from lakehouse.dispositions import claims, deliveries, living_rows
from lakehouse.dispositions.living_rows import Slice
from lakehouse.dispositions.reprocess_policy import policy_of
from lakehouse.gold import isolation
from lakehouse.gold.numbers import history, lifecycle, published_table
from lakehouse.gold.numbers.comparison import Sides
from lakehouse.gold.numbers.lifecycle import State
from lakehouse.gold.promotion import plan
from lakehouse.gold.publication import checks as publication_checks
from lakehouse.gold.publication import held_numbers, write_audit_publish
from lakehouse.gold.restatement import metric_query
from lakehouse.gold.restatement import silver_rows as rows_read
from lakehouse.lake import table_io
from lakehouse.ledger import decisions, ingestions
from lakehouse.ledger.failures import COMPUTED
from lakehouse.reparse import changed_claims
from lakehouse.silver import local_merge
from lakehouse.silver import merge as silver_merge
from lakehouse.snapshots import comparison
from lakehouse.spark import commits as spark_commits
from lakehouse.spark import dataframes
from lakehouse.spark.session import sized_for
from lakehouse.stages import stage_log
from lakehouse.stages.stage_log import ChangedDay, ChangedSeries, SampledRow, StageError
from lakehouse.text import json_value

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import date
    from decimal import Decimal

    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.series import Series
    from lakehouse.contracts.source import SourceContract
    from lakehouse.gold.numbers.lifecycle import PublishedState
    from lakehouse.lake import Lake
    from lakehouse.snapshots.comparison import RowsComparison


#: The number of sampled keys.
_SAMPLED = 10


@dataclass(frozen=True)
class SideRows:
    """The differences between the silver rows of a stage and the live ones.

    :param days: the event days whose rows differ; the stage's silver table has the rows of these days.
    :param compared: the rows of these days, before and after.
    """

    days: list[date]
    compared: RowsComparison
    samples: list[SampledRow]


def reached_days(lake: Lake, stage: Lake, contract: SourceContract) -> set[date]:
    """The event days whose rows the staged files or the staged reading may change.

    :param stage: the stage's lake.
    """
    if locations.readings(stage, contract.dataset).open() is not None:
        return set(changed_claims.changes(lake, stage, contract).days)
    stored = locations.key_log(stage, contract.dataset)
    staged = stored.distinct(["record_key", "event_date"], None)
    if staged is None:
        return set()
    row_days = {day for day in pc.unique(staged["event_date"]).to_pylist() if day is not None}
    return row_days | claims.affected_event_days(lake, contract, row_days, pc.unique(staged["record_key"]))


def compute(
    spark: SparkSession, lake: Lake, stage: Lake, contract: SourceContract, days: Collection[date], seed: int
) -> SideRows:
    """Compute the rows that silver would hold on ``days`` with the staged input, and write those of the days that differ.

    :param seed: chooses the sampled keys.
    :raises StageError: if the source has no silver rows yet.
    """
    live = locations.silver_of(lake, contract)
    if live.open() is None:
        msg = f"silver/{contract.silver_table} has no rows yet, so there is nothing to compare with: deliver the files as usual"
        raise StageError(msg)
    if can_be_merged(lake, stage, contract, days):
        return _merged(lake, stage, contract, days, seed)
    kinds = dict(silver_columns(contract))
    columns = list(kinds)
    with sized_for(spark, lake, many=ingestions.are_many(lake, contract.dataset, stage)):
        wanted = silver_merge.state(spark, lake, contract, Slice(days), staged=stage).select(*columns).persist()
        try:
            current = spark.read.format("delta").load(live.address).where(_on(days))
            held = set(current.columns)  # a field that is new in the contract is empty in it
            current = current.select(
                *(name if name in held else F.lit(None).cast(kind).alias(name) for name, kind in kinds.items())
            )
            changed = silver_merge.changed_days(current, wanted)
            before, after = current.where(_on(changed)), wanted.where(_on(changed))
            compared = comparison.compare(before, after, contract)
            samples = _sampled(before, after, contract, seed) if changed else []
            _write(after, stage, contract)
        finally:
            wanted.unpersist()
    return SideRows(sorted(changed), compared, samples)


def _merged(lake: Lake, stage: Lake, contract: SourceContract, days: Collection[date], seed: int) -> SideRows:
    """The result of :func:`compute` for few rows, merged and compared in this process."""
    changed, live, staged = merge_side_rows(lake, stage, contract, days)
    compared, differing = comparison.compare_here(live, staged, contract)
    columns, keys = [name for name, _ in content_columns(contract)], _chosen(differing.to_pylist(), seed)
    sides = (
        rows.filter(pc.is_in(rows["record_key"], value_set=pa.array(keys, pa.string()))).select(columns).to_pylist()
        for rows in (live, staged)
    )
    return SideRows(sorted(changed), compared, _samples(keys, *sides))


def can_be_merged(lake: Lake, stage: Lake, contract: SourceContract, days: Collection[date]) -> bool:
    """Whether staged files are merged, and few enough rows are concerned."""
    staged = ingestions.ingested(ingestions.all_of(stage, contract.dataset))
    rows = sum(entry.rows for entry in staged.values())
    return bool(staged) and policy_of(contract).merges_pending and local_merge.are_few(lake, contract, days, rows)


def merge_side_rows(
    lake: Lake, stage: Lake, contract: SourceContract, days: Collection[date]
) -> tuple[set[date], pa.Table, pa.Table]:
    """Write the stage's silver table: on the days that change, the live rows with the staged ones merged into them.

    :param stage: the stage's lake; its silver table does not exist yet.
    :returns: the days that change, and the rows of these days, live and staged.
    """
    source, columns = contract.dataset, [name for name, _ in silver_columns(contract)]
    where = {"event_date": days}
    live = locations.silver_of(lake, contract).read(columns, where)
    schema = arrow_schema(silver_columns(contract))
    live = schema.empty_table() if live is None else live.cast(schema)
    stored = locations.silver_of(stage, contract)
    table = spark_commits.table_of(stored, silver_columns(contract), *layout.of_silver(stage))
    if len(live):
        spark_commits.append_rows_alone([live], stored, f"silver:{source}", table.version(), {"method": "live rows"})
    table = spark_commits.table_of(stored, silver_columns(contract), *layout.of_silver(stage))
    before = table.version()
    rows = _rows_to_merge(lake, stage, contract, days)
    if len(rows):
        clauses = silver_merge.clauses(table, contract, days)
        spark_commits.merge_rows(table, stored, rows, clauses, {"method": "merge"})
    table = spark_commits.table_of(stored, silver_columns(contract), *layout.of_silver(stage))
    feed = change_feed.feed_of(table, before + 1, table.version(), columns=["event_date"])
    changed = {day for day in pc.unique(feed["event_date"]).to_pylist() if day is not None}
    others = set(days) - changed
    if others:
        table.delete(day_conditions.condition_among("event_date", others))
        stored.committed()
    on_changed = pc.is_in(live["event_date"], value_set=pa.array(sorted(changed), pa.date32()))
    return changed, live.filter(on_changed), table_io.read_version(table, columns)


def _rows_to_merge(lake: Lake, stage: Lake, contract: SourceContract, days: Collection[date]) -> pa.Table:
    source = contract.dataset
    new = ingestions.only_in(stage, lake, source)
    table, columns = locations.key_log(stage, source), ["record_key", "arrival_date"]
    staged = table.read(columns, {"ingestion_id": new})
    keys = pa.array([], pa.string()) if staged is None else pc.unique(staged["record_key"])
    logs = [
        local_merge.claims_about(lake, source, keys),
        local_merge.claims_about(stage, source, keys, new),
    ]
    claimed = pa.concat_tables(log.select(logs[1].column_names) for log in logs)
    retired = pc.is_in(
        claimed["record_key"], value_set=pc.unique(claimed.filter(pc.equal(claimed["kind"], "retire"))["record_key"])
    )
    # A retirement can revive an older row of its key, which Bronze has.
    older = {day for day in pc.unique(claimed.filter(retired)["arrival_date"]).to_pylist() if day is not None}
    arrivals = set() if staged is None else set(pc.unique(staged["arrival_date"]).to_pylist())
    claimed = deliveries.ordered(claimed, deliveries.of(lake, contract, staged=stage))
    counting = claims.with_decisions(claimed, decisions.in_force(lake, source))

    def rows_of(won: pa.Table) -> pa.Table:
        found = [living_rows.read_claimed_rows(stage, contract, arrivals, won)]
        found += [living_rows.read_claimed_rows(lake, contract, older, won)] if older else []
        return pa.concat_tables(found)

    return local_merge.rows_to_merge(contract, days, counting, rows_of)


def read(spark: SparkSession, stage: Lake, contract: SourceContract, days: Collection[date]) -> DataFrame:
    """The silver rows of a stage on ``days``."""
    columns = [name for name, _ in silver_columns(contract)]
    return dataframes.scan(spark, stage, locations.silver_of(stage, contract), columns, {"event_date": days})


def _write(rows: DataFrame, stage: Lake, contract: SourceContract) -> None:
    """Replace the content of the stage's silver table by ``rows``."""
    stored = locations.silver_of(stage, contract)
    table = spark_commits.table_of(stored, silver_columns(contract), *layout.of_days(stage, "event_date", ALL_STATISTICS))
    if table.version() > 0:
        table.delete()
        stored.committed()
    files = max(2, len(table_io.files_with(table, {})) // 8)
    rows = rows.repartition(files, "event_date")
    spark_commits.append_alone(rows, stored, f"silver:{contract.silver_table}", table.version(), {"method": "stage"})


def _sampled(before: DataFrame, after: DataFrame, contract: SourceContract, seed: int) -> list[SampledRow]:
    """A sample of the keys whose content differs, the same for the same seed."""
    content = [name for name, _ in content_columns(contract)]
    signed = before.select(*content, F.lit(-1).alias("_sign")).unionByName(after.select(*content, F.lit(1).alias("_sign")))
    differing = signed.groupBy(*content).agg(F.sum("_sign").alias("_sign")).where("_sign <> 0").select("record_key").distinct()
    in_order = differing.orderBy(F.sha2(F.concat(F.lit(f"{seed}|"), "record_key"), 256)).limit(_SAMPLED)
    keys = [row[0] for row in in_order.collect()]
    sides = (rows.where(F.col("record_key").isin(keys)).select(*content).toArrow().to_pylist() for rows in (before, after))
    return _samples(keys, *sides)


def _chosen(keys: list[str], seed: int) -> list[str]:
    return sorted(keys, key=lambda key: hashlib.sha256(f"{seed}|{key}".encode()).hexdigest())[:_SAMPLED]


def _samples(keys: list[str], before: list[dict[str, Any]], after: list[dict[str, Any]]) -> list[SampledRow]:
    """The rows of keys on both sides, as JSON."""
    sides = []
    for rows in (before, after):
        texts: dict[str, list[str]] = {key: [] for key in keys}
        for row in rows:
            plain = {name: json_value(value) for name, value in row.items()}
            texts[row["record_key"]].append(json.dumps(plain, default=str, ensure_ascii=False))
        sides.append(texts)
    return [SampledRow(record_key=key, before=sorted(sides[0][key]), after=sorted(sides[1][key])) for key in keys]


def _on(days: Collection[date]) -> str:
    return day_conditions.condition_among("event_date", days) if days else "false"


@dataclass(frozen=True)
class Thresholds:
    """The greatest changes, in percent, of a measure on one day, and over all changed days together, that need no sign-off."""

    day: Decimal = stage_log.DAY_THRESHOLD
    whole_set: Decimal = stage_log.SET_THRESHOLD


@dataclass(frozen=True)
class StagedRows:
    """The rows of a stage on the days that it changes, in the silver table ``silver``."""

    silver: str
    rows: DataFrame
    days: Collection[date]


def changes(
    spark: SparkSession, lake: Lake, stage: Lake, daily: Series, staged: StagedRows, thresholds: Thresholds
) -> ChangedSeries:
    """Compute the numbers of a metric on the days that a stage changes, write them to the stage, and compare.

    :param daily: the days of the metric as readers see them.
    :param staged: the rows that the stage changes; live rows are used for other sources of the metric.
    """
    today = lifecycle.today(lake.now(), daily.metric.publication)
    reached = sorted(days_reached(daily.metric, staged.days))
    days = [day for day in reached if lifecycle.may_be_published(day, today, daily.metric.publication)]
    before = write_audit_publish.read(lake, daily, days, to_publish=False)

    def compute(metric: MetricContract | None, part: Sequence[date]) -> dict[date, pa.Table]:
        metric = metric or daily.metric
        numbers = _computed(spark, lake, metric, staged, part)
        emptied = before.published_states.keys() & set(part) - numbers.keys()
        return numbers | (dict.fromkeys(emptied, metric_query.nothing(lambda: spark, lake, metric)) if emptied else {})

    computed = isolation.numbers_of(lake, daily, days, compute, lambda day: day)
    differing = {
        day: rows
        for day, rows in sorted(computed.numbers.items())
        if not published_table.is_content(rows, _content(before.published_states.get(day)))
    }
    kept = sorted(held_numbers.kept_periods(lake, daily.name, differing))
    changing = {day: rows for day, rows in differing.items() if day not in kept}
    _write_numbers(stage, daily, changing)
    uncomputed = {day: {COMPUTED: explanation} for day, (_, explanation) in computed.failed.items()}
    changed = _changed(lake, daily, before, changing, kept, thresholds)
    return changed.model_copy(update={"held": dict(sorted({**changed.held, **uncomputed}.items()))})


def _computed(
    spark: SparkSession, lake: Lake, metric: MetricContract, staged: StagedRows, days: Collection[date]
) -> dict[date, pa.Table]:
    """The numbers of ``days`` from staged rows, and from live rows on the days that the stage does not change."""
    if not days:
        return {}
    entry = next(entry for entry in metric.read if entry.silver == staged.silver)
    rows = staged.rows.select(*rows_read.columns_of(metric, entry, staged.rows.columns))
    if set(source_days(metric, days)) - set(staged.days):
        live = rows_read.rows_held(spark, lake, metric, entry, days)
        rows = rows.unionByName(live.where(~live.event_date.isin(sorted(staged.days))), allowMissingColumns=True)
    rows = rows_read.silver_rows(spark, lake, metric, days, {staged.silver: rows})
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
    totals = stage_log.totals_of(sides.values(), [name for name in daily.metric.additive if changing])
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
        exceeded=stage_log.exceeded(daily.name, sides, totals, thresholds.day, thresholds.whole_set),
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
        candidate = replace(write_audit_publish.candidate_of(before, day, revision, rows), trailing=trailing)
        failed = publication_checks.blocking(publication_checks.audit(daily.checks, candidate))
        if failed:
            held[day] = {one.check: one.explanation or "failed" for one in failed}
    return held


def _listed(sides: Mapping[date, Mapping[str, Sides]]) -> list[date]:
    """The days that are listed, in order: if there are many, those with the greatest changes."""
    if len(sides) <= stage_log.LISTED_DAYS:
        return sorted(sides)
    furthest = sorted(sides, key=lambda day: max((one.size for one in sides[day].values()), default=0), reverse=True)
    return sorted(furthest[: stage_log.LISTED_DAYS])


def _plain(sides: Mapping[str, Sides]) -> dict[str, tuple[Any, Any]]:
    return {name: (json_value(one.before), json_value(one.after)) for name, one in sides.items()}


def _write_numbers(stage: Lake, daily: Series, numbers: Mapping[date, pa.Table]) -> None:
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
        locations.gold(stage, daily).committed()
