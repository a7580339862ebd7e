"""What is kept in MLflow: versions that are registered once, the alias of the one in use, and models that load as they were."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from lakehouse.models import scores, tracking, training
from lakehouse.training_sets import releases
from lakehouse.training_sets.releases import ReleaseKind
from lakehouse_tests.support import trained_lake
from lakehouse_tests.support.free_port import free_port
from lakehouse_tests.support.trained_lake import CATALOG, MODEL, SET

if TYPE_CHECKING:
    from lakehouse.lake import Lake

#: A model of no library.
THRESHOLD = """\
class Threshold:
    def __init__(self, amount):
        self.amount = amount

    def predict_proba(self, frame):
        return (frame["amount"] > self.amount).astype(float).to_numpy()


def train(frame, params):
    return Threshold(frame.loc[frame["label"] == 1, "amount"].min())
"""


@pytest.mark.merge
def test_a_model_loads_as_the_object_that_it_was_and_one_version_is_the_champion(filled: Lake) -> None:
    (filled.settings.contracts / "threshold.py").write_text(THRESHOLD, encoding="utf-8")
    of_own_class = MODEL.model_copy(update={"train": "threshold:train"})
    by_version = {
        "v1.0": trained_lake.train(filled, "v1.0"),
        "v1.1": training.train(
            filled, CATALOG, of_own_class, training.TrainingRequest("v1.1", "v5.0", by="ana", notes="by a rule")
        ),
    }
    rows = releases.read_set(filled, releases.find(filled, ReleaseKind.TRAINING_SET, "training_data", "v5.0"))
    frame = scores.frame_of(rows, SET.features.names)
    pipeline, rule = (scores.load_model(filled, MODEL, version) for version in by_version)
    assert type(pipeline).__name__ == "Pipeline"
    assert type(rule) is sys.modules["threshold"].Threshold
    assert rule.predict_proba(frame).tolist() == (frame["amount"] > rule.amount).astype(float).tolist()

    assert tracking.champion(filled, MODEL) is None
    for version, release in reversed(by_version.items()):
        tracking.set_champion(filled, release)
        assert tracking.champion(filled, MODEL) == version
    elsewhere = replace(by_version["v1.0"], version="v9.0")
    with pytest.raises(
        tracking.TrackingError, match=r"fraud v9.0 is not registered in MLflow at sqlite.*; correct LAKEHOUSE_MLFLOW"
    ):
        tracking.set_champion(filled, elsewhere)
    assert tracking.champion(filled, MODEL) == "v1.0"


def test_a_model_whose_code_is_gone_is_reported(filled: Lake) -> None:
    (filled.settings.contracts / "threshold.py").write_text(THRESHOLD, encoding="utf-8")
    of_own_class = MODEL.model_copy(update={"train": "threshold:train"})
    training.train(filled, CATALOG, of_own_class, training.TrainingRequest("v1.1", "v5.0", by="ana", notes="by a rule"))
    (filled.settings.contracts / "threshold.py").unlink()
    del sys.modules["threshold"]
    with pytest.raises(tracking.TrackingError, match=r"fraud v1.1 could not be loaded: .*the code of 'threshold:train'"):
        scores.load_model(filled, MODEL, "v1.1")


def test_a_server_that_is_down_is_reported_within_seconds(lake: Lake) -> None:
    away = lake.with_settings(mlflow_uri=f"http://ana:secret@127.0.0.1:{free_port()}")
    begun = time.monotonic()
    with pytest.raises(tracking.MlflowUnavailableError, match=r"does not answer; start it, or correct LAKEHOUSE") as refused:
        tracking.champion(away, MODEL)
    assert time.monotonic() - begun < 5
    assert "secret" not in str(refused.value)


def test_a_root_in_an_object_store_needs_a_server(lake: Lake) -> None:
    with pytest.raises(tracking.TrackingError, match="set LAKEHOUSE_MLFLOW_URI"):
        tracking.champion(lake.with_settings(root="s3://bucket/lake"), MODEL)


def test_a_column_has_the_same_type_in_every_frame() -> None:
    full = pa.table({"count": pa.array([1, 2]), "sure": [True, False], "text": ["a", "b"]})
    sparse = pa.table({"count": pa.array([None, 2]), "sure": [None, False], "text": [None, "b"]})
    frames = [scores.frame_of(rows, ["text", "count", "sure"]) for rows in (full, sparse)]
    assert list(frames[0].columns) == ["text", "count", "sure"]
    full_types, sparse_types = ([str(kind) for kind in frame.dtypes] for frame in frames)
    assert full_types == sparse_types
    assert full_types[0] in {"object", "str"}, "before pandas 3, and since"
    assert full_types[1:] == ["float64", "float64"]
