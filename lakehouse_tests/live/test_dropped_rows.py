"""The rows that a stream has dropped as late, by the batches on record. No Spark."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from typer.testing import CliRunner

from lakehouse.cli.program import app
from lakehouse.live import batches, dropped_rows
from lakehouse.live.batches import LiveBatch
from lakehouse_tests.support.arrivals import append_to_bronze, bronze_row
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.numbers_without_spark import metric

if TYPE_CHECKING:
    from pathlib import Path

    from lakehouse.lake import Lake

NOON = datetime(2024, 1, 15, 12, tzinfo=timezone.utc)
MINUTE = timedelta(minutes=1)
HOURLY = metric("hourly", window={"size": "PT1H"}, live=True)
SLIDING = metric("sliding", window={"size": "PT2H", "every": "PT1H"}, live=True)
DAILY = metric("daily", live=True)


def row(line: int, minutes: int, **columns: Any) -> dict[str, Any]:
    """A row of a file that arrived at noon, of an event so many minutes before."""
    known = {"ingestion_id": "file", "line_number": line, "record_key": f"k{line}", "source_file": "one.csv"}
    return {**bronze_row(NOON, minutes * MINUTE), **known, **columns}


def batch(name: str, number: int, lines: tuple[int, int], before: datetime | None, query: str = "q") -> LiveBatch:
    return LiveBatch(name, f"{query} of {name}", number, "file", *lines, before, None, 1, NOON + number * MINUTE)


@pytest.fixture(name="streamed")
def _lake(lake: Lake) -> Lake:
    rows = [row(2, 5), row(3, 130), row(4, 70), row(5, 130), row(6, 61), row(7, 185)]
    rows += [row(8, 300, change_op="correct"), row(9, 300, malformed_reason="no amount"), row(10, 300), row(11, 2000)]
    append_to_bronze(lake, contract(), rows)
    for name in ("hourly", "sliding", "daily"):
        entries = [batch(name, 0, (2, 3), None), batch(name, 1, (4, 9), NOON - 60 * MINUTE), batch(name, 2, (11, 11), NOON)]
        for entry in entries:
            batches.record(lake, [entry])
    return lake


def dropped(lake: Lake, name: str, **which: Any) -> dict[str, list[str]]:
    definition = {one.name: one for one in (HOURLY, SLIDING, DAILY)}[name]
    rows = dropped_rows.dropped(lake, definition, contract(), **which).rows.to_pylist()
    return {entry["record_key"]: entry["windows"] for entry in rows}


def test_a_row_is_dropped_in_the_windows_that_had_ended_at_the_watermark_of_the_batch_before(streamed: Lake) -> None:
    """The first batch drops nothing; line 10 was read by no batch, a correction and a malformed row are not counted."""
    hourly = dropped(streamed, "hourly")
    assert hourly == {"k4": ["2024-01-15T10"], "k5": ["2024-01-15T09"], "k6": ["2024-01-15T10"], "k7": ["2024-01-15T08"]} | {
        "k11": ["2024-01-14T02"]
    }
    sliding = dropped(streamed, "sliding")
    assert sliding["k4"] == ["2024-01-15T09"], "the window from 10 to 12 is still open"
    assert sliding["k7"] == ["2024-01-15T07", "2024-01-15T08"]
    assert dropped(streamed, "daily") == {"k11": ["2024-01-14"]}


def test_what_was_read_is_counted_and_a_day_is_selected(streamed: Lake) -> None:
    found = dropped_rows.dropped(streamed, HOURLY, contract())
    assert (found.read, len(found.rows), found.share) == (7, 5, 5 / 7)
    (first,) = found.rows.filter(found.rows["record_key"].to_numpy() == "k4").to_pylist()
    assert (first["lateness_seconds"], first["watermark"], first["line_number"]) == (4200, NOON - 60 * MINUTE, 4)
    assert dropped(streamed, "hourly", day=date(2024, 1, 14)) == {"k11": ["2024-01-14T02"]}


def test_the_batches_of_an_earlier_checkpoint_do_not_count(streamed: Lake) -> None:
    batches.record(streamed, [batch("hourly", 9, (2, 11), None, "another")])
    assert dropped(streamed, "hourly") == {}


def test_without_a_stream_nothing_was_dropped(lake: Lake) -> None:
    assert dropped_rows.dropped(lake, HOURLY, contract()) == (0, dropped_rows.SCHEMA.empty_table())


def test_the_command_lists_them(streamed: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contracts = tmp_path / "contracts"
    contracts.mkdir()
    for name, definition in (("events", contract()), ("hourly", HOURLY), ("total", metric())):
        written = definition.model_dump(mode="json", exclude_none=True, exclude_unset=True, by_alias=False)
        (contracts / f"{name}.yaml").write_text(yaml.safe_dump(written))
    monkeypatch.setenv("LAKEHOUSE_ROOT", streamed.root)
    monkeypatch.setenv("LAKEHOUSE_CONTRACTS", str(contracts))

    def run(*words: str) -> str:
        done = CliRunner().invoke(app, ["late", *words], env={"COLUMNS": "300"})
        assert done.exit_code == 0, done.output
        return done.output

    text = run("hourly", "--live")
    assert "The stream of hourly has read 7 rows: 5 dropped as late, 71.43%." in text
    assert "not counted in 2024-01-15T10; row file:4" in text
    body = json.loads(run("hourly", "--live", "--window", "2024-01-15-10", "--json"))
    assert ([shown["record_key"] for shown in body["shown"]], body["dropped"], body["rows"]) == (["k4", "k6"], 5, 7)
    refused = CliRunner().invoke(app, ["late", "total", "--live"])
    assert refused.exit_code == 2
