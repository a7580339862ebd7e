"""The commands as people type them: what they print, where, and the exit code. None of these starts Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse_tests.support.cli import BUNDLED_CONTRACTS, lakehouse_command


def test_sound_contracts_are_summed_up(tmp_path: Path) -> None:
    done = lakehouse_command(
        tmp_path, "contract", "check", str(BUNDLED_CONTRACTS / "sales.yaml"), str(BUNDLED_CONTRACTS / "revenue.yaml")
    )
    assert done.returncode == 0
    assert "sales.yaml: source sales, 4 fields, key sale_id" in done.stdout
    assert "revenue.yaml: metric revenue over sales, 3 measures" in done.stdout


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
