"""Training sets, models and scores in Dagster: their definitions, and a correction that retrains a model, on real tables."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from lakehouse.contracts import Catalog, ModelContract
from lakehouse.lake import Lake
from lakehouse.models import backtest_log, promotion, promotion_log, retraining, training
from lakehouse.models.retraining import RetrainingStep
from lakehouse.orchestration.assets import checks as score_checks
from lakehouse.orchestration.assets.checks import check_names
from lakehouse.orchestration.assets.model_assets import model_key, model_versions, scores_key, set_key, set_versions
from lakehouse.orchestration.build import build_definitions
from lakehouse.training_sets import build, changes, labels, releases
from lakehouse.training_sets.releases import ReleaseKind
from lakehouse_tests.support import trained_lake
from lakehouse_tests.support.sensor_ticks import SensorTicks
from lakehouse_tests.support.stopped_commits import stopped_behind
from lakehouse_tests.support.training_lake import Said, TrainingLake, moment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession


MODEL = ModelContract.model_validate(
    {
        "model": "fraud",
        "training_set": "training_data",
        "train": "prior_of_fraud:train",
        "parameters": {"strategy": "prior"},
        "retrain_when": {"changed_labels": 2},
        "checks": {"needs_rows": 1},
    }
)
TRAIN = """\
from sklearn.dummy import DummyClassifier


def train(frame, params):
    return DummyClassifier(strategy=params["strategy"]).fit(frame.drop(columns="label"), frame["label"])
"""
_LOADED = """
import sys
from pathlib import Path
from lakehouse.contracts import load_catalog
from lakehouse.orchestration.build import build_definitions
from lakehouse.settings import Settings
for folder in (None, Path(sys.argv[1])):
    catalog = load_catalog(folder, bundled=folder is None)
    build_definitions(Settings(), catalog)
    print(len(catalog.models), *sorted(sys.modules.keys() & {"mlflow", "sklearn"}))
"""


def test_a_set_a_model_and_its_scores_are_assets_with_their_partitions(deployment: Lake) -> None:
    definitions = build_definitions(deployment.settings, _catalog())
    dg.Definitions.validate_loadable(definitions)
    partitions = {key: definitions.resolve_assets_def(key).partitions_def for key in map(_key, ("datasets", "models", "scores"))}
    assert partitions[set_key("training_data")] == set_versions("training_data")
    assert partitions[model_key("fraud")] == model_versions("fraud")
    assert partitions[scores_key("fraud")] == definitions.resolve_assets_def(dg.AssetKey(["silver", "payments"])).partitions_def
    below = {
        name: {key.to_user_string() for key in definitions.resolve_assets_def(_key(name)).dependency_keys}
        for name in ("datasets", "models", "scores")
    }
    assert below == {
        "datasets": {"silver/payments", "silver/labels", "silver/customers", "gold/spend"},
        "models": {"datasets/training_data"},
        "scores": {"silver/payments", "models/fraud"},
    }
    checks = {check.name for check in definitions.resolve_asset_graph().asset_check_keys if check.asset_key == _key("scores")}
    assert checks == set(score_checks.SCORE_CHECKS) == set(check_names(_catalog())[scores_key("fraud")])


def test_only_a_model_with_a_policy_is_retrained(deployment: Lake) -> None:
    for policy, expected in ((MODEL.retrain_when, True), (None, False)):
        catalog = _catalog(MODEL.model_copy(update={"retrain_when": policy}))
        sensors = {sensor.name for sensor in build_definitions(deployment.settings, catalog).sensors or ()}
        assert ("retrain" in sensors) is expected


@pytest.mark.merge
def test_the_definitions_load_neither_mlflow_nor_scikit_learn(tmp_path: Path) -> None:
    for name, text in trained_lake.FILES.items():
        tmp_path.joinpath(name).write_text(text)
    process = subprocess.run([sys.executable, "-c", _LOADED, str(tmp_path)], capture_output=True, text=True, check=False)
    assert process.stdout.split("\n")[:2] == ["0", "1"], process.stderr


def test_the_sensor_finds_nothing_without_a_version_in_use(deployment: Lake, instance: dg.DagsterInstance) -> None:
    sensor = SensorTicks(deployment, _catalog(), "retrain_fraud", instance)
    for _ in range(2):
        assert sensor.skip_message() == "no correction reaches the policy of fraud"


class Deployment:
    """Payments with a released set and a model in use, and the deployment's definitions."""

    def __init__(self, folder: Path, spark: SparkSession, instance: dg.DagsterInstance) -> None:
        lake = trained_lake.settings_of(folder)
        (folder / "landing").mkdir()
        lake.settings.landing = str(folder / "landing")
        (folder / "contracts" / "prior_of_fraud.py").write_text(TRAIN)
        self.sample, self.lake, self.instance = TrainingLake(lake, spark), lake, instance
        self.catalog = Catalog(
            self.sample.sources, {"spend": self.sample.metric}, self.sample.catalog.training_sets, {"fraud": MODEL}
        )
        self.sample.deliver(Said("customers", "c1", at=-5, arrives=-4, values=("silver",)))
        self.sample.deliver(*(Said("payments", f"p{number}", number / 2, 6, ("c1", "DE", number + 1)) for number in range(12)))
        self.sample.deliver(*(Said("labels", f"p{number}", 6, 7, (1,)) for number in (1, 9)))
        lake.settings.now = moment(10)
        terms = {"by": "anna", "notes": "first"}
        labels.release(lake, self.sample.sources["labels"], "v3.0", **terms)
        build.build(spark, lake, self.catalog, self.sample.contract, build.SetRequest("v5.0", **terms))
        training.train(
            lake, self.catalog, MODEL, training.TrainingRequest("v2.3", "v5.0", parameters={"strategy": "stratified"}, **terms)
        )
        promotion.promote(lake, self.catalog, MODEL, "v2.3", **terms)
        self.sensor = SensorTicks(lake, self.catalog, "retrain_fraud", instance)

    def retrain(self) -> None:
        wanted = retraining.due(self.sample.session, self.lake, self.catalog, MODEL)
        assert wanted is not None
        retraining.carry_out(self.sample.session, self.lake, self.catalog, MODEL, wanted, by="anna")

    def versions(self) -> dict[str, list[str]]:
        """The versions of labels, set and model."""
        entries = releases.all_of(self.lake)
        return {kind.value: [entry.version for entry in entries if entry.kind is kind] for kind in ReleaseKind}

    def run_job(self, request: dg.RunRequest) -> dg.ExecuteInProcessResult:
        job = self.sensor.definitions.resolve_job_def("retrain_fraud")
        return job.execute_in_process(instance=self.instance, tags=dict(request.tags))

    def materialize(self, key: dg.AssetKey, partition: str, config: dict[str, Any] | None = None) -> dg.ExecuteInProcessResult:
        job = self.sensor.definitions.resolve_implicit_global_asset_job_def().get_subset(asset_selection={key})
        op = {"ops": {"__".join(key.path): {"config": config}}} if config else {}
        return job.execute_in_process(instance=self.instance, partition_key=partition, run_config=op)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Deployment]:
    with dg.DagsterInstance.ephemeral() as instance, trained_lake.own_modules():
        yield Deployment(tmp_path_factory.mktemp("models"), spark, instance)


@pytest.mark.proof  # a kill behind each step of a retraining
@pytest.mark.spark
@pytest.mark.own_spark
def test_corrections_retrain_a_model_once_each_and_promote_nothing(trained: Deployment) -> None:
    sample, lake, sensor = trained.sample, trained.lake, trained.sensor
    assert "no correction reaches" in sensor.skip_message()
    sample.deliver(*(Said("payments", f"n{number}", 12, 12.5, ("c1", "DE", 1)) for number in range(9)))
    sample.deliver(Said("labels", "p2", 6, 13, (1,)))
    of_set = releases.find(lake, ReleaseKind.TRAINING_SET, "training_data", "v5.0")
    assert changes.at_most(lake, changes.new_inputs(lake, of_set)) == 1, "of the new payments none belongs to the set"
    assert "no correction reaches" in sensor.skip_message()

    sample.deliver(Said("labels", "p3", 6, 14, (1,)))
    (request,) = sensor.run_requests()
    assert [again.run_key for again in sensor.run_requests()] == [request.run_key]
    stops = 0
    while stopped_behind(1, trained.retrain):
        stops += 1
        is_over = any(entry.is_over for entry in retraining.retrainings_of(lake, "fraud"))  # there may be none: only the table
        assert bool(sensor.run_requests()) is not is_over, "what was begun is continued"
        if is_over:
            break  # it was stopped behind its last step
    assert stops >= len(RetrainingStep) - 1
    assert trained.versions() == {"labels": ["v3.0", "v3.1"], "training_set": ["v5.0", "v5.1"], "model": ["v2.3", "v2.4"]}
    (first,) = retraining.retrainings_of(lake, "fraud")
    assert (first.step, first.changed_rows, first.changed_labels) == (RetrainingStep.BACKTESTED, 2, 2)
    made = releases.find(lake, ReleaseKind.MODEL, "fraud", "v2.4").about
    assert (made["training_set"]["full_name"], made["parameters"]) == ("training_data_v5.1", {"strategy": "stratified"})
    assert [(entry.version, entry.against) for entry in backtest_log.backtests_of(lake, "fraud")] == [("v2.4", "v2.3")]
    assert promotion_log.in_use(lake, "fraud") == "v2.3"
    assert "no correction reaches" in sensor.skip_message()

    sample.deliver(Said("labels", "p4", 6, 15, (0,)), Said("labels", "p5", 6, 15, (0,)))
    (request,) = sensor.run_requests()
    done = trained.run_job(request)
    assert done.success
    assert trained.versions()["model"] == ["v2.3", "v2.4"], "labels that say the same change no row"
    trained.instance.add_run(_succeeded(request))
    assert "a run has found that the policy is not reached" in sensor.skip_message()

    sample.deliver(*(Said("labels", f"p{number}", 6, 16, (1,)) for number in (4, 5)))
    (request,) = sensor.run_requests()
    assert trained.run_job(request).success
    assert trained.versions() == {
        "labels": ["v3.0", "v3.1", "v3.2"],
        "training_set": ["v5.0", "v5.1", "v5.2"],
        "model": ["v2.3", "v2.4", "v2.5"],
    }
    assert trained.instance.get_materialized_partitions(model_key("fraud")) == {"v2.5"}
    assert trained.instance.get_dynamic_partitions("set_versions_training_data") == ["v5.2"]
    assert promotion_log.in_use(lake, "fraud") == "v2.3"

    _versions_are_made_as_partitions(trained)
    _days_are_scored_with_their_checks(trained)


def _versions_are_made_as_partitions(trained: Deployment) -> None:
    instance, lake = trained.instance, trained.lake
    instance.add_dynamic_partitions("set_versions_training_data", ["v6.0"])
    instance.add_dynamic_partitions("model_versions_fraud", ["v3.0"])
    config = {"labels": "v3.1", "known_at": moment(13.5).isoformat(), "notes": "as of then"}
    assert trained.materialize(set_key("training_data"), "v6.0", config).success
    of_set = releases.find(lake, ReleaseKind.TRAINING_SET, "training_data", "v6.0")
    assert (of_set.notes, of_set.about["labels"]["version"], of_set.known_at) == ("as of then", "v3.1", moment(13.5))
    config = {"training_set": "v6.0", "notes": "by hand", "parameters": {"strategy": "uniform"}}
    (event,) = trained.materialize(model_key("fraud"), "v3.0", config).get_asset_materialization_events()
    metadata = event.materialization.metadata
    trained = releases.find(lake, ReleaseKind.MODEL, "fraud", "v3.0").about
    assert metadata["training_set"].value == "training_data_v6.0"
    assert metadata["mlflow_run"].value == trained["mlflow"]["run_id"]
    assert metadata["parameters"].value == {"strategy": "uniform"} == trained["parameters"]
    assert metadata["roc_auc"].value == trained["metrics"]["test"]["roc_auc"]


def _days_are_scored_with_their_checks(trained: Deployment) -> None:
    result = trained.materialize(scores_key("fraud"), "2024-02-02")
    (event,) = result.get_asset_materialization_events()
    assert event.materialization.partition == "2024-02-02"
    metadata = {name: value.value for name, value in event.materialization.metadata.items()}
    assert (metadata["dagster/row_count"], metadata["champion"]) == (2, "v2.3")
    evaluations = result.get_asset_check_evaluations()
    assert {(one.partition, one.check_name) for one in evaluations} == {
        ("2024-02-02", name) for name in score_checks.SCORE_CHECKS
    }
    passed = {one.check_name: one.passed for one in evaluations}
    assert passed["row_count"]
    assert passed["training_serving_skew"]
    assert passed["label_maturity"]


def _catalog(model: ModelContract = MODEL) -> Catalog:
    sample = TrainingLake(Lake(trained_lake.Settings()), None)
    return Catalog(sample.sources, {"spend": sample.metric}, sample.catalog.training_sets, {"fraud": model})


def _key(layer: str) -> dg.AssetKey:
    return dg.AssetKey([layer, "training_data" if layer == "datasets" else "fraud"])


def _succeeded(request: dg.RunRequest) -> dg.DagsterRun:
    return dg.DagsterRun(job_name="retrain_fraud", tags=dict(request.tags), status=dg.DagsterRunStatus.SUCCESS)
