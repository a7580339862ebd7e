"""The commands as people type them: what they print, where, and the exit code. None of these starts Spark."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from lakehouse_tests.support.cli import BUNDLED_CONTRACTS
from lakehouse_tests.support.contract_texts import LAKELOGIC
from lakehouse_tests.support.forked_cli import lakehouse_command


def test_sound_contracts_are_summed_up(tmp_path: Path) -> None:
    done = lakehouse_command(
        tmp_path, "contract", "check", str(BUNDLED_CONTRACTS / "sales.yaml"), str(BUNDLED_CONTRACTS / "revenue.yaml")
    )
    assert done.returncode == 0
    assert "sales.yaml: source sales, 4 fields, key sale_id" in done.stdout
    assert "revenue.yaml: metric revenue over sales, 3 measures" in done.stdout


def test_keys_for_another_tool_are_named(tmp_path: Path) -> None:
    (tmp_path / "seed.yaml").write_text(LAKELOGIC)
    done = lakehouse_command(tmp_path, "contract", "check", "seed.yaml")
    assert done.returncode == 0
    said = " ".join(done.stdout.split())
    assert "seed.yaml: without effect: materialization.strategy, materialization.target_path, materialization.format" in said


def test_each_mistake_of_a_contract_is_named_by_line_and_field(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(
        "dataset: readings\nprimary_key: [nothing]\nmodel:\n  fields:\n    - {name: id, type: strnig}\n    - {name: at}\n"
    )
    done = lakehouse_command(tmp_path, "contract", "check", "bad.yaml")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "bad.yaml:5: model.fields.0.type" in done.stderr
    assert "bad.yaml:6: model.fields.1.type" in done.stderr


def test_an_unknown_source_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    done = lakehouse_command(tmp_path, "replay", "slaes")
    assert done.returncode == 2
    assert "No contract has 'dataset: slaes'; known are earthquakes, sales." in done.stderr


def test_an_empty_landing_folder_is_no_error(tmp_path: Path) -> None:
    done = lakehouse_command(tmp_path, "replay", "sales")
    assert done.returncode == 0
    assert "matches arrival_date={arrival_date}*.csv" in done.stderr


@pytest.mark.parametrize("command", [("demo",), ("replay", "sales")])
def test_without_java_there_is_one_line_and_no_stack_trace(tmp_path: Path, command: tuple[str, ...]) -> None:
    landing = tmp_path / "lake" / "landing" / "sales"
    landing.mkdir(parents=True)
    header = "sale_id,store,sold_at,amount,customer_id,received_at,op,is_correction,corrects_sale_id"
    (landing / "arrival_date=2024-11-05.csv").write_text(
        f"{header}\n1,north,2024-11-05T10:00:00Z,9.50,1,2024-11-05T11:00:00Z,insert,false,\n"
    )
    done = lakehouse_command(tmp_path, *command, PATH="/nonexistent", JAVA_HOME="")
    assert done.returncode == 1
    assert "Java was not found: install a JDK 17 or 21 and put it on the PATH" in done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_the_help_groups_commands_by_task_and_hides_what_is_deprecated(tmp_path: Path) -> None:
    text = lakehouse_command(tmp_path, "--help").stdout
    panels = ["Get started", "Ingest and rebuild", "Rows", "Published numbers", "Operate"]
    places = [text.index(f"─ {panel}") for panel in panels]
    assert places == sorted(places)
    assert text.index(" replay ") > text.index("─ Ingest and rebuild")
    assert " promote " in text
    assert " moves " not in text


def test_the_help_loads_neither_arrow_nor_dagster_nor_contracts() -> None:
    heavy = {"pyarrow", "dagster", "pydantic", "yaml", "deltalake"}
    code = f"import sys, lakehouse.cli.program; print(*sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_the_version_is_that_of_the_package(tmp_path: Path) -> None:
    done = lakehouse_command(tmp_path, "--version")
    assert done.stdout == f"lakehouse {version('lakehouse')}\n"
    assert done.returncode == 0


@pytest.mark.parametrize("command", ["demo", "simulate"])
def test_a_missing_java_is_reported_before_anything_is_written(tmp_path: Path, command: str) -> None:
    empty = tmp_path / "bin"
    empty.mkdir()
    done = lakehouse_command(tmp_path, command, PATH=str(empty), JAVA_HOME=str(empty))
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == "Java was not found: install a JDK 17 or 21 and put it on the PATH (or set JAVA_HOME)\n"
    assert list(tmp_path.iterdir()) == [empty]
