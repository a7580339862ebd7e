"""Commands that update numbers name the files that they do not ingest, and end with 1. No Spark: no row arrives."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from lakehouse_tests.support.forked_cli import lakehouse_command

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SOURCE = """
dataset: flow
primary_key: [id]
source: {format: csv, landing: "{arrival_date}/*.csv", start_date: 2024-11-01}
clocks: {event: at, start_date: 2024-11-01}
model:
  fields:
    - {name: id, type: string, required: true}
    - {name: at, type: date, required: true}
"""
DAY = "2024-11-05"


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    (tmp_path / "contracts").mkdir()
    (tmp_path / "contracts" / "flow.yaml").write_text(SOURCE)
    return tmp_path


def deliver(folder: Path, name: str, text: str = "id,at\n") -> None:
    file = folder / "lake" / "landing" / "flow" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def replay(folder: Path, *options: str, before: Callable[[], None] | None = None) -> tuple[int, str, str]:
    environment = {"LAKEHOUSE_CONTRACTS": "contracts", "LAKEHOUSE_BUNDLED_CONTRACTS": "false"}
    done = lakehouse_command(folder, "replay", "flow", *options, before=before, **environment)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


def deny_files() -> None:
    """No file of landing can be read: root may read any file, so that its mode does not matter."""
    from lakehouse.bronze import landing  # noqa: PLC0415

    def denied(*arguments: object, **_: object) -> None:
        raise PermissionError(13, "Permission denied", arguments[-1])

    landing.open_file = denied  # type: ignore[assignment]


def test_a_replay_names_the_files_that_it_leaves(folder: Path) -> None:
    deliver(folder, f"{DAY}/a.csv")
    code, out, err = replay(folder, before=deny_files)
    assert code == 1, out
    assert f"left for now: {DAY}/a.csv: it cannot be read (Permission denied)" in err
    assert "1 arrival days, 0 rows in Bronze; 1 left for now (being written, or not readable)." in out
    code, out, _ = replay(folder, "--json", before=deny_files)
    assert json.loads(out)["left"] == [f"{DAY}/a.csv: it cannot be read (Permission denied)"]
    assert code == 1
    assert replay(folder)[0] == 0, "nothing is left"


def run(folder: Path, text: str, *command: str) -> tuple[int, str]:
    """Run a file of a day, or another command."""
    (folder / "flow.csv").write_text(text)
    environment = {"LAKEHOUSE_CONTRACTS": "contracts", "LAKEHOUSE_BUNDLED_CONTRACTS": "false"}
    done = lakehouse_command(folder, *(command or ("run", "flow", "flow.csv")), **environment)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.merge
@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_file_that_was_held_and_then_mended_holds_nothing(folder: Path) -> None:
    broken = "id\na\n"
    code, text = run(folder, broken)
    assert (code, "held: " in text, "column at" in text) == (1, True, True), text
    code, text = run(folder, "id,at\na,2024-11-04\n")
    assert (code, "held" in text) == (0, False), text
    assert "1 row ingested" in text
    (folder / "flow.csv").rename(folder / "other.csv")
    assert run(folder, broken)[0] == 1
    [held] = [file for file in (folder / "lake" / "landing" / "flow").rglob("*.csv") if file.read_text() == broken]
    name = f"{held.relative_to(folder / 'lake' / 'landing' / 'flow')}"
    code, text = run(folder, broken, "quarantine", "give-up", "flow", name, "--by", "anna", "--reason", "sent by mistake")
    assert (code, text.strip().endswith("is given up by anna: sent by mistake")) == (0, True), text
    code, text = run(folder, broken, "replay", "flow")
    assert code == 0, text


def deny_folders() -> None:
    """No folder of an arrival day can be read."""
    from lakehouse.bronze import landing  # noqa: PLC0415

    scan = os.scandir

    def scandir(path: str) -> object:
        if f"{path}".endswith(DAY):
            raise PermissionError(13, "Permission denied", path)
        return scan(path)

    landing.os.scandir = scandir  # type: ignore[assignment]


def test_a_replay_names_the_folders_that_it_cannot_read(folder: Path) -> None:
    deliver(folder, f"{DAY}/a.csv")
    code, _, err = replay(folder, before=deny_folders)
    assert code == 1
    assert f"left out: {DAY}/: the folder cannot be read, nor the files in it; let this user read it" in err


def test_a_replay_names_the_files_that_match_no_pattern(folder: Path) -> None:
    deliver(folder, f"{DAY}/a.csv")
    deliver(folder, f"{DAY}/_SUCCESS")
    assert replay(folder)[0] == 0
    deliver(folder, "20241106/a.csv")
    code, _, err = replay(folder)
    assert code == 1
    wanted = "left out: 20241106/a.csv: its name does not match {arrival_date}/*.csv; rename it, or correct source.landing"
    assert wanted in err
    assert "_SUCCESS" not in err


def test_a_replay_that_leaves_a_file_out_ends_with_1(folder: Path) -> None:
    deliver(folder, "2024-10-05/early.csv")
    for code, _, err in (replay(folder), replay(folder, "--from", DAY)):
        assert code == 1, "there is no other file"
        assert "left out: 2024-10-05/early.csv: arrival day 2024-10-05 lies before the first one" in err
    deliver(folder, f"{DAY}/a.csv")
    assert replay(folder)[0] == 1
