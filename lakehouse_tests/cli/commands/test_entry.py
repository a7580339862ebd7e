"""``lakehouse init`` and ``infer``, and what ``run`` refuses, as a newcomer types them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from lakehouse.cli import app

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(name="folder")
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, in which the commands are given."""
    for name in ("ROOT", "CONTRACTS", "LANDING", "BUNDLED_CONTRACTS"):
        monkeypatch.delenv(f"LAKEHOUSE_{name}", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def output_of(*arguments: str, fails: bool = False) -> str:
    done = CliRunner().invoke(app, list(arguments))
    assert (done.exit_code != 0) == fails, done.output
    text = " ".join(done.output.replace("│", "").split())
    return f"{text} {done.exception}" if fails else text


def test_a_project_is_made_and_its_contracts_are_sound(folder: Path) -> None:
    assert "Next: lakehouse run contracts/orders.yaml samples/orders.csv" in output_of("init")
    assert "source orders, 3 fields, key order_id" in output_of("contract", "check", "contracts/orders.yaml")
    assert "contracts/orders.yaml exists: make the project in an empty folder" in output_of("init", fails=True)
    assert "cd mine && lakehouse run" in output_of("init", "mine")


def test_a_contract_is_inferred_and_not_overwritten(folder: Path) -> None:
    (folder / "tills_2024-11-05.csv").write_text(
        "till,sold_at,amount\n1,2024-11-05T10:00:00Z,1.50\n2,2024-11-05T11:00:00Z,2.00\n"
    )
    text = output_of("infer", "tills_2024-11-05.csv")
    assert "? the key till is unique in 2 sample records; check that it always is" in text
    assert "Next: lakehouse run contracts/tills.yaml tills_2024-11-05.csv" in text
    assert "source tills, 3 fields, key till" in output_of(
        "contract", "check", "contracts/tills.yaml", "contracts/tills_daily.yaml"
    )
    assert "tills.yaml exists and is not overwritten" in output_of("infer", "tills_2024-11-05.csv", fails=True)
    assert "lost.csv: there is no such file" in output_of("infer", "lost.csv", fails=True)
    (folder / "words.csv").write_text("id,word\n1,a\n")
    assert "name the column of the event time" in output_of("infer", "words.csv")


def test_a_run_of_something_else_is_refused_in_a_sentence(folder: Path) -> None:
    output_of("init")
    assert "nothing is neither a file nor a dataset; known datasets are orders" in output_of(
        "run", "nothing", "a.csv", fails=True
    )
    metric = output_of("run", "contracts/orders_daily.yaml", "samples/orders.csv", fails=True)
    assert "contracts/orders_daily.yaml is not the contract of a source; name that of the source" in metric
    assert "lost.csv: there is no such file" in output_of("run", "orders", "lost.csv", fails=True)
    (folder / "contracts" / "orders.yaml").write_text("dataset: orders\n")
    assert "orders.yaml" in output_of("run", "contracts/orders.yaml", "samples/orders.csv", fails=True)
