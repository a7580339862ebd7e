"""A number that waits, as people see it and close it: ``gold show``, ``gold close``, ``lateness watermark``."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from lakehouse.contracts import load_catalog
from lakehouse.lake import Lake
from lakehouse.ledger import ingestions
from lakehouse.ledger.ingestions import Ingestion
from lakehouse.settings import Settings
from lakehouse_tests.support.forked_cli import lakehouse_command
from lakehouse_tests.support.numbers_without_spark import ScriptedNumbers, day, without_spark

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = """dataset: events
primary_key: [id]
model: {fields: [{name: id, type: string}, {name: amount, type: int}]}
clocks: {event: at, arrival: seen, watermark: {strategy: bounded, max_lateness: PT6H}}
"""
METRIC = """metric: total
source: events
measures: [{name: total, sql: sum(amount), type: long, additive: true}]
publication: {final_after: 2}
"""
ARRIVED = datetime(2024, 1, 1, 23, tzinfo=timezone.utc)


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    """A published day, which the calendar closed long ago, of a source that fell silent on it."""
    (tmp_path / "contracts").mkdir()
    (tmp_path / "contracts" / "events.yaml").write_text(SOURCE)
    (tmp_path / "contracts" / "total.yaml").write_text(METRIC)
    lake, catalog = Lake(Settings(root=str(tmp_path / "lake"))), load_catalog(tmp_path / "contracts")
    delivery = Ingestion(
        *("events", "a", "a", day(1), "monday.csv", 1, None, "ingested", "run", ARRIVED),
        newest_arrival=ARRIVED,
        newest_event=ARRIVED - timedelta(hours=1),
        skewed=2,
    )
    ingestions.record(lake, delivery)
    with without_spark():
        numbers = ScriptedNumbers(lake, catalog.metrics["total"], source=catalog.sources["events"])
        numbers.set(1, 5)
        numbers.at(5)
        numbers.publish()
    return tmp_path


@pytest.mark.merge
def test_a_number_says_what_it_waits_for_until_somebody_closes_it(folder: Path) -> None:
    shown = lakehouse_command(folder, "gold", "show", "total", "2024-01-01")
    assert (
        "waits for: the watermark of events stands at 2024-01-01 16:00 UTC and has to pass 2024-01-02 00:00 UTC" in shown.stdout
    )
    closed = lakehouse_command(folder, "gold", "close", "total", "2024-01-01", "--by", "anna", "--reason", "the shop is closed")
    assert (closed.returncode, closed.stdout.strip()) == (0, "total_v2024-01-01.r2 is final, signed off by anna."), closed.stderr
    as_json = json.loads(lakehouse_command(folder, "gold", "show", "total", "2024-01-01", "--json").stdout)
    assert (as_json["state"], as_json["waiting_for"]) == ("final", [])
    history = lakehouse_command(folder, "gold", "history", "total", "2024-01-01").stdout
    assert "signed off by anna: the shop is closed (missing: the watermark of events stands at" in history
    again = lakehouse_command(folder, "gold", "close", "total", "2024-01-01", "--by", "anna", "--reason", "x")
    assert again.stdout.strip() == "total 2024-01-01 is final already; nothing was published."
    refused = lakehouse_command(folder, "gold", "close", "total", "2024-01-02", "--by", "anna", "--reason", "x")
    assert (refused.returncode, "nothing of total is published for 2024-01-02" in refused.stderr) == (1, True)
    assert "Traceback" not in refused.stderr


@pytest.mark.merge
def test_the_watermark_with_the_delivery_that_moved_it(folder: Path) -> None:
    shown = lakehouse_command(folder, "lateness", "watermark", "events").stdout
    assert shown.splitlines() == [
        "events: everything before 2024-01-01 16:00:00 UTC is expected to have arrived (bounded)",
        "  moved there by monday.csv, which arrived 2024-01-01 23:00:00 UTC",
        "  newest arrival: monday.csv, 2024-01-01 23:00:00 UTC",
        "  2 rows had an event ahead of its arrival",
    ]
    before = lakehouse_command(folder, "lateness", "watermark", "events", "--at", "2024-01-01T22:00:00Z")
    assert before.stdout.strip() == "events: nothing is expected to be complete (bounded)"
    as_json = json.loads(lakehouse_command(folder, "lateness", "watermark", "events", "--json").stdout)
    assert (as_json["watermark"], as_json["moved_by"]) == ("2024-01-01T16:00:00+00:00", "monday.csv")
    (folder / "contracts" / "events.yaml").write_text(SOURCE.replace(", watermark: {strategy: bounded, max_lateness: PT6H}", ""))
    without = lakehouse_command(folder, "lateness", "watermark", "events")
    assert (without.returncode, "add one under clocks.watermark" in without.stderr) == (1, True)
