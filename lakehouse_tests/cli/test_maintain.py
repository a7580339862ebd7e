"""``lakehouse admin maintain`` as people type it: what it prints, and what it refuses. None starts Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from lakehouse.delta import row_writer
from lakehouse.lake import Table
from lakehouse_tests.support.forked_cli import lakehouse_command


def many_files(folder: Path) -> Path:
    path = folder / "lake" / "ops" / "sales_keys"
    for number in range(12):
        row_writer.append(Table(f"{path}"), pa.table({"record_key": [f"{number}"]}))
    return path


def files(path: Path) -> set[Path]:
    return {file for file in path.rglob("*") if file.is_file()}


@pytest.mark.merge
def test_a_dry_run_reports_what_the_next_run_does(tmp_path: Path) -> None:
    path = many_files(tmp_path)
    before = files(path)
    said = lakehouse_command(tmp_path, "maintain", "--dry-run")
    assert said.returncode == 0
    assert "What would be done" in said.stdout
    assert "12 → 1" in said.stdout
    assert "1 table, 0 B to free." in said.stdout
    assert files(path) == before
    done = lakehouse_command(tmp_path, "maintain")
    assert "12 → 1" in done.stdout
    assert "ops/sales_keys: 12 unused files stay: for active readers and writers (168 h)." in done.stdout
    assert "12 → 1" not in lakehouse_command(tmp_path, "maintain").stdout
    assert len(Table(f"{path}").read()) == 12


def test_as_json(tmp_path: Path) -> None:
    many_files(tmp_path)
    done = lakehouse_command(tmp_path, "maintain", "--table", "ops/sales_keys", "--json")
    told = json.loads(done.stdout)
    assert (told["table"], told["files_before"], told["files_after"], told["problem"]) == ("ops/sales_keys", 12, 1, None)
    assert "(168 h)" in told["kept"][0]


def test_wrong_requests_are_refused_in_a_sentence(tmp_path: Path) -> None:
    for asked, why in (
        (("--retention-hours", "24"), "24 hours are less than the 168 for which readers and writers may use files"),
        (("--table", "silver/slaes"), "no contract describes silver/slaes; known are bronze/earthquakes, "),
    ):
        refused = lakehouse_command(tmp_path, "maintain", *asked)
        assert refused.returncode == 2
        assert why in refused.stderr
    assert lakehouse_command(tmp_path, "maintain").stdout == "There is no table yet.\n"


def test_less_is_allowed_where_the_settings_say_so(tmp_path: Path) -> None:
    path = many_files(tmp_path)
    before = len(files(path))
    done = lakehouse_command(tmp_path, "maintain", LAKEHOUSE_RETENTION_HOURS="1")
    assert "for active readers and writers (1 h)" in done.stdout
    assert len(files(path)) > before
    refused = lakehouse_command(tmp_path, "maintain", LAKEHOUSE_RETENTION_HOURS="0")
    assert refused.returncode != 0
    assert "retention_hours" in refused.stderr.lower()


def test_a_broken_table_ends_in_a_sentence_and_an_exit_code(tmp_path: Path) -> None:
    many_files(tmp_path)
    broken = tmp_path / "lake" / "ops" / "applications"
    row_writer.append(Table(f"{broken}"), pa.table({"source": ["sales"]}))
    (broken / "_delta_log" / f"{0:020}.json").write_text("no JSON")
    done = lakehouse_command(tmp_path, "maintain")
    assert done.returncode == 1
    assert "ops/applications: " in done.stderr
    assert "Traceback" not in done.stderr
    assert "12 → 1" in done.stdout
