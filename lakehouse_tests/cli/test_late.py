"""``lakehouse late`` as people type it: the counts of a metric, and its late rows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import yaml

from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.forked_cli import lakehouse_command
from lakehouse_tests.support.late_lake import LateLake, late, source
from lakehouse_tests.support.numbers_without_spark import without_spark
from lakehouse_tests.support.windowed_lake import SLIDING, TUMBLING, Event

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("deployment")
    terms = {"late_events": {"allowed_lateness": "PT5M", "action": "update"}}
    contracts = {"orders": source().model_dump(mode="json", by_alias=True, exclude_unset=True), "hourly": TUMBLING | terms}
    (folder / "contracts").mkdir()
    for name, content in {**contracts, "sliding": SLIDING}.items():
        (folder / "contracts" / f"{name}.yaml").write_text(yaml.safe_dump(content))
    with without_spark():
        sample = LateLake(lake_in(folder), None, [late(TUMBLING, "update")])
        sample.classify_at(0, Event("on time", 30), Event("next", 73))
        sample.classify_at(1, Event("within", 40), Event("later", 80))
        sample.classify_at(2, Event("beyond", 45))
    return folder


def run(folder: Path, *words: str) -> tuple[int, str]:
    done = lakehouse_command(folder, "late", *words)
    assert "Traceback" not in done.stderr
    return done.returncode, " ".join((done.stdout + done.stderr).split())


@pytest.mark.merge
def test_the_late_rows_of_a_metric_are_listed_with_the_counts(folder: Path) -> None:
    code, text = run(folder, "hourly")
    assert code == 0
    assert "hourly: 5 rows" in text
    assert "late_dropped │ 1 │ 20.00%" in text or "late_dropped 1 20.00%" in text
    assert "beyond at 2024-10-24 22:45:00 UTC: dropped_beyond_tolerance, side_output" in text
    assert "the watermark was at 2024-10-24 23:03:00 UTC" in text
    assert "2024-10-25T00 ended 2024-10-24 23:00:00 UTC" in text
    assert text.endswith("2 rows.")


@pytest.mark.merge
def test_a_day_a_window_and_dropped_rows_are_selected(folder: Path) -> None:
    shown = json.loads(lakehouse_command(folder, "late", "hourly", "--window", "2024-10-25T00", "--dropped", "--json").stdout)
    assert [row["record_key"] for row in shown["shown"]] == ["beyond"]
    assert (shown["on_time"], shown["late_accepted_rate"]) == (3, 0.2)
    assert run(folder, "hourly", "--date", "2024-10-26")[1].endswith("no late rows")


def test_a_metric_that_counts_every_row_says_so(folder: Path) -> None:
    code, text = run(folder, "sliding")
    assert (code, text) == (2, "sliding counts every row, however late: its contract has no 'late_events'.")


def dropped(folder: Path) -> list[str]:
    shown = json.loads(lakehouse_command(folder, "late", "hourly", "--dropped", "--json").stdout)["shown"]
    return [f"{row['ingestion_id']}:{row['line_number']}" for row in shown]


@pytest.mark.merge
def test_a_steward_admits_a_row_and_takes_that_back(folder: Path) -> None:
    [beyond] = dropped(folder)
    signed = ("--by", "anna", "--reason", "the till was offline", "--no-restate")
    assert "pass --rows, --window or --all: one of the three" in run(folder, "admit", "hourly", *signed)[1]
    code, text = run(folder, "admit", "hourly", "--rows", beyond, *signed)
    assert (code, text) == (0, "1 row admitted by anna. The numbers follow with the next run of gold/hourly.")
    again = run(folder, "admit", "hourly", "--rows", beyond, *signed)[1]
    assert again.startswith("0 rows admitted by anna. 1 had been decided so before.")
    assert "dropped_beyond_tolerance, admit: admitted by anna: the till was offline" in run(folder, "hourly")[1]
    assert dropped(folder) == []
    assert run(folder, "withdraw", "hourly", "--window", "2024-10-25T00", *signed)[1].startswith("1 row withdrawn by anna.")
    assert dropped(folder) == [beyond]
