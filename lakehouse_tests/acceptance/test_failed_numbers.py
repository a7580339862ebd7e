"""A number that cannot be computed: the command line names it, publishes all others, and goes on once the rows are corrected."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from lakehouse_tests.support.forked_cli import lakehouse_command

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark"), pytest.mark.merge]

SOURCE = """
dataset: visits
primary_key: [id]
source: {format: csv, landing: "{arrival_date}*.csv"}
clocks: {event: at, start_date: 2024-01-01}
changes: {op: op}
model:
  fields:
    - {name: id, type: string, required: true}
    - {name: at, type: timestamp, required: true}
    - {name: sessions, type: int, required: true}
    - {name: orders, type: int, required: true}
    - {name: amount, type: "decimal(18,2)", required: true}
"""
CONVERSION = """
metric: conversion
source: visits
measures:
  - {name: conversion, sql: "sum(orders) / sum(sessions)", type: double}
"""
REVENUE = """
metric: revenue
source: visits
measures:
  - {name: revenue, sql: sum(amount), type: "decimal(18,2)", additive: true}
publication: {rollups: [month]}
"""
HEADER = "id,at,sessions,orders,amount,op\n"
DAY = HEADER + ("a,2024-11-03T10:00:00Z,10,2,20.00,\nb,2024-11-04T10:00:00Z,0,0,0.00,\nc,2024-11-05T10:00:00Z,20,5,50.00,\n")
TYPO = HEADER + "d,2024-11-03T11:00:00Z,10,2,9999999999999999.99,\ne,2024-11-05T12:00:00Z,20,5,1.00,\n"
NOTHING_NEW = HEADER + "f,2024-11-06T12:00:00Z,1,1,1.00,\n"
MENDED = HEADER + "d,2024-11-03T11:00:00Z,10,2,9.99,\n"
REASON = (
    "revenue of 2024-11-03 cannot be computed (measure revenue: sum(amount) as decimal(18,2)): 10000000000000019.99 cannot be "
    "represented as Decimal(18, 2)"
)


def test_the_day_is_held_by_name_while_the_others_go_on(tmp_path: Path) -> None:
    contracts = {"visits": SOURCE, "conversion": CONVERSION, "revenue": REVENUE}
    (tmp_path / "contracts").mkdir()
    for name, text in contracts.items():
        (tmp_path / "contracts" / f"{name}.yaml").write_text(text)
    for name, text in {"day": DAY, "typo": TYPO, "quiet": NOTHING_NEW, "mended": MENDED}.items():
        (tmp_path / f"{name}.csv").write_text(text)

    def run(name: str, day: int) -> tuple[int, str, str]:
        return command("run", "visits", f"{name}.csv", LAKEHOUSE_NOW=f"2024-11-{day:02}T12:00:00Z")

    def command(*arguments: str, **environment: str) -> tuple[int, str, str]:
        of_deployment = {
            "LAKEHOUSE_CONTRACTS": "contracts",
            "LAKEHOUSE_BUNDLED_CONTRACTS": "false",
            "LAKEHOUSE_LANDING": "landing",
        }
        done = lakehouse_command(tmp_path, *arguments, **of_deployment, **environment)
        assert "Traceback" not in done.stderr
        assert "Exception" not in done.stderr
        return done.returncode, done.stdout, done.stderr

    def seen(metric: str, *days: int) -> list[object]:
        shown = [json.loads(command("gold", "show", metric, f"2024-11-{day:02}", "--json")[1]) for day in days]
        return [answer["rows"][0][metric] for answer in shown]

    code, out, err = run("day", 6)
    assert code == 0, out + err
    assert seen("conversion", 3, 4, 5) == [0.2, None, 0.25]
    assert seen("revenue", 3, 4, 5) == ["20.00", "0.00", "50.00"]

    code, out, err = run("typo", 7)
    assert code == 1
    assert f"check failed: gold/revenue computed failed for 2024-11-03: {REASON}" in err
    assert "revenue_v2024-11-05.r2  preliminary: revenue 50.00 -> 51.00" in out
    assert seen("revenue", 3, 5) == ["20.00", "51.00"]
    assert seen("conversion", 3) == [0.2]

    code, out, err = run("quiet", 8)
    assert code == 1, "it is still held, although no run has tried it again"
    assert REASON in err
    assert f"a newer number is held: {REASON}" in command("gold", "show", "revenue", "2024-11-03")[1]
    assert f"held  {REASON}" in command("gold", "history", "revenue", "2024-11-03")[1]
    assert REASON in command("gold", "held")[1]
    assert "waits for: the new number is held: 2024-11-03" in command("gold", "show", "revenue", "2024-11")[1]

    code, out, err = run("mended", 9)
    assert code == 0, out + err
    assert "revenue_v2024-11-03.r2  preliminary: revenue 20.00 -> 29.99" in out
    assert command("gold", "held")[1] == "Nothing is held.\n"
