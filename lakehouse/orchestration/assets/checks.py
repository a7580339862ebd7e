"""Asset checks for Dagster to show and re-run: of sources, of metrics, and of the scores of models.

Asset runs evaluate the same functions (see ``run_events``). The rules of the checks are in the ``checks`` modules of the layers,
and for scores in ``models.score_checks``.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import date, timedelta

import dagster as dg
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from lakehouse.bronze import checks as bronze_checks
from lakehouse.contracts import Catalog, MetricContract, ModelContract, SourceContract
from lakehouse.contracts.series import Series
from lakehouse.gold.numbers import served_version
from lakehouse.gold.publication import checks as publication_checks
from lakehouse.gold.restatement import reconciliation as restatement_checks
from lakehouse.lake import Lake
from lakehouse.live import reconcile as live_closing
from lakehouse.orchestration import run_events
from lakehouse.orchestration.assets.metric_assets import gold_key
from lakehouse.orchestration.assets.source_assets import keys as source_keys
from lakehouse.orchestration.resources import LakeSpark, LakeTables
from lakehouse.orchestration.run_events import asset_key
from lakehouse.quality.check_rules import CheckResult
from lakehouse.silver import checks as silver_checks

#: Evaluates the requested checks for given days, reading through the given lake; it may evaluate others as well.
Judge = Callable[[Lake, Collection[date], Collection[str], LakeSpark], list[CheckResult]]

_NEWEST_WITHOUT_PARTITION = 31


def check_names(catalog: Catalog) -> dict[dg.AssetKey, list[str]]:
    """The checks of each asset, without deprecated names."""
    names: dict[dg.AssetKey, list[str]] = {}
    for source, contract in catalog.sources.items():
        of_layers = (bronze_checks.bronze_check_names, bronze_checks.source_check_names, silver_checks.silver_check_names)
        names |= {key: list(of_layer(contract)) for key, of_layer in zip(source_keys(source), of_layers)}
    for metric in catalog.metrics.values():
        daily = Series(metric)
        names[gold_key(daily.name)] = list(_day_check_names(metric))
        names |= {gold_key(rollup.name): list(_rollup_check_names(rollup)) for rollup in daily.rollups}
    names |= {asset_key("scores", model): list(SCORE_CHECKS) for model in catalog.models}
    deprecated = publication_checks.deprecated_names()
    return {key: [name for name in of_asset if name not in deprecated] for key, of_asset in names.items()}


def source_checks(
    lake: Lake, contract: SourceContract, bronze: dg.AssetsDefinition, silver: dg.AssetsDefinition
) -> list[dg.AssetChecksDefinition]:
    """The checks of a source: of bronze and silver per partition, and of all its arrivals."""

    def judge_bronze(lake: Lake, days: Collection[date], _names: Collection[str], _spark: LakeSpark) -> list[CheckResult]:
        return bronze_checks.check_bronze(lake, contract, days)

    def judge_silver(lake: Lake, days: Collection[date], _names: Collection[str], _spark: LakeSpark) -> list[CheckResult]:
        return silver_checks.check_silver(lake, contract, days)

    return [
        _checks_of(lake, bronze, bronze_checks.bronze_check_names(contract), judge_bronze),
        _checks_of(lake, silver, silver_checks.silver_check_names(contract), judge_silver),
        _checks_of_source(lake, contract),
    ]


def metric_checks(lake: Lake, catalog: Catalog, metric: MetricContract, gold: dg.AssetsDefinition) -> dg.AssetChecksDefinition:
    """The checks of a metric's days: of the number that would be published now, and of its visibility to readers."""

    def judge(lake: Lake, days: Collection[date], names: Collection[str], spark: LakeSpark) -> list[CheckResult]:
        one = served_version.daily(lake, catalog, metric)
        outcomes = restatement_checks.check_published(lake, one, days)
        of_live = live_closing.check_names(metric)
        if not restatement_checks.PUBLISHED.keys() | of_live >= set(names):  # only these need no new computation of the number
            outcomes += restatement_checks.check_gold(lake, one, spark.session, days)
        if of_live.keys() & set(names):
            outcomes += live_closing.check_reconciled(spark.session, lake, metric, catalog.sources[metric.source], days)
        return outcomes

    return _checks_of(lake, gold, _day_check_names(metric), judge)


def _day_check_names(metric: MetricContract) -> dict[str, str]:
    """The checks of a metric's days, each with its description."""
    return restatement_checks.gold_check_names(Series(metric)) | live_closing.check_names(metric)


def rollup_checks(
    lake: Lake, catalog: Catalog, metric: MetricContract, rollup: Series, gold: dg.AssetsDefinition
) -> dg.AssetChecksDefinition:
    """The checks of a longer period's numbers."""

    def judge(lake: Lake, starts: Collection[date], _names: Collection[str], spark: LakeSpark) -> list[CheckResult]:
        daily = served_version.daily(lake, catalog, metric)
        one = Series(daily.metric, rollup.kind, daily.called)
        return restatement_checks.check_rollup(lake, catalog.sources[metric.source], one, spark.session, starts)

    return _checks_of(lake, gold, _rollup_check_names(rollup), judge)


def _rollup_check_names(rollup: Series) -> dict[str, str]:
    """The checks of a longer period, each with its description."""
    names = publication_checks.names(rollup.checks) | publication_checks.deprecated_names()
    del names["totals_equal_silver"]  # a roll-up is computed from published days
    return names


def checks_of_scores(lake: Lake, catalog: Catalog, model: ModelContract, scores: dg.AssetsDefinition) -> dg.AssetChecksDefinition:
    """The checks of the scores of a model per event day."""

    def judge(lake: Lake, days: Collection[date], _names: Collection[str], spark: LakeSpark) -> list[CheckResult]:
        return judge_scores(lake, catalog, model, spark.session, days)

    return _checks_of(lake, scores, SCORE_CHECKS, judge)


def _checks_of(lake: Lake, asset: dg.AssetsDefinition, names: Mapping[str, str], judge: Judge) -> dg.AssetChecksDefinition:
    key = asset.key
    specs = [
        dg.AssetCheckSpec(name, asset=key, description=description, partitions_def=asset.partitions_def)
        for name, description in names.items()
    ]

    @dg.multi_asset_check(name=f"{'_'.join(key.path)}_checks", specs=specs, can_subset=True)
    def check(context: dg.AssetCheckExecutionContext, spark: LakeSpark, tables: LakeTables) -> Iterator[dg.AssetCheckResult]:
        op_context = context.op_execution_context
        one_day = op_context.has_partition_key
        if one_day or op_context.has_partition_key_range:
            days = [date.fromisoformat(partition) for partition in op_context.partition_keys]
        else:
            known = sorted(context.instance.get_materialized_partitions(key))
            days = [date.fromisoformat(partition) for partition in known[-_NEWEST_WITHOUT_PARTITION:]]
        wanted = {check_key.name for check_key in context.selected_asset_check_keys}
        judged = judge(tables.reading(lake), days, wanted, spark) if days else []
        outcomes = [outcome for outcome in publication_checks.with_deprecated_names(judged) if outcome.check in wanted]
        if not one_day:  # the results yielded below refer to no partition then
            run_events.checked(context, key, outcomes)
        for name in sorted(wanted):
            of_check = [outcome for outcome in outcomes if outcome.check == name]
            failed = [outcome for outcome in of_check if not outcome.passed]
            metadata = dict(of_check[0].numbers) if len(of_check) == 1 else {"days": len(of_check), "days_failed": len(failed)}
            description = "; ".join(f"{outcome.day}: {outcome.explanation or 'failed'}" for outcome in failed[:10])
            warns = all(outcome.warns for outcome in failed or of_check)
            yield dg.AssetCheckResult(
                passed=not failed,
                asset_key=key,
                check_name=name,
                metadata=metadata,
                description=description or None,
                severity=run_events.severity(warns=warns),
            )

    return check


def _checks_of_source(lake: Lake, contract: SourceContract) -> dg.AssetChecksDefinition:
    """The checks of a source's current state, which belong to no partition."""
    key = source_keys(contract.dataset)[1]
    specs = [
        dg.AssetCheckSpec(name, asset=key, description=description)
        for name, description in bronze_checks.source_check_names(contract).items()
    ]

    @dg.multi_asset_check(name=f"{'_'.join(key.path)}_checks", specs=specs, can_subset=True)
    def check(context: dg.AssetCheckExecutionContext, tables: LakeTables) -> Iterator[dg.AssetCheckResult]:
        wanted = {check_key.name for check_key in context.selected_asset_check_keys}
        for outcome in bronze_checks.check_source(tables.reading(lake), contract):
            if outcome.check in wanted:
                yield dg.AssetCheckResult(
                    passed=outcome.passed,
                    asset_key=key,
                    check_name=outcome.check,
                    metadata=dict(outcome.numbers),
                    description=outcome.explanation,
                    severity=run_events.severity(warns=outcome.warns),
                )

    return check


#: The checks of each day of scores, with their descriptions.
SCORE_CHECKS = {
    "row_count": "Each event of the day has exactly one score that counts.",
    "null_shares": "No feature is NULL much more often than in the set that the champion has learned from.",
    "feature_drift": "The features are distributed as in the set that the champion has learned from.",
    "prediction_drift": "The champion's scores are distributed as those on its own set.",
    "label_maturity": "Events that are old enough have a label.",
    "training_serving_skew": "The features that were scored are those that a training set has for the same events.",
}


def judge_scores(
    lake: Lake,
    catalog: Catalog,
    contract: ModelContract,
    session: Callable[[], SparkSession],
    days: Collection[date],
) -> list[CheckResult]:
    """Evaluate every check for each of ``days``; the events are computed once for all checks.

    :raises NoChampionError: if no version is in use.
    :raises TrackingError: if MLflow cannot be reached.
    """
    from lakehouse.models import score, score_checks  # noqa: PLC0415 (scikit-learn loads in seconds)
    from lakehouse.models import scores as model_scores  # noqa: PLC0415 (scikit-learn loads in seconds)
    from lakehouse.training_sets import events as set_events  # noqa: PLC0415

    if not days:
        return []
    champion = model_scores.load(lake, catalog, contract, score.champion_of(lake, contract))
    learned, reference = (
        score_checks.set_of(lake, contract, champion.version),
        score_checks.reference_scores(lake, contract, champion),
    )
    of_set, now = catalog.training_sets[contract.training_set], lake.now()
    first, until = min(days), max(days) + timedelta(days=1)
    events = set_events.unlabelled(session(), lake, catalog, of_set, days)
    labelled = set_events.keys_with_label(session(), lake, catalog, of_set, first, until)
    scores = model_scores.read(lake, contract.name, {"event_date": sorted(days)})
    results = []
    for day in sorted(days):
        ours, rows = (table.filter(pc.equal(table["event_date"], day)) for table in (scores, events))
        results += [
            score_checks.row_count(contract, day, ours, rows),
            score_checks.null_shares(contract, day, rows, learned),
            score_checks.feature_drift(contract, day, rows, learned),
            score_checks.prediction_drift(contract, day, ours, champion.version, reference),
            score_checks.label_maturity(of_set, day, ours, labelled, now),
            score_checks.training_serving_skew(contract, day, ours, champion, rows),
        ]
    return results
