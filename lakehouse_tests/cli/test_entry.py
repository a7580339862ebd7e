"""``lakehouse init`` and ``infer``, and what ``run`` refuses, as a newcomer types them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import typer
from typer.testing import CliRunner

from lakehouse.cli.program import app, called

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
    assert "? the key till, sold_at is unique in 2 sample records; check that it always is" in text
    assert "Next: lakehouse run contracts/tills.yaml tills_2024-11-05.csv" in text
    assert "source tills, 3 fields, key till, sold_at" in output_of(
        "contract", "check", "contracts/tills.yaml", "contracts/tills_daily.yaml"
    )
    assert "tills.yaml exists and is not overwritten" in output_of("infer", "tills_2024-11-05.csv", fails=True)
    assert "lost.csv: there is no such file" in output_of("infer", "lost.csv", fails=True)
    (folder / "words.csv").write_text("id,word\n1,a\n")
    assert "name the column of the event time" in output_of("infer", "words.csv", fails=True)


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


def test_what_is_open_is_printed_and_kept_as_a_draft_until_it_is_answered(folder: Path) -> None:
    (folder / "buys.csv").write_text("customer_id,at,amount\nc1,2024-11-05T10:00:00Z,1.50\nc2,2024-11-05T10:00:00Z,2.00\n")
    text = output_of("infer", "buys.csv", fails=True)
    assert "Which columns identify a record?" in text
    assert "--answer 'primary_key=customer_id,at'" in text
    assert sorted(file.name for file in (folder / "contracts").iterdir()) == ["buys.yaml.draft", "buys_daily.yaml.draft"]
    assert "no field is called typo" in output_of("infer", "buys.csv", "--answer", "primary_key=typo", fails=True)
    assert "? Which columns identify a record? --yes took customer_id,at" in output_of("infer", "buys.csv", "--yes")
    assert "--yes took the default: customer_id,at" in (folder / "contracts" / "buys.yaml").read_text()
    assert sorted(file.name for file in (folder / "contracts").iterdir()) == ["buys.yaml", "buys_daily.yaml"]
    (folder / "contracts" / "buys.yaml").unlink()
    (folder / "contracts" / "buys_daily.yaml").unlink()
    output_of("infer", "buys.csv", "--answer", "primary_key=customer_id")
    assert "primary_key: [customer_id]" in (folder / "contracts" / "buys.yaml").read_text()


def test_the_defaults_are_printed_marked_and_sound(folder: Path) -> None:
    at = "2024-11-05T10:00:00+01:00"
    (folder / "till.csv").write_text(f"at,item,amount\n{at},tea,1.50\n{at},tea,1.50\n{at},cake,2.00\n")
    text = output_of("infer", "till.csv", "--yes")
    assert f"When does a day begin? The times of at have an offset, as in {at}. --yes took Europe/Berlin" in text
    assert "which records are one? --yes took each" in text
    written = (folder / "contracts" / "till.yaml").read_text()
    assert "# ? --yes took the default: each" in written
    assert "# ? --yes took the default: Europe/Berlin" in written
    assert "source till, 3 fields" in output_of("contract", "check", "contracts/till.yaml", "contracts/till_daily.yaml")


def test_a_broken_contract_of_another_source_is_told_and_left_out(folder: Path) -> None:
    output_of("init")
    (folder / "contracts" / "flow.yaml").write_text("dataset: flow\nsource: {landing: nowhere}\n")
    (folder / "contracts" / "flow_daily.yaml").write_text(
        "metric: flow_daily\nsource: flow\nmeasures: [{name: n, sql: count(*), type: long}]\n"
    )
    other = output_of("run", "orders", "lost.csv", fails=True)
    assert "left out: contracts/flow.yaml" in other
    assert "lost.csv: there is no such file" in other
    broken = output_of("run", "flow", "lost.csv", fails=True)
    assert "contracts/flow.yaml:" in broken
    assert "no contract has 'dataset: flow'" not in broken


def shape(command: Any) -> tuple[Any, ...]:
    """The options and arguments of a command, and its commands."""
    parameters = [(one.name, one.opts, one.required, one.default) for one in command.params]
    return command.help, parameters, {name: shape(one) for name, one in getattr(command, "commands", {}).items()}


def test_a_command_is_built_alone_as_it_is_among_all() -> None:
    everything = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for name, command in everything.items():
        alone = typer.main.get_command(called([name, "--help"])).commands  # type: ignore[attr-defined]
        assert {one: shape(built) for one, built in alone.items()} == {name: shape(command)}
    for words in ([], ["--help"], ["nothing"], ["--version", "run"]):
        assert called(words) is app
