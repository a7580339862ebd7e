"""A check that fails in ``lakehouse run`` is printed, ends it with 1, and holds the number; what it says puts all right."""

from __future__ import annotations

import json
from datetime import date
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from lakehouse_tests.support.forked_cli import lakehouse_command

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark"), pytest.mark.merge]


def test_a_row_that_silver_has_lost_is_published_by_nobody(tmp_path: Path) -> None:
    assert lakehouse_command(tmp_path, "init").returncode == 0
    first = lakehouse_command(tmp_path, "run", "contracts/orders.yaml", "samples/orders.csv")
    assert first.returncode == 0, first.stderr
    silver = DeltaTable(tmp_path / "lake" / "silver" / "orders")
    kept = silver.to_pyarrow_table(filters=[("event_date", "=", date(2024, 11, 4))])["record_key"].to_pylist()
    silver.delete(f"record_key = '{kept[0]}'")
    broken = lakehouse_command(tmp_path, "run", "orders", "samples/orders_corrected.csv")
    assert broken.returncode == 1, broken.stdout
    assert "check failed: silver/orders equals_bronze failed for 2024-11-04: silver lacks 1 applied rows" in broken.stderr
    assert "Traceback" not in broken.stderr
    assert "2024-11-04" not in broken.stdout, "its number is held"
    assert "orders_daily_v2024-11-05.r2  live: orders 2 -> 1" in broken.stdout, "the others go on"
    failures = {line for line in broken.stderr.splitlines() if line.startswith("check failed: ")}
    for again in (("run", "orders", "samples/orders_corrected.csv"), ("replay", "orders")):
        repeated = lakehouse_command(tmp_path, *again)
        assert repeated.returncode == 1, repeated.stdout
        assert failures <= {*repeated.stderr.splitlines()}
    days = ("--start-date", "2024-11-04", "--end-date", "2024-11-04")
    planned = lakehouse_command(tmp_path, "backfill", "plan", "orders_daily", *days, "--reason", "a look", "--json")
    plan = json.loads(planned.stdout)["plan_id"]
    for _ in range(2):  # the second time the plan is finished
        backfilled = lakehouse_command(tmp_path, "backfill", "run", plan)
        assert backfilled.returncode == 1, backfilled.stdout + backfilled.stderr
        assert "check failed: gold/orders_daily inputs_passed failed for 2024-11-04: " in backfilled.stderr
    mended = lakehouse_command(tmp_path, "rebuild", "orders", *days, "--reason", "a row was lost")
    assert mended.returncode == 0, mended.stdout + mended.stderr
    history = lakehouse_command(tmp_path, "gold", "history", "orders_daily", "2024-11-04").stdout
    assert "amount: 200.00 -> 262.00 (+62.00, +31.00 %)" in history


SOURCE = """
dataset: trades
primary_key: [id]
source: {format: csv, start_date: 2024-11-01}
clocks: {event: at, start_date: 2024-11-01}
changes: {op: op, corrects_event_id: corrects}
model:
  fields:
    - {name: id, type: string, required: true}
    - {name: at, type: date, required: true}
    - {name: amount, type: int}
"""
METRIC = "metric: traded\nsource: trades\nmeasures:\n  - {name: amount, sql: sum(amount), type: bigint, additive: true}\n"


def test_a_number_that_a_check_held_follows_when_a_record_of_another_day_mends_it(tmp_path: Path) -> None:
    contracts = tmp_path / "contracts"
    contracts.mkdir()
    (contracts / "trades.yaml").write_text(SOURCE)
    (contracts / "traded.yaml").write_text(METRIC)

    def run(day: int, *lines: str) -> tuple[int, str]:
        (tmp_path / "file.csv").write_text("\n".join(["id,at,amount,op,corrects", *lines, ""]))
        environment = {"LAKEHOUSE_CONTRACTS": str(contracts), "LAKEHOUSE_BUNDLED_CONTRACTS": "false"}
        done = lakehouse_command(
            tmp_path, "run", "trades", "file.csv", **environment, LAKEHOUSE_NOW=f"2024-11-{day:02}T12:00:00Z"
        )
        return done.returncode, done.stdout + done.stderr

    assert run(10, "x,2024-11-01,1,insert,")[0] == 0
    code, text = run(11, "d,2024-11-01,2,correct,x", "e,2024-11-03,5,correct,x")
    assert (code, "d and e correct the same original" in text) == (1, True)
    code, text = run(12, "e,,,delete,")
    assert code == 0, text
    assert "traded_v2024-11-01.r2  final: amount 1 -> 2 (+1, +100.00 %)  [correction: " in text, (
        "its reason is that of the change"
    )
