"""``lakehouse lateness`` in this process: what it prints and decides, on a lake that delta-rs wrote. No Spark."""

from __future__ import annotations

import json
import shutil
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from lakehouse.cli.program import app
from lakehouse.contracts import load_catalog
from lakehouse.lake import Lake
from lakehouse.lateness import cutoff
from lakehouse.settings import Settings
from lakehouse_tests.support.tuned_source import arrive_daily

if TYPE_CHECKING:
    from pathlib import Path

CONTRACT = """\
dataset: events
primary_key: [id]
model: {fields: [{name: id, type: string}]}
clocks:
  event: at
  arrival: seen
  watermark: {strategy: bounded, max_lateness: PT1H, tuning: {auto: true, rows: 100, at_most: P2D}}
lateness:
  watermark: P7D
  beyond: quarantine
  tuning: {rows: 100}
changes: {op: op}
"""
PLAIN = CONTRACT[: CONTRACT.index("  watermark: {")].replace("events", "plain")
NOW = datetime(2024, 2, 11, tzinfo=timezone.utc)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
#: Of a hundred rows three are ten hours late, and one more is ahead of its arrival.
LAGS = [*[30 * MINUTE] * 97, *[10 * HOUR] * 3, -5 * MINUTE]
REASON = "the tills of the whole north send at night, as was agreed with the shops in the meeting of February"
WHY = ("--by", "anna", "--reason", REASON)


@pytest.fixture(name="written", scope="module")
def _written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("written")
    (folder / "contracts").mkdir()
    for name, text in {"events": CONTRACT, "plain": PLAIN}.items():
        (folder / "contracts" / f"{name}.yaml").write_text(text)
    source = load_catalog(folder / "contracts").sources["events"]
    arrive_daily(Lake(Settings(root=str(folder / "lake"), now=NOW)), source, [date(2024, 2, day) for day in (9, 10)], LAGS)
    return folder


@pytest.fixture(name="folder")
def _folder(written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "deployment"
    shutil.copytree(written, folder)
    monkeypatch.setenv("LAKEHOUSE_ROOT", str(folder / "lake"))
    monkeypatch.setenv("LAKEHOUSE_CONTRACTS", str(folder / "contracts"))
    monkeypatch.setenv("LAKEHOUSE_NOW", NOW.isoformat())
    return folder


def run(*words: str, code: int = 0) -> list[str]:
    """The lines that a command prints, each whole: in a pipe no line is wrapped."""
    done = CliRunner().invoke(app, ["lateness", *words])
    assert done.exit_code == code, done.output
    return done.output.splitlines()


def as_json(*words: str) -> dict[str, Any]:
    return dict(json.loads("".join(run(*words, "--json"))))


@pytest.mark.usefixtures("folder")
def test_the_report_says_how_late_the_rows_came() -> None:
    lines = run("report", "events")
    assert lines[0] == "events, rows that arrived 2024-01-14 to 2024-02-10"
    assert lines[1] == ("  insert: 200 rows, 100.0% on time; p50 30 min, p90 30 min, p95 30 min, p99 10 h, p99.9 10 h, max 10 h")
    assert "  2 rows with an event ahead of its arrival left out" in lines
    assert "  dispositions: 202 applied" in lines


@pytest.mark.usefixtures("folder")
def test_the_report_as_json_has_the_lateness_of_the_rows_and_the_decisions() -> None:
    report = as_json("report", "events")
    (of_inserts,) = report["types"]
    assert (of_inserts["rows"], of_inserts["p50"], of_inserts["max"]) == (200, 1800, 36_000)
    assert (report["skewed"], report["decisions"]) == (2, [])
    assert [(line["hour"], line["rows"]) for line in report["by_event_hour"]] == [(13, 6), (22, 194)]


@pytest.mark.usefixtures("folder")
def test_the_watermark_names_the_delivery_that_moved_it_and_the_newest_one() -> None:
    assert run("watermark", "events") == [
        "events: everything before 2024-02-10 22:00:00 UTC is expected to have arrived (bounded)",
        "  moved there by arrival_date=2024-02-10.csv, which arrived 2024-02-10 23:00:00 UTC",
        "  newest arrival: arrival_date=2024-02-10.csv, 2024-02-10 23:00:00 UTC",
        "  2 rows had an event ahead of its arrival",
    ]
    shown = as_json("watermark", "events")
    assert (shown["deliveries"], shown["newest_arrival"]) == (2, "2024-02-10T23:00:00+00:00")
    (nothing,) = run("watermark", "events", "--at", "2024-02-01")
    assert nothing == "events: nothing is expected to be complete (bounded)"
    assert "The contract of plain has no event-time watermark" in run("watermark", "plain", code=1)[0]


def test_a_cutoff_is_the_proposed_one_or_the_one_that_is_named(folder: Path) -> None:
    file = folder / "contracts" / "events.yaml"
    why = ("--by", "anna", "--reason", "p99")
    (proposed,) = run("apply", "events", *why, "--since", "2024-03-01")
    assert proposed == (
        f"{file}: the cutoff is 10 h for rows that arrive from 2024-03-01 on. Dagster and the API read it when they start again."
    )
    (named,) = run("apply", "events", *why, "--since", "2024-03-02", "--cutoff", "P5D")
    assert "the cutoff is 5 d for rows that arrive from 2024-03-02 on" in named
    of_lake = cutoff.of(Lake(Settings(root=str(folder / "lake"))), "events")
    assert [(entry.since.day, entry.seconds) for entry in of_lake] == [(1, 36_000), (2, 432_000)]


def test_a_contract_that_cannot_be_written_is_named_in_one_line(folder: Path) -> None:
    (folder / "contracts" / "events.new").mkdir()
    (line,) = run("apply", "events", *WHY, code=1)
    assert line.startswith(f"{folder / 'contracts' / 'events.yaml'} cannot be written, and was left as it is: ")
    assert cutoff.of(Lake(Settings(root=str(folder / "lake"))), "events") == []


@pytest.mark.usefixtures("folder")
def test_max_lateness_changes_only_when_a_person_applies_the_proposal() -> None:
    proposed = ["events: max_lateness is 1 h (the contract's value)", "  tunes itself by at most 25% a day, within 0 s and 2 d"]
    shown = run("tune", "events")
    assert shown[:2] == proposed
    assert shown[2].startswith("  proposed: 10 h (warn)")
    assert run("tune", "events")[:2] == proposed, "what is shown changes nothing"
    assert run("tune", "events", "--apply", *WHY) == ["events: applied by anna: 1 h -> 10 h, for what arrives from now on."]
    run("pin", "events", *WHY)
    assert run("tune", "events")[:2] == [
        "events: max_lateness is 10 h (the contract says 1 h)",
        f"  pinned by anna on 2024-02-11 00:00:00 UTC: {REASON}",
    ]
