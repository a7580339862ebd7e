"""A number that cannot be computed: the command line names it, publishes all others, and goes on once the rows are corrected."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from lakehouse_tests.support.forked_cli import lakehouse_command

if TYPE_CHECKING:
    from collections.abc import Callable
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


def commands_in(folder: Path, contracts: dict[str, str]) -> Callable[..., tuple[int, str, str]]:
    """A function that runs a command in a deployment of these contracts: its exit code and output."""
    (folder / "contracts").mkdir()
    for name, text in contracts.items():
        (folder / "contracts" / f"{name}.yaml").write_text(text)
    of_deployment = {"LAKEHOUSE_CONTRACTS": "contracts", "LAKEHOUSE_BUNDLED_CONTRACTS": "false", "LAKEHOUSE_LANDING": "landing"}

    def command(*arguments: str, **environment: str) -> tuple[int, str, str]:
        done = lakehouse_command(folder, *arguments, **of_deployment, **environment)
        assert "Traceback" not in done.stderr
        return done.returncode, done.stdout, done.stderr

    return command


OF_A_BOOLEAN = """
metric: doubtful
source: visits
measures:
  - {name: total, sql: "sum(sessions > 0)", type: bigint}
"""
BY_KIND = """
metric: by_kind
source: visits
grain: [kind]
measures:
  - {name: large, sql: "if(kind = 'large', sum(orders), 0)", type: bigint, additive: true}
  - {name: ids, sql: count(distinct id), type: bigint}
publication: {rollups: [week]}
"""


def test_a_metric_that_fails_as_a_whole_hides_nothing_of_the_others(tmp_path: Path) -> None:
    command = commands_in(tmp_path, {"visits": SOURCE, "doubtful": OF_A_BOOLEAN, "revenue": REVENUE})
    for name, text in {"day": DAY, "typo": TYPO}.items():
        (tmp_path / f"{name}.csv").write_text(text)
    code, out, err = command("run", "visits", "day.csv", LAKEHOUSE_NOW="2024-11-06T12:00:00Z")
    assert code == 1
    assert "3 rows ingested." in out
    assert "revenue_v2024-11-05.r1" in out
    assert "gold/doubtful failed for 3 days" in err
    code, out, err = command("run", "visits", "typo.csv", LAKEHOUSE_NOW="2024-11-07T12:00:00Z")
    assert code == 1
    assert "revenue_v2024-11-05.r2  preliminary: revenue 50.00 -> 51.00" in out
    assert REASON in err
    assert "gold/doubtful failed for" in err


def test_a_day_that_loses_its_last_row_has_a_number_where_a_measure_names_the_grain(tmp_path: Path) -> None:
    source = SOURCE.replace("- {name: sessions,", "- {name: kind, type: string}\n    - {name: sessions,")
    command = commands_in(tmp_path, {"visits": source, "by_kind": BY_KIND})
    header = "id,at,kind,sessions,orders,amount,op\n"
    first = "a,2024-11-03T10:00:00Z,large,1,5,1.00,\nb,2024-11-04T10:00:00Z,large,1,2,1.00,\n"
    (tmp_path / "first.csv").write_text(header + first)
    (tmp_path / "moved.csv").write_text(header + "a,2024-11-04T10:00:00Z,large,1,7,1.00,correct\n")
    for number, name in ((5, "first"), (6, "moved")):
        code, out, err = command("run", "visits", f"{name}.csv", LAKEHOUSE_NOW=f"2024-11-{number:02}T12:00:00Z")
        assert code == 0, out + err
    periods = ("2024-11-03", "2024-11-04", "2024-W44", "2024-W45")
    shown = [json.loads(command("gold", "show", "by_kind", period, "--json")[1])["rows"] for period in periods]
    assert [[(row["large"], row["ids"]) for row in rows] for rows in shown] == [[(0, 0)], [(9, 2)], [(0, 0)], [(9, 2)]]
    for period in periods:
        code, out, err = command("gold", "reproduce", "by_kind", period, "--revision", "r2")
        assert code == 0, out + err


def test_the_day_is_held_by_name_while_the_others_go_on(tmp_path: Path) -> None:
    command = commands_in(tmp_path, {"visits": SOURCE, "conversion": CONVERSION, "revenue": REVENUE})
    for name, text in {"day": DAY, "typo": TYPO, "quiet": NOTHING_NEW, "mended": MENDED}.items():
        (tmp_path / f"{name}.csv").write_text(text)

    def run(name: str, day: int) -> tuple[int, str, str]:
        code, out, err = command("run", "visits", f"{name}.csv", LAKEHOUSE_NOW=f"2024-11-{day:02}T12:00:00Z")
        assert "Exception" not in err
        return code, out, err

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
