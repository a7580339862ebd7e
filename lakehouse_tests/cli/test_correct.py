"""``lakehouse correct`` and ``change`` as stewards type them; nothing here is ingested."""

from __future__ import annotations

import json
import shutil
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from lakehouse import locations
from lakehouse.cli.program import app
from lakehouse.lake import Lake
from lakehouse.operations.changes import correction_record
from lakehouse.operations.changes.correction_record import CorrectionEvent, CorrectionEventKind, Operation
from lakehouse.settings import Settings
from lakehouse_tests.support.contract_texts import EVENTS_SOURCE

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(name="lake")
def _settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A deployment with a correction that waits for a second person."""
    (tmp_path / "contracts").mkdir()
    (tmp_path / "contracts" / "events.yaml").write_text(EVENTS_SOURCE)
    for name, value in {"ROOT": "lake", "CONTRACTS": "contracts"}.items():
        monkeypatch.setenv(f"LAKEHOUSE_{name}", str(tmp_path / value))
    monkeypatch.setenv("LAKEHOUSE_BUNDLED_CONTRACTS", "false")
    lake = Lake(Settings())
    event = CorrectionEvent(
        source="events",
        correction_id="abc123",
        kind=CorrectionEventKind.PROPOSED,
        record_key="a",
        operation=Operation.CORRECT,
        needed=2,
        by="anna",
        reason="typo",
        recorded_at=datetime(2024, 1, 9, tzinfo=timezone.utc),
        values={"amount": "12"},
        before={"amount": "10"},
    )
    correction_record.record(lake, event)
    return lake


def output_of(*arguments: str, fails: bool = False) -> str:
    done = CliRunner().invoke(app, list(arguments))
    assert (done.exit_code != 0) == fails, done.output
    text = " ".join(done.output.replace("│", "").split())
    return f"{text} {done.exception}" if fails else text


@pytest.mark.merge
def test_waiting_corrections_are_listed_and_rejected(lake: Lake) -> None:
    line = "2024-01-09 00:00 UTC correction abc123 of events: correct a: amount 10 -> 12 [pending] anna: typo"
    assert output_of("change", "list", "--pending") == line
    assert output_of("change", "list", "events", "--kind", "correction", "--by", "anna") == line
    assert output_of("change", "list", "--kind", "stage") == "No change of this kind."
    text = output_of("change", "show", "abc")
    assert text.startswith(line)
    assert "2024-01-09 00:00 proposed by anna: typo waits for 1 more person" in text
    told = json.loads(output_of("change", "list", "--json"))[0]
    assert (told["by"], told["state"], told["undo"]) == ("anna", "pending", None)
    assert "abc123 is rejected by ben." in output_of("change", "reject", "abc", "--by", "ben", "--reason", "no")
    assert output_of("change", "list", "--pending") == "No change of this kind."
    assert "rejected by ben: no" in output_of("change", "show", "abc123")
    assert "abc123 is cancelled: there is nothing to undo" in output_of(
        "change", "undo", "abc123", "--by", "ben", "--reason", "no", fails=True
    )


def test_without_any_change_the_list_says_so(lake: Lake) -> None:
    shutil.rmtree(locations.corrections(lake).address)
    shutil.rmtree(locations.journal(lake).address, ignore_errors=True)
    assert output_of("change", "list") == "Nobody has changed anything yet."


@pytest.mark.merge
def test_the_earlier_names_of_the_commands_still_work(lake: Lake) -> None:
    assert "abc123 correct a: amount 10 -> 12" in output_of("corrections", "list", "events")
    assert json.loads(output_of("corrections", "list", "events", "--json"))[0]["by"] == "anna"
    assert "abc123 is rejected by ben." in output_of("corrections", "reject", "events", "abc", "--by", "ben", "--reason", "no")
    assert output_of("corrections", "list", "events") == "No correction waits."


def test_mistakes_are_told_in_sentences(lake: Lake) -> None:
    who = ("--by", "anna", "--reason", "typo")
    assert "'amount' sets nothing; write a field and its value" in output_of(
        "correct", "events", "a", "--set", "amount", *who, fails=True
    )
    assert "--withdraw takes no --set and no --new" in output_of(
        "correct", "events", "a", "--withdraw", "--new", *who, fails=True
    )
    assert "silver/events has no row of z" in output_of("correct", "events", "z", "--set", "amount=1", *who, fails=True)
    unknown = output_of("corrections", "approve", "events", "zzz", *who, fails=True)
    assert "events: there is no correction zzz; open are abc123" in unknown
