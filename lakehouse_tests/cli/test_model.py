"""``lakehouse model`` and ``lakehouse gold promotions`` as people type them. None of these starts Spark.

Where many commands follow each other they run in this process, which imports MLflow once.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from lakehouse.cli import program as cli
from lakehouse_tests.support import trained_lake
from lakehouse_tests.support.forked_cli import lakehouse_command
from lakehouse_tests.support.free_port import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from subprocess import CompletedProcess

WHO = ("--by", "ana", "--notes", "a better one")
ENVIRONMENT = {"LAKEHOUSE_BUNDLED_CONTRACTS": "false", "LAKEHOUSE_NOW": "2024-06-01T12:00:00Z", "JAVA_HOME": "/nonexistent"}


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[Path]:
    """A folder with a training set in two versions, and the contract of a model."""
    with trained_lake.own_modules():
        trained_lake.fill(trained_lake.settings_of(tmp_path))
        yield tmp_path


def command(folder: Path, *arguments: str, **environment: str) -> CompletedProcess[str]:
    return lakehouse_command(folder, *arguments, **ENVIRONMENT, **environment)


@dataclass
class Shell:
    """Runs commands in this process, in a folder with a lake."""

    patched: pytest.MonkeyPatch
    printed: pytest.CaptureFixture[str]

    def __call__(self, *arguments: str) -> SimpleNamespace:
        self.patched.setattr(sys, "argv", ["lakehouse", *arguments])
        with pytest.raises(SystemExit) as end:
            cli.main()
        stdout, stderr = self.printed.readouterr()
        return SimpleNamespace(returncode=end.value.code, stdout=stdout, stderr=stderr)


@pytest.fixture
def shell(deployment: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    monkeypatch.chdir(deployment)
    for name, value in {**ENVIRONMENT, "LAKEHOUSE_ROOT": str(deployment / "lake"), "COLUMNS": "200"}.items():
        monkeypatch.setenv(name, value)
    return Shell(monkeypatch, capsys)


@pytest.mark.merge
def test_a_model_is_trained_promoted_taken_back_and_looked_at(shell: Shell) -> None:
    assert shell("model", "show", "fraud").stdout == "fraud has no version yet: 'lakehouse model train' makes one.\n"
    done = shell("model", "train", "fraud", "v2.3", "--set", "v5.0", *WHO)
    assert done.returncode == 0, done.stderr
    assert "fraud v2.3 has learned from training_data_v5.0 by fraud_training:train.\n" in done.stdout
    assert "quality on training_data_v5.0/test (" in done.stdout
    done = shell("model", "train", "fraud", "next", *WHO, "--param", "strength=0.5")
    assert "fraud v2.4 has learned from training_data_v5.1" in done.stdout, done.stderr

    done = shell("model", "promote", "fraud", "v2.3", *WHO)
    assert done.stdout.endswith("fraud v2.3 is in use since 2024-06-01 12:00 UTC.\n"), done.stderr
    refused = shell("model", "promote", "fraud", "v2.4", *WHO)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("fraud v2.4 is not promoted, v2.3 stays in use:\n    no backtest compares v2.4 with v2.3")
    done = shell("model", "promote", "fraud", "v2.4", *WHO, "--sign-off", "it is urgent")
    assert done.stdout.startswith("# fraud v2.4 replaces v2.3\n")
    assert "Signed off by ana: it is urgent\n" in done.stdout

    listed = [json.loads(line) for line in shell("model", "list", "--json").stdout.splitlines()]
    assert [(row["version"], row["state"], row["training_set"]) for row in listed] == [
        ("v2.3", "", "training_data_v5.0"),
        ("v2.4", "in use", "training_data_v5.1"),
    ]
    assert "v2.4" in shell("model", "list", "fraud").stdout
    back = shell("model", "rollback", "fraud", "--by", "bo", "--notes", "too many alarms")
    assert back.stdout == "fraud v2.3 is in use since 2024-06-01 12:00 UTC, in place of v2.4.\n"
    gone = shell("model", "deprecate", "fraud", "v2.3", "--by", "cy", "--notes", "wrong labels")
    assert gone.stdout == "fraud v2.3 is deprecated.\n"
    assert gone.stderr.startswith("It is still in use: promote another version")

    assert shell("promotions", "fraud").stdout == (
        "2024-06-01 12:00 UTC  promote fraud none -> v2.3 by ana\n"
        "    a better one\n"
        "2024-06-01 12:00 UTC  promote fraud v2.3 -> v2.4 by ana\n"
        "    a better one\n"
        "    signed off (it is urgent): no backtest compares v2.4 with v2.3, the version in use, by the rules (roc_auc not worse "
        "than 0.01): run 'lakehouse model backtest fraud v2.4 --against v2.3'\n"
        "2024-06-01 12:00 UTC  rollback fraud v2.4 -> v2.3 by bo\n"
        "    too many alarms\n"
        "fraud uses v2.3.\n"
    )
    exported = [json.loads(line) for line in shell("promotions", "--json").stdout.splitlines()]
    assert [(row["of"], row["name"], row["kind"], row["to"], row["reason"]) for row in exported] == [
        ("model", "fraud", "promote", "v2.3", "a better one"),
        ("model", "fraud", "promote", "v2.4", "a better one"),
        ("model", "fraud", "rollback", "v2.3", "too many alarms"),
    ]
    shown = shell("model", "show", "fraud", "v2.3").stdout
    for part in (
        "fraud v2.3 (in use)\n",
        "deprecated by cy at 2024-06-01 12:00 UTC: wrong labels\n",
        "data: training_data_v5.0 (400 rows, labels chargebacks v3.0, content hash of v5.0)\n",
        " rows from 2024-01-01 to 2024-02-29\n",
        "parameters: strength=1.0\n",
        "    amount: source payments, sql amount, contract_version abc\n",
        "rollback fraud v2.4 -> v2.3 by bo: too many alarms\n",
    ):
        assert part in shown
    lineage = json.loads(shell("model", "show", "fraud", "v2.4", "--json").stdout)
    assert lineage["parameters"] == {"strength": 0.5}
    assert [(move["kind"], move["sign_off"]) for move in lineage["promotions"]] == [
        ("promote", "it is urgent"),
        ("rollback", None),
    ]


@pytest.mark.merge
def test_refusals_are_sentences(deployment: Path) -> None:
    unknown = command(deployment, "model", "show", "churn")
    assert (unknown.returncode, unknown.stderr) == (2, "No contract has 'model: churn'; known are fraud.\n")
    bad = command(deployment, "model", "train", "fraud", "v2.4", *WHO, "--param", "strength")
    assert bad.returncode == 2
    assert "write NAME=VALUE" in bad.stderr
    unnamed = command(deployment, "promotions")
    assert unnamed.returncode == 2
    assert "name a metric or a model" in unnamed.stderr
    address = f"http://127.0.0.1:{free_port()}"
    away = command(deployment, "model", "train", "fraud", "v2.4", *WHO, LAKEHOUSE_MLFLOW_URI=address)
    assert (away.returncode, away.stdout) == (1, "")
    assert away.stderr.splitlines()[-1] == (
        f"fraud v2.4 could not be looked up: MLflow at {address} does not answer; start it, or correct LAKEHOUSE_MLFLOW_URI"
    )
    assert "Traceback" not in away.stderr
