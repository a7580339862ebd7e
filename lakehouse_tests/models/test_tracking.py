"""What is kept in MLflow: versions that are registered once, the alias of the one in use, and models that load as they were."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa
import pytest
from sklearn.linear_model import LogisticRegression

from lakehouse.contracts import ModelContract
from lakehouse.models import mlflow_connection, tracking, trained
from lakehouse_tests.support.free_port import free_port

if TYPE_CHECKING:
    from lakehouse.settings import Settings

CONTRACT = ModelContract(model="fraud", training_set="training_data", train="fraud:train")
FRAME = pd.DataFrame({"amount": [1.0, 2.0, 3.0, 4.0], "label": [0, 0, 1, 1]})


class AlwaysOne:
    """A model of no library."""

    def predict(self, frame: pd.DataFrame) -> list[float]:
        return [1.0] * len(frame)


def _model(version: str, model: object) -> tracking.TrainedModel:
    return tracking.TrainedModel(
        name="fraud",
        version=version,
        notes="first",
        by="ana",
        trained=model,
        identity="abc",
        about={"a": 1},
        parameters={"depth": 3},
        tags={},
        set_name="training_data_v5.0",
        set_address="/lake/datasets/training_data_v5.0",
        frames={"train": FRAME, "test": FRAME.iloc[:2]},
        roles={"train": "training", "test": "evaluation"},
        metrics={"train": {"roc_auc": 1.0}, "test": {"roc_auc": float("nan")}},
    )


def test_a_model_is_registered_once_and_loads_as_the_object_that_it_was(settings: Settings) -> None:
    estimator = LogisticRegression().fit(FRAME[["amount"]], FRAME["label"])
    first = tracking.register(settings, _model("v1.0", estimator))
    assert tracking.register(settings, _model("v1.0", estimator)) == first == tracking.registered(settings, "fraud", "v1.0")
    assert tracking.lineage_in(settings, first) == {"a": 1}
    tracking.register(settings, _model("v1.1", AlwaysOne()))
    loaded = trained.load(settings, CONTRACT, "v1.0")
    assert type(loaded) is LogisticRegression
    assert loaded.predict_proba(FRAME[["amount"]]).tolist() == estimator.predict_proba(FRAME[["amount"]]).tolist()
    assert type(trained.load(settings, CONTRACT, "v1.1")) is AlwaysOne
    assert tracking.champion(settings, CONTRACT) is None
    for version in ("v1.1", "v1.0"):
        tracking.set_champion(settings, "fraud", version)
        assert tracking.champion(settings, CONTRACT) == version
    with pytest.raises(tracking.TrackingError, match=r"fraud v9.0 is not registered in MLflow at sqlite"):
        tracking.set_champion(settings, "fraud", "v9.0")


def test_a_server_that_is_down_is_reported_within_seconds(settings: Settings) -> None:
    away = settings.model_copy(update={"mlflow_uri": f"http://ana:secret@127.0.0.1:{free_port()}"})
    begun = time.monotonic()
    with pytest.raises(
        mlflow_connection.MlflowUnavailableError, match=r"does not answer; start it, or correct LAKEHOUSE"
    ) as refused:
        tracking.champion(away, CONTRACT)
    assert time.monotonic() - begun < 5
    assert "secret" not in str(refused.value)


def test_a_root_in_an_object_store_needs_a_server(settings: Settings) -> None:
    with pytest.raises(tracking.TrackingError, match="set LAKEHOUSE_MLFLOW_URI"):
        tracking.champion(settings.model_copy(update={"root": "s3://bucket/lake"}), CONTRACT)


def test_a_column_has_the_same_type_in_every_frame() -> None:
    full = pa.table({"count": pa.array([1, 2]), "sure": [True, False], "text": ["a", "b"]})
    sparse = pa.table({"count": pa.array([None, 2]), "sure": [None, False], "text": [None, "b"]})
    frames = [trained.frame_of(rows, ["text", "count", "sure"]) for rows in (full, sparse)]
    assert list(frames[0].columns) == ["text", "count", "sure"]
    assert (
        [str(kind) for kind in frames[0].dtypes] == [str(kind) for kind in frames[1].dtypes] == ["object", "float64", "float64"]
    )
