"""The sensors of models: ``retrain`` with a job for each model, and ``released_versions``.

A correction of a model's training data makes a new version, once per cause. The sensor reads logs and keys, and starts neither
Spark nor MLflow. The run decides whether the policy's bounds are reached, and continues the retraining of a stopped run. The
steps belong to ``models.retraining``.

``released_versions`` makes versions of training sets and models that were made outside Dagster partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg

from lakehouse import locations
from lakehouse.delta import provenance
from lakehouse.errors import LakehouseError
from lakehouse.models import retraining
from lakehouse.orchestration import plan_runs
from lakehouse.orchestration.assets import model_assets
from lakehouse.orchestration.automation import looks
from lakehouse.orchestration.resources import LakeSpark, LakeTables
from lakehouse.orchestration.run_events import table_of
from lakehouse.training_sets import releases
from lakehouse.training_sets.releases import ReleaseKind

if TYPE_CHECKING:
    from lakehouse.contracts import Catalog, ModelContract
    from lakehouse.lake import Lake
    from lakehouse.models.retraining import PossibleRetraining, Retraining
    from lakehouse.training_sets.releases import Release


_NOTHING_MISSING = "every released version is a partition"


def release_sensor(lake: Lake, catalog: Catalog) -> dg.SensorDefinition:
    """Adds missing partitions, each with the materialization that represents its release."""

    @dg.sensor(
        name="released_versions",
        minimum_interval_seconds=lake.tick_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Versions that were made on the command line become partitions of datasets/* and models/*.",
    )
    def sense(context: dg.SensorEvaluationContext, tables: LakeTables) -> dg.SensorResult:
        reading = tables.reading(lake)
        names = sorted([*catalog.training_sets, *catalog.models])
        now = looks.state_of(
            lake, [locations.releases(reading)], [], *names
        )  # before the look: a later release is seen next time
        if looks.Cursor.read(context.cursor).idle_state == now:
            return dg.SensorResult(skip_reason=_NOTHING_MISSING)
        missing = [
            release
            for release in _released(reading, catalog)
            if not context.instance.has_dynamic_partition(f"{partitions_of(release).name}", release.version)
        ]
        return dg.SensorResult(
            skip_reason=None if missing else _NOTHING_MISSING,
            dynamic_partitions_requests=[partitions_of(release).build_add_request([release.version]) for release in missing],
            asset_events=[materialization(reading, release) for release in missing],
            cursor=f"{looks.Cursor(now)}",
        )

    return sense


def partitions_of(release: Release) -> dg.DynamicPartitionsDefinition:
    """The partitions definition to which a release belongs."""
    of_set = release.kind is ReleaseKind.TRAINING_SET
    return model_assets.set_versions(release.name) if of_set else model_assets.model_versions(release.name)


def materialization(lake: Lake, release: Release) -> dg.AssetMaterialization:
    """The materialization that represents a release in Dagster."""
    if release.kind is ReleaseKind.TRAINING_SET:
        key, metadata = model_assets.set_key(release.name), model_assets.set_metadata(lake, release)
    else:
        key, metadata = model_assets.model_key(release.name), model_assets.model_metadata(release)
    return dg.AssetMaterialization(key, partition=release.version, metadata=metadata)


def _released(lake: Lake, catalog: Catalog) -> list[Release]:
    """The versions of the sets and models that have a contract."""
    of_sets = [release for name in catalog.training_sets for release in releases.all_of(lake, ReleaseKind.TRAINING_SET, name)]
    return of_sets + [release for name in catalog.models for release in releases.all_of(lake, ReleaseKind.MODEL, name)]


#: Set on runs that may retrain a model: the model and the cause.
RETRAINING_TAG = "lakehouse/retraining"


def kinds(lake: Lake, catalog: Catalog) -> list[looks.LookKind]:
    """The kind ``retrain``, if there are models with a policy."""
    models = [model for model in catalog.models.values() if model.retrain_when]
    jobs, of_each = [job(lake, catalog, model) for model in models], [_retraining(catalog, model) for model in models]
    about = "Corrections of what a model has learned from start its retraining, which promotes nothing."
    return [looks.LookKind("retrain", about, of_each, lake.tick_seconds, jobs)] if of_each else []


def _retraining(catalog: Catalog, contract: ModelContract) -> looks.Look:
    """Requests one run of the job for each cause."""
    nothing = f"no correction reaches the policy of {contract.name}"

    def take(context: looks.LookContext, lake: Lake) -> list[looks.Answer]:
        now, is_idle = context.newest(lambda: _state(lake, catalog, contract))
        if is_idle:
            return [_idle(context, now, context.reason_at(now) or nothing)]
        try:
            possible = retraining.possible(lake, contract)
        except LakehouseError as problem:
            return [dg.SkipReason(f"{problem}")]
        return [_idle(context, now, nothing) if possible is None else _requested(context, contract, possible, now)]

    return looks.Look(_name(contract), table_of(model_assets.model_key(contract.name)), f"model/{contract.name}", nothing, take)


def _name(contract: ModelContract) -> str:
    return f"retrain_{contract.name}"


def job(lake: Lake, catalog: Catalog, contract: ModelContract) -> dg.JobDefinition:
    """Retrains a model if its policy requires it."""
    name = _name(contract)

    @dg.op(name=f"{name}_if_due", pool=name, description="Labels, set, model and backtest, each in a new version.")
    def retrain_if_due(spark: LakeSpark) -> None:
        context = dg.OpExecutionContext.get()
        wanted = retraining.due(spark.session, lake, catalog, contract)
        if wanted is None:
            context.log.info("no correction reaches the policy of %s", contract.name)
            context.add_output_metadata({"retrained": False})
            return
        done = retraining.carry_out(spark.session, lake, catalog, contract, wanted, by=f"{model_assets.person(context)} ({name})")
        _announce(context, lake, done)
        context.add_output_metadata(_metadata(done))

    @dg.job(name=name, executor_def=dg.in_process_executor, description=f"Retrains {contract.name} after a correction.")
    def retrain() -> None:
        retrain_if_due()

    return retrain


def _requested(context: looks.LookContext, contract: ModelContract, possible: PossibleRetraining, state: str) -> looks.Answer:
    """The run for a cause. A successful run settles the cause, unless a retraining has begun and has steps left."""
    cause = f"{contract.name}:{plan_runs.short_hash(f'{possible.cause}|{contract.retrain_when}')}"
    planned = plan_runs.plan_run_requests(context.instance, RETRAINING_TAG, [cause], [] if possible.is_begun else [cause])
    if planned.answered:
        return _idle(context, state, f"{possible.text}, but a run has found that the policy is not reached")
    if planned.on_their_way:
        return dg.SkipReason(f"{possible.text}, and a run is in progress")
    if planned.given_up:
        return dg.SkipReason(f"{possible.text}, but {plan_runs.ATTEMPTS} runs have failed; see the newest one and start it again")
    return dg.RunRequest(planned.run_keys[cause], job_name=_name(contract), tags={RETRAINING_TAG: cause, **plan_runs.NO_RETRIES})


def _idle(context: looks.LookContext, state: str, reason: str) -> dg.SkipReason:
    """Store that there is nothing to do until a table or a contract changes."""
    context.keep(looks.Cursor(state, reason))
    return dg.SkipReason(reason)


def _state(lake: Lake, catalog: Catalog, contract: ModelContract) -> str:
    """The fingerprint of everything that the sensor's look depends on."""
    of_set = catalog.training_sets[contract.training_set]
    tables = [locations.ingestions(lake), locations.rebuild_requests(lake)]
    tables += [of_source(lake, name) for name in of_set.sources for of_source in (locations.decisions, locations.redactions)]
    tables += [locations.releases(lake), locations.model_promotions(lake), locations.retrainings(lake)]
    sources = [catalog.sources[name] for name in of_set.sources]
    return looks.state_of(lake, tables, sources, provenance.of_definition(contract))


def _announce(context: dg.OpExecutionContext, lake: Lake, done: Retraining) -> None:
    """Show the new versions as partitions of the assets."""
    made = (
        (ReleaseKind.TRAINING_SET, done.training_set, done.new_set),
        (ReleaseKind.MODEL, done.model, done.new_version),
    )
    for kind, name, version in made:
        release = releases.find(lake, kind, name, version)
        context.instance.add_dynamic_partitions(f"{partitions_of(release).name}", [version])
        context.log_event(materialization(lake, release))


def _metadata(done: Retraining) -> dict[str, Any]:
    return {
        "retrained": True,
        "cause": done.notes,
        "labels": done.new_labels,
        "training_set": f"{done.training_set}_{done.new_set}",
        "model": f"{done.model}_{done.new_version}",
        "backtest": done.detail,
    }
