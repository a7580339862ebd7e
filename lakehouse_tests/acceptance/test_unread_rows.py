"""A till whose amounts cannot be read on one day: the day says so, and becomes final once they have been sent again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakehouse_tests.support.forked_cli import lakehouse_command

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark"), pytest.mark.merge]
SOURCE = """
dataset: till
owner: anna
primary_key: [id]
source: {format: csv, landing: "{arrival_date}*.csv", start_date: 2024-11-01}
clocks: {event: at, start_date: 2024-11-01, watermark: {strategy: bounded, max_lateness: PT6H}}
model:
  fields:
    - {name: id, type: string, required: true}
    - {name: at, type: timestamp, required: true}
    - {name: amount, type: "decimal(12,2)", required: true}
"""
METRIC = """
metric: takings
source: till
measures:
  - {name: takings, sql: sum(amount), type: "decimal(18,2)", additive: true}
publication: {final_after: 2}
"""
REASON = "amount: '1,100.00' is not a number"


def deliver(landing: Path, day: int, file: str, *amounts: str, of: int | None = None) -> None:
    lines = [f'{of or day}-{n},2024-11-{of or day:02}T{10 + n}:00:00Z,"{amount}"' for n, amount in enumerate(amounts)]
    (landing / f"2024-11-{day:02}{file}.csv").write_text("\n".join(["id,at,amount", *lines]) + "\n")


def test_a_day_that_could_not_be_read_waits_and_is_final_once_it_was_sent_again(tmp_path: Path) -> None:
    contracts, landing = tmp_path / "contracts", tmp_path / "in"
    contracts.mkdir()
    landing.mkdir()
    (contracts / "till.yaml").write_text(SOURCE)
    (contracts / "takings.yaml").write_text(METRIC)

    def lakehouse(*arguments: str, now: str = "2024-11-10T12:00:00Z") -> str:
        environment = {"LAKEHOUSE_CONTRACTS": str(contracts), "LAKEHOUSE_BUNDLED_CONTRACTS": "false", "LAKEHOUSE_NOW": now}
        done = lakehouse_command(tmp_path, *arguments, **environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    deliver(landing, 4, "", *["100.00"] * 5)
    deliver(landing, 5, "", "100.00", *["1,100.00"] * 4)
    deliver(landing, 9, "", *["100.00"] * 5)
    replayed = lakehouse("replay", "till", "--landing", "in")
    assert f"15 rows in Bronze, 4 malformed: {REASON}; 'lakehouse rows till --malformed' lists them." in replayed
    shown = lakehouse("gold", "show", "takings", "2024-11-05")
    assert "  preliminary\n" in shown
    assert f"waits for: 4 rows could not be read: {REASON} (2024-11-05.csv:3)" in shown
    assert "  final\n" in lakehouse("gold", "show", "takings", "2024-11-04")
    rows = lakehouse("rows", "till", "--malformed").splitlines()
    assert len(rows) == 4
    assert rows[0].startswith(f"2024-11-05.csv:3, arrived 2024-11-05 (5-1, 2024-11-05): {REASON}: raw_payload")
    for command in (["account", "till"], ["quarantine", "list", "till"], ["impact", "till", "--file", "2024-11-05.csv"]):
        text = lakehouse(*command)
        assert REASON in text, command
        assert '5-1,2024-11-05T11:00:00Z,"1,100.00"' in text, command
    assert 'as it was sent: 5-1,2024-11-05T11:00:00Z,"1,100.00"' in lakehouse("trace", "till", "5-1")

    deliver(landing, 10, "-again", "100.00", *["1100.00"] * 4, of=5)
    lakehouse("replay", "till", "--landing", "in")
    shown = lakehouse("gold", "show", "takings", "2024-11-05")
    assert "  final\n" in shown
    assert "takings 4,500.00" in shown
    assert "waits for" not in shown


CUSTOMERS = """
dataset: customers
kind: dimension
primary_key: [customer]
source: {format: csv, start_date: 2024-11-01}
clocks: {event: since}
model:
  fields:
    - {name: customer, type: string, required: true}
    - {name: since, type: date, required: true}
    - {name: tier, type: string}
    - {name: score, type: int}
"""
BY_TIER = """
metric: by_tier
source: till
joins: [{dimension: customers, on: id, columns: [tier]}]
grain: [tier]
measures:
  - {name: takings, sql: sum(amount), type: "decimal(18,2)", additive: true}
publication: {final_after: 2}
"""


def test_a_change_of_a_dimension_that_could_not_be_read_keeps_the_numbers_from_its_day_on_open(tmp_path: Path) -> None:
    contracts, landing = tmp_path / "contracts", tmp_path / "in"
    contracts.mkdir()
    landing.mkdir()
    for name, text in {"till": SOURCE, "customers": CUSTOMERS, "by_tier": BY_TIER}.items():
        (contracts / f"{name}.yaml").write_text(text)

    def lakehouse(*arguments: str, day: int) -> str:
        environment = {"LAKEHOUSE_CONTRACTS": str(contracts), "LAKEHOUSE_BUNDLED_CONTRACTS": "false"}
        done = lakehouse_command(tmp_path, *arguments, **environment, LAKEHOUSE_NOW=f"2024-11-{day:02}T12:00:00Z")
        assert done.returncode == 0, done.stderr
        return done.stdout

    def state(day: int) -> str:
        return lakehouse("gold", "show", "by_tier", f"2024-11-{day:02}", day=22)

    customers = tmp_path / "customers.csv"
    customers.write_text("customer,since,tier,score\n4-0,2024-11-01,gold,1\n5-0,2024-11-05,silver,many\n")
    lakehouse("run", "customers", "customers.csv", day=6)
    for day in (4, 5, 9):
        deliver(landing, day, "", "100.00")
    lakehouse("replay", "till", "--landing", "in", day=20)
    reason = "customers: 1 row could not be read: score: 'many' is not an integer"
    assert "  final\n" in state(4), "the change begins on the day after"
    assert reason in state(5)
    assert "unknown" in lakehouse("gold", "show", "by_tier", "2024-11-05", "--json", day=22)
    customers.write_text("customer,since,tier,score\n5-0,2024-11-05,silver,7\n")
    lakehouse("run", "customers", "customers.csv", day=21)
    assert "  final\n" in state(5)
    assert "silver" in lakehouse("gold", "show", "by_tier", "2024-11-05", "--json", day=22)
