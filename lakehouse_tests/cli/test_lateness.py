"""``lakehouse lateness`` as people type it: what is measured, proposed and applied."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from lakehouse.contracts import load_catalog
from lakehouse.dispositions.admission import judge
from lakehouse.lake import Lake
from lakehouse.lateness import cutoff
from lakehouse.ledger.row_states import AdmissionStatus
from lakehouse.settings import Settings
from lakehouse_tests.support.api_client import write_source_rows
from lakehouse_tests.support.forked_cli import lakehouse_command

if TYPE_CHECKING:
    from pathlib import Path

CONTRACT = """# events of a shop
dataset: events
primary_key: [id]
model: {fields: [{name: id, type: string}]}
clocks: {event: at, arrival: seen}
lateness:
  watermark: P7D      # agreed with the shop
  beyond: quarantine
  tuning: {rows: 100}
changes: {op: op}
"""
NOON = datetime(2024, 2, 1, 12, tzinfo=timezone.utc)


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    """A hundred rows: the n-th came n hours late."""
    (tmp_path / "contracts").mkdir()
    (tmp_path / "contracts" / "events.yaml").write_text(CONTRACT)
    lake = Lake(Settings(root=str(tmp_path / "lake")))
    source = load_catalog(tmp_path / "contracts").sources["events"]
    rows = [(f"{hours}", NOON, NOON + timedelta(hours=hours), "insert", "admitted") for hours in range(1, 101)]
    write_source_rows(lake, source, rows)
    return tmp_path


def apply(folder: Path, *more: str) -> tuple[int, str]:
    done = lakehouse_command(folder, "lateness", "apply", "events", "--by", "anna", "--reason", "p99 of February", *more)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


@pytest.mark.merge
def test_what_is_applied_holds_from_its_day_on_and_is_recorded(folder: Path) -> None:
    report = lakehouse_command(folder, "lateness", "report", "events")
    assert report.returncode == 0, report.stderr
    assert "insert: 100 rows, 24.0% on time; p50 2 d 2 h, p90 3 d 18 h, p95 3 d 23 h, p99 4 d 3 h" in report.stdout
    proposed = lakehouse_command(folder, "lateness", "propose", "events")
    assert "events: cutoff 7 d -> 4 d 3 h" in proposed.stdout
    assert "a cutoff of 2 d catches 48.00%" in proposed.stdout
    as_json = json.loads(lakehouse_command(folder, "lateness", "propose", "events", "--json").stdout)
    assert (as_json["verdict"], as_json["current"], as_json["watermark"]) == ("lower", 7 * 86_400, 99 * 3600)

    code, output = apply(folder, "--since", "2024-02-06")
    assert code == 0, output
    assert "the cutoff is 4 d 3 h for rows that arrive from 2024-02-06 on" in output
    text = (folder / "contracts" / "events.yaml").read_text()
    assert text == CONTRACT.replace(
        "  tuning: {rows: 100}\n", "  tuning: {rows: 100}\n  changes:\n    - {since: 2024-02-06, cutoff: PT99H}\n"
    )
    bounds = load_catalog(folder / "contracts").sources["events"].lateness
    five_days = timedelta(days=5)
    before, after = (judge(five_days, bounds.as_of("insert", date(2024, 2, day)), [], {}) for day in (5, 6))
    assert (before.status, after.status) == (AdmissionStatus.ADMITTED, AdmissionStatus.QUARANTINED)
    (moved,) = cutoff.of(Lake(Settings(root=str(folder / "lake"))), "events")
    assert (moved.seconds_before, moved.seconds, moved.since, moved.by) == (7 * 86_400, 99 * 3600, date(2024, 2, 6), "anna")
    assert json.loads(moved.evidence)[0] == {"watermark": 30, "share": 0}
    assert {"watermark": 3600, "share": 0.01} in json.loads(moved.evidence)

    again, output = apply(folder)
    assert (again, "cutoff 4 d 3 h stays; nothing was changed" in output) == (0, True), output
    assert (folder / "contracts" / "events.yaml").read_text() == text
    told = lakehouse_command(folder, "lateness", "report", "events").stdout
    assert "anna: cutoff 7 d -> 4 d 3 h from 2024-02-06 on: p99 of February" in told


@pytest.mark.merge
def test_what_was_applied_is_not_asked_for_again_while_the_source_is_silent(folder: Path) -> None:
    """It applies from tomorrow on, which is long after the newest arrival."""
    assert apply(folder)[0] == 0
    text = (folder / "contracts" / "events.yaml").read_text()
    again, said = apply(folder)
    assert (again, "cutoff 4 d 3 h stays; nothing was changed" in said) == (0, True), said
    assert (folder / "contracts" / "events.yaml").read_text() == text
    assert len(cutoff.of(Lake(Settings(root=str(folder / "lake"))), "events")) == 1
    assert "events: cutoff 4 d 3 h stays" in lakehouse_command(folder, "lateness", "propose", "events").stdout


@pytest.mark.merge
def test_a_contract_that_cannot_be_written_leaves_no_decision_behind(folder: Path) -> None:
    in_the_way = folder / "contracts" / "events.new"
    in_the_way.mkdir()
    code, said = apply(folder)
    assert code == 1
    assert "events.yaml cannot be written" in " ".join(said.split())
    assert cutoff.of(Lake(Settings(root=str(folder / "lake"))), "events") == []
    in_the_way.rmdir()
    assert apply(folder)[0] == 0
    assert len(cutoff.of(Lake(Settings(root=str(folder / "lake"))), "events")) == 1
    assert [one.name for one in (folder / "contracts").iterdir()] == ["events.yaml"]


def test_rows_that_have_been_judged_stay_as_they_are(folder: Path) -> None:
    code, said = apply(folder, "--since", "2024-02-05")
    assert code == 2
    assert "rows that arrived on 2024-02-05 have been judged" in " ".join(said.replace("│", " ").split())
    assert (folder / "contracts" / "events.yaml").read_text() == CONTRACT


def test_another_watermark_than_is_proposed_and_only_printed(folder: Path) -> None:
    code, said = apply(folder, "--watermark", "P5D", "--since", "2024-03-01", "--print")
    assert code == 0
    assert "    - {since: 2024-03-01, cutoff: P5D}\n" in said
    assert (folder / "contracts" / "events.yaml").read_text() == CONTRACT
    assert [one.seconds for one in cutoff.of(Lake(Settings(root=str(folder / "lake"))), "events")] == [5 * 86_400]


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        (("--watermark", "soon"), 2, "'soon' is not a duration; write P3D or PT36H"),
        (("--event-type", "refund"), 2, "no separate bounds for 'refund'"),
        (("--since", "2024-02-05"), 2, "have been judged"),
    ],
)
def test_a_watermark_that_cannot_be_applied_is_refused(folder: Path, more: tuple[str, ...], code: int, message: str) -> None:
    done, output = apply(folder, *more)
    assert (done, message in " ".join(output.replace("│", " ").split())) == (code, True), output
    assert (folder / "contracts" / "events.yaml").read_text() == CONTRACT


def test_a_bundled_contract_is_not_touched(tmp_path: Path) -> None:
    nothing = lakehouse_command(tmp_path, "lateness", "report", "sales")
    assert (nothing.returncode, nothing.stderr.strip()) == (1, "Nothing of sales has arrived.")
    sales = load_catalog(None).sources["sales"]
    rows = [(f"{hours}", NOON, NOON + timedelta(hours=hours % 60), "insert", "admitted") for hours in range(600)]
    write_source_rows(Lake(Settings(root=str(tmp_path / "lake"))), sales, rows)
    done = lakehouse_command(tmp_path, "lateness", "apply", "sales", "--by", "anna", "--reason", "x")
    assert done.returncode == 1
    assert "The contract of sales is not in contracts: put a copy there" in done.stderr
    assert cutoff.of(Lake(Settings(root=str(tmp_path / "lake"))), "sales") == []
