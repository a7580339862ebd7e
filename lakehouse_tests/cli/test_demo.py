"""``lakehouse demo``: what it refuses before it writes anything. What it does is asserted in ``lakehouse_tests/acceptance``."""

from __future__ import annotations

from importlib import util
from typing import TYPE_CHECKING

from typer.testing import CliRunner

from lakehouse.cli.program import app

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_without_the_extra_the_demo_of_models_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LAKEHOUSE_ROOT", str(tmp_path / "lake"))
    monkeypatch.setattr(util, "find_spec", lambda name: None if name == "mlflow" else name)
    done = CliRunner().invoke(app, ["demo", "--models"])
    assert done.exit_code == 2
    said = " ".join((done.output + capsys.readouterr().err).split())
    assert "The demo of models needs mlflow: install the extra with 'pip install lakehouse[ml]'." in said
    assert not (tmp_path / "lake").exists()


def test_a_demo_in_an_object_store_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_ROOT", "s3://bucket/lake")
    assert CliRunner().invoke(app, ["demo", "--models"]).exit_code == 2
