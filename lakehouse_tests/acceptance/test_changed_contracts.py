"""A contract is changed in place, and the next command is given: nothing is counted twice, nothing means two things."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from lakehouse.lake import Table
from lakehouse_tests.support.forked_cli import lakehouse_command

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark"), pytest.mark.merge]

SOURCE = """\
dataset: orders
primary_key: order_id
model:
  fields:
    - {name: order_id, type: string, required: true}
    - {name: line, type: int, required: true}
    - {name: amount, type: "decimal(12,2)", required: true}
clocks: {event: at, timezone: UTC, naive_times: in_timezone}
"""
METRIC = """\
metric: revenue
source: orders
measures:
  - {name: amount, sql: sum(amount), type: "decimal(18,2)", additive: true}
"""
HEADER = "order_id,line,amount,at\n"
ON = "2024-11-05"


@pytest.fixture(name="shop")
def _shop(tmp_path: Path) -> Path:
    """A project with one order of 10 on one day, and one of 5 on the next."""
    (tmp_path / "contracts").mkdir()
    (tmp_path / "contracts" / "orders.yaml").write_text(SOURCE)
    (tmp_path / "contracts" / "revenue.yaml").write_text(METRIC)
    run(tmp_path, "a.csv", "a,1,10.00,2024-11-04T23:00:00\nb,1,5.00,2024-11-05T10:00:00\n")
    assert numbers(tmp_path) == {"2024-11-04": Decimal("10.00"), "2024-11-05": Decimal("5.00")}
    return tmp_path


def run(shop: Path, file: str, rows: str, *, code: int = 0) -> str:
    """Each file comes in an hour of its own, by its name."""
    (shop / file).write_text(HEADER + rows)
    return command(shop, "run", "orders", file, code=code, hour=12 + "abc".index(file[0]))


def command(shop: Path, *arguments: str, code: int = 0, hour: int = 16) -> str:
    lake = {"LAKEHOUSE_BUNDLED_CONTRACTS": "0", "LAKEHOUSE_NOW": f"{ON}T{hour}:00:00Z"}
    done: subprocess.CompletedProcess[str] = lakehouse_command(shop, *arguments, **lake)
    assert done.returncode == code, done.stdout + done.stderr
    return " ".join(f"{done.stdout} {done.stderr}".split())


def change(shop: Path, file: str, before: str, after: str) -> None:
    path = shop / "contracts" / file
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


def numbers(shop: Path) -> dict[str, Decimal]:
    rows = Table(f"{shop}/lake/gold/revenue").read(["event_date", "amount", "is_latest"]).to_pylist()
    return {f"{row['event_date']}": row["amount"] for row in rows if row["is_latest"]}


@pytest.mark.proof
def test_files_under_another_key_are_held_until_the_older_records_are_read_by_it(shop: Path) -> None:
    change(shop, "orders.yaml", "primary_key: order_id", "primary_key: [order_id, line]")
    text = run(shop, "b.csv", "a,1,11.00,2024-11-04T23:00:00\na,2,4.00,2024-11-04T23:00:00\n", code=1)
    assert "contracts/orders.yaml:2: primary_key: was order_id and is order_id, line" in text
    assert "restore it; or read them again by the new one: 'lakehouse source reparse orders --by NAME --reason WHY --now'" in text
    assert numbers(shop)["2024-11-04"] == Decimal("10.00")
    # The file is held until a run takes it: the command says so, and ends with 1.
    text = command(shop, "reparse", "orders", "--by", "anna", "--reason", "an order has lines", "--now", code=1)
    assert "check failed: bronze/orders no_file_held failed for 2024-11-05: arrival_date=2024-11-05.b.csv" in text
    run(shop, "b.csv", "a,1,11.00,2024-11-04T23:00:00\na,2,4.00,2024-11-04T23:00:00\n")
    assert numbers(shop) == {"2024-11-04": Decimal("15.00"), "2024-11-05": Decimal("5.00")}


@pytest.mark.proof
def test_another_zone_is_told_once_with_the_command_that_reads_again(shop: Path) -> None:
    change(shop, "orders.yaml", "timezone: UTC", "timezone: Asia/Tokyo")
    text = run(shop, "b.csv", "c,1,1.00,2024-11-05T09:00:00\n")
    assert f"clocks.timezone: was UTC and is Asia/Tokyo: rows since {ON} are read otherwise than older ones" in text
    assert "'lakehouse source reparse" in text
    assert "clocks.timezone" not in run(shop, "c.csv", "d,1,2.00,2024-11-05T09:30:00\n")
    assert numbers(shop)["2024-11-05"] == Decimal("8.00")


def test_a_measure_that_means_something_else_publishes_nothing_until_it_is_restored(shop: Path) -> None:
    change(shop, "revenue.yaml", "sum(amount)", "sum(amount * 2)")
    text = run(shop, "b.csv", "c,1,1.00,2024-11-05T09:00:00\n", code=1)
    assert "revenue.yaml:3: measures.amount.sql: was sum(amount) and is sum(amount * 2)" in text
    assert "dataset_version: 2" in text
    assert "Traceback" not in text
    assert numbers(shop)["2024-11-05"] == Decimal("5.00")
    change(shop, "revenue.yaml", "sum(amount * 2)", "sum(amount)")
    run(shop, "c.csv", "d,1,2.00,2024-11-05T09:30:00\n")
    assert numbers(shop) == {"2024-11-04": Decimal("10.00"), "2024-11-05": Decimal("8.00")}
