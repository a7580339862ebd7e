"""The assets of training sets and models: their versions, and the scores of a model by event day.

A version is a partition, which a person or a retraining adds. MLflow and scikit-learn are imported only when a run needs them.
"""

from collections.abc import Iterator, Mapping
from datetime import date, datetime, timezone
from typing import Any

import dagster as dg
from pydantic import Field

from lakehouse import locations
from lakehouse.contracts import Catalog, ModelContract, TrainingSetContract
from lakehouse.errors import LakehouseError
from lakehouse.lake import Lake
from lakehouse.orchestration import run_events
from lakehouse.orchestration.assets import checks
from lakehouse.orchestration.dagster_internals import USER_TAG
from lakehouse.orchestration.resources import LakeSpark
from lakehouse.orchestration.run_events import asset_key, days_of_run, event_days, pool_of
from lakehouse.training_sets import build, releases
from lakehouse.training_sets.releases import Release, ReleaseKind

#: The user name in Dagster if the user is unknown.
_NOBODY = "dagster"


class SetVersion(dg.Config):
    """The inputs of a training set version; by default the newest labels, and all knowledge."""

    labels: str | None = Field(None, description="The version of the labels, such as v3.0; default: the newest release.")
    known_at: str | None = Field(None, description="A time in ISO 8601, in UTC: only what was known then; default: now.")
    notes: str = Field("built by Dagster", description="What the version is for, in words for people.")


class ModelVersion(dg.Config):
    """The inputs of a model version; by default the newest version of its set, and the parameters of the contract."""

    training_set: str | None = Field(None, description="The version of the training set, such as v5.0; default: the newest one.")
    parameters: dict[str, Any] = Field(default_factory=dict, description="Replace those of the contract with the same name.")
    notes: str = Field("trained by Dagster", description="What is new, in words for people.")


def set_key(name: str) -> dg.AssetKey:
    """The asset key of a training set."""
    return asset_key("datasets", name)


def model_key(name: str) -> dg.AssetKey:
    """The asset key of a model."""
    return asset_key("models", name)


def scores_key(name: str) -> dg.AssetKey:
    """The asset key of the scores of a model."""
    return asset_key("scores", name)


def set_versions(name: str) -> dg.DynamicPartitionsDefinition:
    """The partitions of a training set."""
    return dg.DynamicPartitionsDefinition(name=f"set_versions_{name}")


def model_versions(name: str) -> dg.DynamicPartitionsDefinition:
    """The partitions of a model."""
    return dg.DynamicPartitionsDefinition(name=f"model_versions_{name}")


def set_asset(lake: Lake, catalog: Catalog, contract: TrainingSetContract) -> dg.AssetsDefinition:
    """A training set by version."""

    @dg.asset(
        key=set_key(contract.name),
        deps=_inputs(contract),
        partitions_def=set_versions(contract.name),
        pool=pool_of(set_key(contract.name)),
        group_name=contract.entity.source,
        kinds={"pyspark", "deltalake"},
        description=contract.description or f"The versions of {contract.name}; each is built once and never changes.",
    )
    def version_of_set(context: dg.AssetExecutionContext, config: SetVersion, spark: LakeSpark) -> dg.MaterializeResult[None]:
        with run_events.progress(context):
            release = build.build(
                spark.session(),
                lake,
                catalog,
                contract,
                build.SetRequest(
                    context.partition_key,
                    by=person(context),
                    notes=config.notes,
                    labels_version=config.labels,
                    known_at=_moment(config.known_at),
                ),
            )
        return dg.MaterializeResult(metadata=set_metadata(lake, release))

    return version_of_set


def model_asset(lake: Lake, catalog: Catalog, contract: ModelContract) -> dg.AssetsDefinition:
    """A model by version."""
    of_set = catalog.training_sets[contract.training_set]

    @dg.asset(
        key=model_key(contract.name),
        deps=[dg.AssetDep(set_key(of_set.name), partition_mapping=dg.AllPartitionMapping())],  # any version may be used
        partitions_def=model_versions(contract.name),
        pool=pool_of(model_key(contract.name)),
        group_name=of_set.entity.source,
        kinds={"python", "mlflow"},
        description=contract.description or f"The versions of {contract.name}; each is trained once and never changes.",
    )
    def version_of_model(context: dg.AssetExecutionContext, config: ModelVersion) -> dg.MaterializeResult[None]:
        from lakehouse.models import training  # noqa: PLC0415 (NumPy and pandas are not needed to load the definitions)

        newest = releases.newest(lake, ReleaseKind.TRAINING_SET, of_set.name)
        version = config.training_set or (newest.version if newest else None)
        if version is None:
            msg = f"no version of {of_set.name} is released; materialize datasets/{of_set.name} first"
            raise LakehouseError(msg)
        release = training.train(
            lake,
            catalog,
            contract,
            training.TrainingRequest(
                context.partition_key, version, by=person(context), notes=config.notes, parameters=config.parameters
            ),
        )
        return dg.MaterializeResult(metadata=model_metadata(release))

    return version_of_model


def scores_asset(lake: Lake, catalog: Catalog, contract: ModelContract) -> dg.AssetsDefinition:
    """The scores of a model by event day."""
    key = scores_key(contract.name)
    of_set = catalog.training_sets[contract.training_set]
    entity = of_set.entity.source
    same_day = dg.AssetDep(asset_key("silver", entity), partition_mapping=dg.IdentityPartitionMapping())
    any_version = dg.AssetDep(model_key(contract.name), partition_mapping=dg.AllPartitionMapping())

    @dg.asset(
        key=key,
        deps=[same_day, any_version],
        partitions_def=event_days(catalog.sources[entity]),
        backfill_policy=dg.BackfillPolicy.single_run(),
        output_required=False,
        pool=pool_of(key),
        group_name=entity,
        kinds={"pyspark", "deltalake", "mlflow"},
        description=f"The scores of the events of a day by the champion of {contract.name}, and by the challenger of a canary.",
        metadata={"dagster/uri": locations.scores(lake, contract.name).address},
    )
    def scores_of_model(context: dg.AssetExecutionContext, spark: LakeSpark) -> Iterator[dg.MaterializeResult[None]]:
        from lakehouse.models import score  # noqa: PLC0415 (scikit-learn loads in seconds)

        days = days_of_run(context)
        with run_events.progress(context) as requests:
            scored = score.score(*(spark.session(), lake, catalog, contract, days), run_id=context.run.run_id, by=person(context))
            judged = days if run_events.reports_checks(context) else []  # a check step that follows computes the rows itself
            outcomes = checks.judge_scores(lake, catalog, contract, spark.session, judged)
        about: dict[date, Mapping[str, Any]] = {
            entry.day: {
                "dagster/row_count": entry.events,
                "champion": entry.champion,
                **({"challenger": entry.challenger, "scored_by_challenger": entry.in_canary} if entry.challenger else {}),
            }
            for entry in scored
        }
        yield from run_events.report(context, key, about, outcomes, requests)

    return scores_of_model


def person(context: dg.AssetExecutionContext | dg.OpExecutionContext) -> str:
    """The person who started a run, if Dagster knows."""
    return context.run.tags.get(USER_TAG) or context.run.tags.get("dagster/user") or _NOBODY


def set_metadata(lake: Lake, release: Release) -> dict[str, Any]:
    """The metadata that Dagster shows for a version of a training set."""
    about = release.about
    return {
        "version": release.full_name,
        "labels": f"{about['labels']['source']}_{about['labels']['version']}",
        "dagster/row_count": about["rows"],
        "dagster/uri": locations.training_set(lake, release.name, release.version).address,
        "known_at": f"{release.known_at:%Y-%m-%d %H:%M:%S}" if release.known_at else "",
        "time": dg.MetadataValue.json(about["time"]),
        "content_hash": about["content_hash"],
        "notes": release.notes,
    }


def model_metadata(release: Release) -> dict[str, Any]:
    """The metadata that Dagster shows for a version of a model; the measures on its evaluation part are plotted."""
    about = release.about
    evaluated = about["metrics"].get(about["evaluated_on"], {})
    return {
        "version": release.full_name,
        "training_set": about["training_set"]["full_name"],
        "parameters": dg.MetadataValue.json(about["parameters"]),
        "metrics": dg.MetadataValue.json(about["metrics"]),
        **{name: dg.MetadataValue.float(value) for name, value in evaluated.items() if value is not None},
        "mlflow_run": about["mlflow"]["run_id"],
        "mlflow_version": about["mlflow"]["version"],
        "notes": release.notes,
    }


def _inputs(contract: TrainingSetContract) -> list[dg.AssetDep]:
    """The dependencies of a set: any day of its inputs."""
    keys = [asset_key("silver", source) for source in contract.sources]
    keys += [asset_key("gold", name) for name in dict.fromkeys(entry.metric for entry in contract.features.metrics)]
    return [dg.AssetDep(key, partition_mapping=dg.AllPartitionMapping()) for key in keys]


def _moment(text: str | None) -> datetime | None:
    """:raises LakehouseError: if the text is not a time."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        msg = f"known_at: {text!r} is no time; write it as 2024-11-05T12:00:00"
        raise LakehouseError(msg) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
