"""An MLflow server gives the same as the embedded store. A server that is down and killed processes leave nothing half done."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from mlflow import MlflowClient

from lakehouse.models import promotion, promotion_log, scores, tracking
from lakehouse.training_sets import releases
from lakehouse.training_sets.releases import ReleaseKind
from lakehouse_tests.support import trained_lake
from lakehouse_tests.support.mlflow_server import mlflow_server
from lakehouse_tests.support.trained_lake import CATALOG, MODEL, SET

if TYPE_CHECKING:
    from pathlib import Path

    from lakehouse.lake import Lake

pytestmark = pytest.mark.merge


def promote(lake: Lake, version: str) -> str:
    done = promotion.promote(lake, CATALOG, MODEL, version, by="ana", notes="better", sign_off="no months yet")
    return done.to_version


def everything(lake: Lake) -> dict[str, Any]:
    """What MLflow holds, without names that it makes up, and how the models score."""
    uri = tracking.address(lake)
    client = MlflowClient(uri, uri)
    experiment = client.get_experiment_by_name("fraud")
    runs = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
    versions = {entry.tags["lakehouse.version"]: entry for entry in client.search_model_versions("name = 'fraud'")}
    rows = releases.read_set(lake, releases.find(lake, ReleaseKind.TRAINING_SET, "training_data", "v5.0"))
    frame = scores.frame_of(rows, SET.features.names)
    own_tags = ("lakehouse.", "mlflow.note", "mlflow.user", "mlflow.source")
    return {
        "runs": {
            name: {
                "status": run.info.status,
                "params": run.data.params,
                "metrics": run.data.metrics,
                "tags": {key: value for key, value in run.data.tags.items() if key.startswith(own_tags)},
                "inputs": sorted((entry.dataset.name, entry.dataset.digest) for entry in run.inputs.dataset_inputs),
            }
            for name, run in runs.items()
        },
        "versions": {version: (f"{entry.version}", entry.description) for version, entry in versions.items()},
        "aliases": {alias: f"{number}" for alias, number in client.get_registered_model("fraud").aliases.items()},
        "scores": {version: scores.load_model(lake, MODEL, version).predict_proba(frame).tolist() for version in versions},
    }


def test_a_server_and_the_embedded_store_give_the_same_and_nothing_is_half_done_when_it_is_down(tmp_path: Path) -> None:
    with trained_lake.own_modules():
        (tmp_path / "server").mkdir()
        embedded = trained_lake.settings_of(tmp_path)
        trained_lake.fill(embedded)
        (tmp_path / "server" / "lake").mkdir()
        with mlflow_server(tmp_path / "server") as address:
            remote = embedded.with_settings(root=str(tmp_path / "server" / "lake"), mlflow_uri=address)
            trained_lake.fill(remote)
            for lake in (embedded, remote):
                trained_lake.train(lake, "v2.3")
                trained_lake.train(lake, "v2.4", "v5.1", parameters={"strength": 0.5})
                assert [promote(lake, "v2.3"), promote(lake, "v2.4")] == ["v2.3", "v2.4"]
            assert everything(remote) == everything(embedded)
            begun = time.monotonic()
            assert promotion.rollback(remote, MODEL, by="bo", notes="too many alarms").to_version == "v2.3"
            assert time.monotonic() - begun < 10
            assert tracking.champion(remote, MODEL) == "v2.3"
            steps = promotion_log.log(remote).read()
        begun = time.monotonic()
        for step in (lambda: promote(remote, "v2.4"), lambda: trained_lake.train(remote, "v2.5")):
            with pytest.raises(tracking.MlflowUnavailableError, match="does not answer"):
                step()
        assert time.monotonic() - begun < 10
        assert len(promotion_log.log(remote).read()) == len(steps)
        assert [entry.version for entry in releases.all_of(remote, ReleaseKind.MODEL)] == ["v2.3", "v2.4"]


KILLED = """\
import os, signal, sys
from pathlib import Path
from lakehouse.lake import Lake
from lakehouse.models import promotion, tracking
from lakehouse_tests.support.trained_lake import CATALOG, MODEL

lake, move = Lake.open(), tracking.set_champion


def killed(lake, release):
    if sys.argv[1] == "behind":
        move(lake, release)
    os.kill(os.getpid(), signal.SIGKILL)


tracking.set_champion = killed
promotion.promote(lake, CATALOG, MODEL, "v2.4", by="ana", notes="better", sign_off="no months yet")
"""


@pytest.mark.proof
def test_a_process_that_is_killed_around_the_alias_is_settled_by_the_next_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with trained_lake.own_modules():
        lake = trained_lake.settings_of(tmp_path)
        trained_lake.fill(lake)
        trained_lake.train(lake, "v2.3")
        trained_lake.train(lake, "v2.4", "v5.1")
        promote(lake, "v2.3")
        monkeypatch.setenv("LAKEHOUSE_ROOT", lake.root)
        for moment, shown in (("before", "v2.3"), ("behind", "v2.4")):
            ended = subprocess.run([sys.executable, "-c", KILLED, moment], check=False)
            assert ended.returncode == -signal.SIGKILL
            assert promotion_log.unended(lake, "fraud") is not None
            assert promotion.settle(lake, MODEL) is None
            assert promotion_log.unended(lake, "fraud") is None
            assert (tracking.champion(lake, MODEL), promotion_log.in_use(lake, "fraud")) == (shown, shown)
