"""``lakehouse gold`` for windows of a day as people type it: one window, its history, and names that there are not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import yaml
from typer.testing import CliRunner

from lakehouse.cli.program import app
from lakehouse_tests.support.united_lake import metric
from lakehouse_tests.support.windowed_lake import SESSIONS, SLIDING, TUMBLING, Event, WindowedLake

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result


@pytest.mark.merge
@pytest.mark.spark
def test_a_window_has_a_name_and_a_history_of_its_own(lake, spark, tmp_path: Path, monkeypatch) -> None:
    sample = WindowedLake(lake, spark, [metric(definition) for definition in (TUMBLING, SLIDING, SESSIONS)])
    # The hour between 02:00 and 03:00 comes twice on 2024-10-27; minutes count from 2024-10-25.
    twice = 2 * 24 * 60 + 2 * 60
    sample.send(Event("a", twice + 10), Event("b", twice + 70, 2), Event("c", twice + 600, 5))
    sample.send(Event("late", twice + 80, 10))
    sample.send(Event("d", twice + 601, 7))
    contracts = tmp_path / "contracts"
    contracts.mkdir()
    orders = sample.sources["orders"].model_dump(mode="json", exclude_none=True, exclude_unset=True)
    (contracts / "orders.yaml").write_text(yaml.safe_dump(orders))
    for definition in sample.metrics:
        written = definition.model_dump(mode="json", exclude_none=True, exclude_unset=True, by_alias=False)
        (contracts / f"{definition.name}.yaml").write_text(yaml.safe_dump(written))
    monkeypatch.setenv("LAKEHOUSE_ROOT", lake.root)
    monkeypatch.setenv("LAKEHOUSE_CONTRACTS", str(contracts))

    def run(*arguments: str, code: int = 0) -> Result:
        result = CliRunner().invoke(app, ["gold", *arguments], env={"COLUMNS": "300"})
        assert result.exit_code == code, result.output
        return result

    first, second = "2024-10-27T02+02:00", "2024-10-27T02+01:00"
    shown = run("show", "hourly", second).output
    assert "hourly_v2024-10-27.r2" in shown, "the version that changed the window last"
    assert f"  window_start {second}  total 12  row_count 2\n" in shown
    assert first not in shown
    assert f"  window_start {first}  total 1  row_count 1\n" in run("show", "hourly", "2024-10-27").output
    assert "nothing in the window 2024-10-27T20" in run("show", "hourly", "2024-10-27T20").output

    then = run("show", "hourly", second, "--known-at", "2024-10-31T12:00:30Z").output
    assert f"  window_start {second}  total 2  row_count 1\n" in then
    assert first not in then

    def revisions(metric: str, window: str) -> list[int]:
        return [json.loads(line)["revision"] for line in run("history", metric, window, "--json").output.splitlines()]

    assert revisions("hourly", "2024-10-27") == [1, 2, 3]
    assert revisions("hourly", first) == [1]
    assert revisions("hourly", second) == [1, 2]
    assert revisions("hourly", "2024-10-27T11") == [1, 3]
    assert revisions("sliding", "2024-10-27T01") == [1]

    session = "2024-10-27T02:10+02:00"
    assert (
        f"  window_start {session}  user u  sessions 1  total 13  minutes 70  row_count 3\n"
        in run("show", "sessions", session).output
    )
    assert revisions("sessions", session) == [1, 2]
    assert "name it with an offset" in " ".join(run("show", "sessions", "2024-10-27T02:10", code=2).output.split())
    assert revisions("sliding", "2024-10-27T01:30") == [1, 2]
    assert "total: 2 -> 12 (+10, +500.00 %)" in run("history", "hourly", second).output
    assert (
        "no window starts at 2024-10-27T02: there are 2024-10-27T02+02:00, 2024-10-27T02+01:00"
        in run("show", "hourly", "2024-10-27T02", code=2).output
    )
    assert (
        "nothing of hourly has been published for 2024-10-27T20"
        in f"{run('history', 'hourly', '2024-10-27T20', code=1).exception}"
    )
    whole, window = (json.loads(run("compare", "hourly", name, "r1", "r3", "--json").output) for name in ("2024-10-27", second))
    assert len(whole["changes"]) > len(window["changes"])
    assert [change["grain"] for change in window["changes"]] == [{"window_start": second}]
    signed = ("--by", "anna", "--reason", "test")
    for command, *options in (
        ("revert", "--to", "r1", *signed),
        ("release", *signed),
        ("close", *signed),
        ("publish", "--revision", "r2", *signed),
        ("drop", "--revision", "r2", *signed),
    ):
        refused = run(command, "hourly", "2024-10-27T11", *options, code=2).output
        assert "'2024-10-27T11' is no period" in refused, "what concerns a whole day is not done for a window's name"
    assert revisions("hourly", "2024-10-27") == [1, 2, 3]
