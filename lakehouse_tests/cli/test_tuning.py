"""``lakehouse lateness tuning``, ``tune``, ``pin``, ``unpin``, ``undo`` as people type them, and the report by hour and tier."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.contracts import load_catalog
from lakehouse.lake import Lake
from lakehouse.settings import Settings
from lakehouse_tests.support.forked_cli import lakehouse_command
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
  watermark:
    strategy: bounded
    max_lateness: PT1H
    tuning: {auto: true, rows: 100, at_most: P2D}
lateness:
  tiers: [{within: PT1H, serves: live}, {within: P1D, serves: daily numbers}]
changes: {op: op}
"""
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
WHY = ("--by", "anna", "--reason", "the tills send at night")


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    """Ten days of rows that arrive at 23:00: of a hundred three are ten hours late, and one more is ahead of its arrival."""
    (tmp_path / "contracts").mkdir()
    (tmp_path / "contracts" / "events.yaml").write_text(CONTRACT)
    without = CONTRACT[: CONTRACT.index("  watermark:")].replace("events", "plain")
    (tmp_path / "contracts" / "plain.yaml").write_text(without)
    source = load_catalog(tmp_path / "contracts").sources["events"]
    lake = Lake(Settings(root=str(tmp_path / "lake"), now=datetime(2024, 2, 11, tzinfo=timezone.utc)))
    days = [date(2024, 2, day) for day in range(1, 11)]
    arrive_daily(lake, source, days, [*[30 * MINUTE] * 97, *[10 * HOUR] * 3, -5 * MINUTE])
    return tmp_path


def run(folder: Path, *words: str) -> tuple[int, str]:
    done = lakehouse_command(folder, "lateness", *words)
    assert "Traceback" not in done.stderr
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def as_json(folder: Path, *words: str) -> Any:
    return json.loads(lakehouse_command(folder, "lateness", *words, "--json").stdout)


@pytest.mark.merge
def test_what_is_in_force_is_shown_with_the_alternatives(folder: Path) -> None:
    code, text = run(folder, "tuning", "events")
    assert code == 0, text
    assert "events: max_lateness is 1 h (the contract's value)" in text
    assert "tunes itself by at most 25% a day, within 0 s and 2 d" in text
    assert "proposed: 10 h (warn): 99.0% of 1,000 rows came within 10 h; 1 h catches 97.00%" in text
    assert "all: 1,000 rows; p50 30 min, p90 30 min, p95 30 min, p99 10 h, p99.9 10 h, max 10 h" in text
    assert "10 rows with an event ahead of its arrival left out" in text
    assert "30 s 0.00% 23 h 1" in text, "a file a day passes the end of a day at 23:00 of the next"
    assert "30 d 100.00% - 31" in text
    shown = as_json(folder, "tuning", "events")
    assert (shown["max_lateness_seconds"], shown["recommendation"]["next_step_seconds"]) == (3600, 4500)
    lines = {line["max_lateness_seconds"]: line for line in shown["recommendation"]["trade_offs"]}
    assert (lines[3600]["share"], lines[36_000]["share"], lines[30 * 86_400]["open_days"]) == (0.97, 1, 31)


@pytest.mark.merge
def test_a_person_applies_pins_unpins_and_undoes(folder: Path) -> None:
    assert "proposed: 10 h (warn)" in run(folder, "tune", "events")[1]
    assert as_json(folder, "tuning", "events")["decisions"] == [], "only --apply changes anything"
    code, text = run(folder, "tune", "events", "--apply")
    assert (code, "needs a name (--by) and a reason (--reason)" in text) == (1, True), text
    assert run(folder, "tune", "events", "--apply", *WHY) == (
        0,
        "events: applied by anna: 1 h -> 10 h, for what arrives from now on.",
    )
    assert "anna: 1 h -> 10 h: the tills send at night" in run(folder, "tuning", "events")[1]
    assert (folder / "contracts" / "events.yaml").read_text() == CONTRACT, "no file is edited"
    assert "pinned by anna: 10 h -> 12 h" in run(folder, "pin", "events", "--at", "PT12H", *WHY)[1]
    code, text = run(folder, "tune", "events", "--apply", *WHY)
    assert (code, "12 h is pinned by anna" in text) == (1, True), text
    assert "unpinned by anna at 12 h" in run(folder, "unpin", "events", *WHY)[1]
    assert "undone by anna: 12 h -> 10 h" in run(folder, "undo", "events", *WHY)[1]
    shown = as_json(folder, "tuning", "events")
    assert (shown["max_lateness_seconds"], shown["pinned"]["kind"]) == (36_000, "undone")
    assert "pinned by anna on " in run(folder, "tuning", "events")[1]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("pin", "events", "--at", "soon", *WHY), 2, "'soon' is not a duration"),
        (("unpin", "events", *WHY), 1, "1 h of events is not pinned"),
        (("undo", "events", *WHY), 1, "there is nothing to undo"),
        (("tuning", "plain"), 1, "clocks.watermark of plain has no max_lateness"),
        (("tuning", "nothing"), 2, "No contract has 'dataset: nothing'"),
    ],
)
def test_what_cannot_be_done_is_refused(folder: Path, words: tuple[str, ...], code: int, message: str) -> None:
    done, text = run(folder, *words)
    assert (done, message in text.replace("│ ", "")) == (code, True), text


@pytest.mark.merge
def test_the_report_has_tiers_hours_and_skewed_rows(folder: Path) -> None:
    text = run(folder, "report", "events", "--by-hour", "event")[1]
    assert "tier 1 h (live): 30 rows later, 3.00%" in text
    assert "tier 1 d (daily numbers): 0 rows later, 0.00%" in text
    assert "by hour of the event (UTC): 13: 30 rows; p50 10 h, p90 10 h, p99 10 h, max 10 h 22: 970 rows; p50 30 min" in text
    assert "10 rows with an event ahead of its arrival left out" in text
    report = as_json(folder, "report", "events")
    assert [(line["hour"], line["rows"], line["p99"]) for line in report["by_event_hour"]] == [(13, 30, 36_000), (22, 970, 1800)]
    assert [(line["hour"], line["rows"]) for line in report["by_arrival_hour"]] == [(23, 1000)]
    assert (report["skewed"], [tier["beyond"] for tier in report["tiers"]]) == (10, [30, 0])


def test_a_proposal_has_its_severity(folder: Path) -> None:
    assert "info: 99.0% of 1,000 rows came within 10 h; none is in force" in " ".join(run(folder, "propose", "events")[1].split())
