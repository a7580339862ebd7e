"""Training: what is recorded of it, that a version is made once also where it is stopped, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from mlflow import MlflowClient

from lakehouse.models import scores as function
from lakehouse.models import tracking, training
from lakehouse.models.comparison import ScoringError
from lakehouse.models.scores import TrainingError
from lakehouse.training_sets import releases
from lakehouse.training_sets.releases import ReleaseError, ReleaseKind
from lakehouse_tests.support import trained_lake
from lakehouse_tests.support.stopped_mlflow import stopped_behind_each
from lakehouse_tests.support.trained_lake import CATALOG, MODEL, SET, TRAIN, train

if TYPE_CHECKING:
    from pathlib import Path

    from lakehouse.lake import Lake


def mlflow_of(lake: Lake) -> MlflowClient:
    uri = tracking.address(lake)
    return MlflowClient(uri, uri)


def runs_of(lake: Lake) -> list[Any]:
    client = mlflow_of(lake)
    experiment = client.get_experiment_by_name("fraud")
    return [] if experiment is None else list(client.search_runs([experiment.experiment_id]))


def versions_of(lake: Lake) -> list[Any]:
    return list(mlflow_of(lake).search_model_versions("name = 'fraud'"))


def test_a_version_is_recorded_with_all_that_it_was_made_from(filled: Lake) -> None:
    release = train(filled, "v2.4", parameters={"depth": 3})
    about = release.about
    assert releases.find(filled, ReleaseKind.MODEL, "fraud", "v2.4") == release
    assert about["training_set"]["full_name"] == "training_data_v5.0"
    assert about["training_set"]["labels"] == {"source": "chargebacks", "version": "v3.0"}
    assert about["training_set"]["content_hash"] == "hash of v5.0"
    assert about["training_set"]["time"]["train"] == {"from": "2024-01-01", "to": "2024-02-29"}
    assert about["feature_names"] == ["amount", "country"]
    assert about["features"]["amount"] == {"source": "payments", "sql": "amount", "contract_version": "abc"}
    assert about["parameters"] == {"strength": 1.0, "depth": 3}
    assert about["function"] == "fraud_training:train"
    assert (about["fit_on"], about["evaluated_on"]) == ("train", "test")
    assert about["part_rows"]["train"] + about["part_rows"]["test"] == trained_lake.ROWS
    assert 0.8 < about["metrics"]["test"]["roc_auc"] < 1

    (run,) = runs_of(filled)
    assert (run.info.run_id, run.info.status) == (about["mlflow"]["run_id"], "FINISHED")
    assert run.data.params == {"strength": "1.0", "depth": "3"}
    assert run.data.metrics["test/roc_auc"] == about["metrics"]["test"]["roc_auc"]
    inputs = {entry.dataset.name: entry for entry in run.inputs.dataset_inputs}
    assert inputs.keys() == {"training_data_v5.0"}
    contexts = {tag.value for entry in run.inputs.dataset_inputs for tag in entry.tags if tag.key == "mlflow.data.context"}
    assert contexts == {"training", "evaluation"}
    (logged,) = mlflow_of(filled).search_logged_models([run.info.experiment_id])
    measured_on = {(metric.key, metric.dataset_name) for metric in logged.metrics}
    assert ("test/roc_auc", "training_data_v5.0") in measured_on
    (version,) = versions_of(filled)
    assert (f"{version.version}", version.tags["lakehouse.version"]) == (about["mlflow"]["version"], "v2.4")
    assert run.data.tags["lakehouse.training_code"] == about["code"]["training"]

    rows = releases.read_set(filled, releases.find(filled, ReleaseKind.TRAINING_SET, "training_data", "v5.0"))
    frame = function.frame_of(rows, SET.features.names)
    assert len(function.load_model(filled, MODEL, "v2.4").predict_proba(frame)) == trained_lake.ROWS


def test_the_same_command_again_gives_the_same_version_and_another_one_is_refused(filled: Lake) -> None:
    release = train(filled, "v2.4")
    assert train(filled, "v2.4", notes="again") == release
    assert len(versions_of(filled)) == 1
    with pytest.raises(TrainingError, match=r"exists .*\(training set: training_data_v5.0, now training_data_v5.1\); a version"):
        train(filled, "v2.4", "v5.1")
    with pytest.raises(TrainingError, match=r"\(parameters: \{'strength': 1.0\}, now \{'strength': 2.0\}\)"):
        train(filled, "v2.4", parameters={"strength": 2.0})
    assert len(runs_of(filled)) == 1


@pytest.mark.proof
def test_a_training_that_is_stopped_anywhere_is_completed_by_the_same_command(tmp_path: Path) -> None:
    lakes: list[Lake] = []

    def prepare() -> None:
        folder = tmp_path / f"{len(lakes)}"
        folder.mkdir()
        lakes.append(trained_lake.settings_of(folder))
        trained_lake.fill(lakes[-1])

    def check() -> None:
        lake = lakes[-1]
        release = releases.find(lake, ReleaseKind.MODEL, "fraud", "v2.4")
        (version,) = versions_of(lake)
        (run,) = runs_of(lake)
        assert release.about["mlflow"] == {"version": f"{version.version}", "run_id": run.info.run_id}
        assert (run.info.status, version.run_id) == ("FINISHED", run.info.run_id)
        assert len(mlflow_of(lake).search_logged_models([run.info.experiment_id])) == 1
        assert train(lake, "v2.4") == release

    with trained_lake.own_modules():
        stops = stopped_behind_each(lambda: train(lakes[-1], "v2.4"), check, prepare)
    assert stops > 8


def test_of_two_trainings_at_once_the_first_counts(filled: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    call = function.call_function

    def slow(*arguments: Any) -> Any:
        """While this one trains, another process trains the same version with another parameter."""
        monkeypatch.setattr(function, "call_function", call)
        train(filled, "v2.4", parameters={"strength": 5.0})
        return call(*arguments)

    monkeypatch.setattr(function, "call_function", slow)
    with pytest.raises(TrainingError, match=r"was registered in MLflow by a training from training_data_v5.0"):
        train(filled, "v2.4")
    assert len(versions_of(filled)) == 1
    assert releases.find(filled, ReleaseKind.MODEL, "fraud", "v2.4").about["parameters"] == {"strength": 5.0}


def _model_that(scores: str) -> str:
    return f"class Model:\n    def predict_proba(self, frame):\n        {scores}\ndef train(frame, params):\n    return Model()\n"


BAD_FUNCTIONS = {
    "not there": (None, r"there is no module absent for 'train: absent:train'; modules are looked for in .*contracts"),
    "missing import": ("import absent_library", r"imports absent_library, which is not installed"),
    "broken": ("def train(frame, params)\n", r"cannot be imported: SyntaxError: expected ':'"),
    "fails on import": ("raise RuntimeError('no\\ndriver')", r"cannot be imported: RuntimeError: no driver \(.*\.py, line 1\)"),
    "no function": ("train = 3", r"train is no function in .*\.py; correct 'train: "),
    "no such function": ("fit = print", r"train does not exist in "),
    "raises": ("def train(frame, params):\n    return 1 / 0", r"failed on \d+ rows: ZeroDivisionError: .* \(.*\.py, line 2\)"),
    "ends the process": ("def train(frame, params):\n    raise SystemExit(3)", r"failed on \d+ rows: SystemExit: 3"),
    "returns nothing": ("def train(frame, params):\n    pass", r"returned nothing; it has to return the model"),
    "returns no model": ("def train(frame, params):\n    return 5", r"returned an object of type int without 'predict_proba'"),
    "cannot score": (
        _model_that("return frame['absent']"),
        r"cannot score \d+ rows: KeyError: 'absent'",
    ),
    "scores badly": (
        _model_that("return [1.0]"),
        r"'predict_proba' gave \(1,\) for \d+ rows",
    ),
}


def test_a_function_that_gives_no_model_is_reported_and_nothing_is_recorded(filled: Lake) -> None:
    for number, (text, message) in enumerate(BAD_FUNCTIONS.values()):
        module = "absent" if text is None else f"bad_{number}"
        if text is not None:
            (filled.settings.contracts / f"{module}.py").write_text(text, encoding="utf-8")
        contract = MODEL.model_copy(update={"train": f"{module}:train"})
        with pytest.raises((TrainingError, ScoringError), match=message):
            training.train(filled, CATALOG, contract, training.TrainingRequest("v1.0", "v5.0", by="ana", notes="bad"))
    assert runs_of(filled) == []
    assert versions_of(filled) == []
    assert releases.all_of(filled, ReleaseKind.MODEL) == []


def test_versions_and_sets_that_cannot_be_used_are_refused(filled: Lake) -> None:
    with pytest.raises(TrainingError, match=r"'2.4' is no version"):
        train(filled, "2.4")
    with pytest.raises(ReleaseError, match=r"training_data v9.0 does not exist; released are v5.0, v5.1"):
        train(filled, "v2.4", "v9.0")
    releases.deprecate(filled, ReleaseKind.TRAINING_SET, "training_data", "v5.0", by="cy", notes="labels were wrong")
    with pytest.raises(TrainingError, match=r"training_data_v5.0 is deprecated: labels were wrong; name another version"):
        train(filled, "v2.4")
    features = SET.features.model_copy(update={"deprecated": {"country": "use region"}})
    catalog = replace(CATALOG, training_sets={"training_data": SET.model_copy(update={"features": features})})
    with pytest.raises(TrainingError, match=r"the feature country of training_data_v5.1 is deprecated: use region"):
        training.train(filled, catalog, MODEL, training.TrainingRequest("v2.4", "v5.1", by="ana", notes=""))
    with pytest.raises(TrainingError, match=r"'fit_on: dev' has no rows in training_data_v5.1, whose parts are train, test"):
        training.train(
            filled,
            CATALOG,
            MODEL.model_copy(update={"fit_on": "dev"}),
            training.TrainingRequest("v2.4", "v5.1", by="ana", notes=""),
        )
    assert runs_of(filled) == []


def test_a_function_is_found_in_the_current_folder_too(filled: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "here" / "shop_models"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "fraud.py").write_text(TRAIN, encoding="utf-8")
    monkeypatch.chdir(tmp_path / "here")
    contract = MODEL.model_copy(update={"train": "shop_models.fraud:train"})
    release = training.train(filled, CATALOG, contract, training.TrainingRequest("v2.4", "v5.0", by="ana", notes=""))
    assert release.about["function"] == "shop_models.fraud:train"
