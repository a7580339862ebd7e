"""Types become wider in the contracts, and the next file is given: Bronze, silver, dimensions, numbers, longer periods."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.lake import Table
from lakehouse_tests.support.forked_cli import lakehouse_command

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark"), pytest.mark.proof]

CONTRACTS = {
    "orders": """\
dataset: orders
primary_key: [order_id, line]
model:
  fields:
    - {name: order_id, type: string, required: true}
    - {name: line, type: int, required: true}
    - {name: shop, type: int, required: true}
    - {name: pieces, type: int}
    - {name: amount, type: "decimal(6,2)"}
clocks: {event: at, timezone: UTC, naive_times: in_timezone}
""",
    "shops": """\
dataset: shops
kind: dimension
primary_key: shop
model:
  fields:
    - {name: shop, type: int, required: true}
    - {name: floor, type: int}
clocks: {event: at, timezone: UTC, naive_times: in_timezone}
""",
    "revenue": """\
metric: revenue
source: orders
grain: [shop, floor]
joins: [{dimension: shops, on: shop, columns: [floor]}]
measures:
  - {name: amount, sql: sum(amount), type: "decimal(8,2)", additive: true}
  - {name: pieces, sql: max(pieces), type: int}
publication: {rollups: [week]}
""",
}
#: Per contract, the types as they are and as they become.
WIDER = {
    "orders": [
        ("line, type: int", "line, type: bigint"),
        ("shop, type: int", "shop, type: bigint"),
        ("pieces, type: int", "pieces, type: bigint"),
        ("decimal(6,2)", "decimal(20,2)"),
    ],
    "shops": [("shop, type: int", "shop, type: bigint"), ("floor, type: int", "floor, type: bigint")],
    "revenue": [("decimal(8,2)", "decimal(22,2)"), ("max(pieces), type: int", "max(pieces), type: bigint")],
}
HEADER = "order_id,line,shop,pieces,amount,at\n"
FIRST = "a,1,1,3,10.00,2024-11-04T08:00:00\nb,1,2,4,5.00,2024-11-05T08:00:00\nb,2,2,4,123456.00,2024-11-05T09:00:00\n"
LARGE = 2**40


@pytest.fixture(name="shop")
def _shop(tmp_path: Path) -> Path:
    (tmp_path / "contracts").mkdir()
    for name, text in CONTRACTS.items():
        (tmp_path / "contracts" / f"{name}.yaml").write_text(text)
    run(tmp_path, "shops", "shops.csv", "shop,floor,at\n1,1,2024-01-01T00:00:00\n2,7,2024-01-01T00:00:00\n", hour=10)
    text = run(tmp_path, "orders", "first.csv", HEADER + FIRST, hour=11)
    assert "amount" in text
    return tmp_path


def run(shop: Path, source: str, file: str, text: str, *, hour: int, code: int = 0) -> str:
    (shop / file).write_text(text)
    return command(shop, "run", source, file, hour=hour, code=code)


def command(shop: Path, *arguments: str, hour: int = 20, code: int = 0) -> str:
    lake = {"LAKEHOUSE_BUNDLED_CONTRACTS": "0", "LAKEHOUSE_NOW": f"2024-11-06T{hour}:00:00Z"}
    done = lakehouse_command(shop, *arguments, **lake)
    assert done.returncode == code, done.stdout + done.stderr
    return " ".join(f"{done.stdout} {done.stderr}".split())


def widen(shop: Path) -> None:
    for name, changes in WIDER.items():
        path = shop / "contracts" / f"{name}.yaml"
        text = path.read_text()
        for before, after in changes:
            assert before in text
            text = text.replace(before, after)
        path.write_text(text)


def numbers(shop: Path, series: str = "revenue") -> dict[tuple[str, int, Any], tuple[Decimal, int]]:
    rows = Table(f"{shop}/lake/gold/{series}").read().to_pylist()
    day = "event_date" if series == "revenue" else "period_start"
    return {(f"{row[day]}", row["shop"], row["floor"]): (row["amount"], row["pieces"]) for row in rows if row["is_latest"]}


def test_values_that_were_too_large_fit_after_the_change_and_older_numbers_stay(shop: Path) -> None:
    before = {("2024-11-04", 1, 1): (Decimal("10.00"), 3), ("2024-11-05", 2, 7): (Decimal("5.00"), 4)}
    assert numbers(shop) == before
    widen(shop)
    large = f"c,1,{LARGE},{LARGE},9876543210123.00,2024-11-04T10:00:00\na,2,1,1,1.50,2024-11-04T11:00:00\n"
    text = run(shop, "orders", "second.csv", HEADER + large, hour=12)
    assert "orders.yaml" in text
    assert "model.fields.amount.type: was decimal(6,2) and is decimal(20,2)" in text
    assert "lakehouse source reparse orders" in text
    after = before | {
        ("2024-11-04", 1, 1): (Decimal("11.50"), 3),
        ("2024-11-04", LARGE, None): (Decimal("9876543210123.00"), LARGE),
    }
    assert numbers(shop) == after
    run(shop, "shops", "more.csv", f"shop,floor,at\n{LARGE},{LARGE},2024-01-01T00:00:00\n", hour=13)
    after[("2024-11-04", LARGE, LARGE)] = after.pop(("2024-11-04", LARGE, None))
    assert numbers(shop) == after
    assert numbers(shop, "revenue_weekly") == {
        ("2024-11-04", 1, 1): (Decimal("11.50"), 3),
        ("2024-11-04", 2, 7): (Decimal("5.00"), 4),
        ("2024-11-04", LARGE, LARGE): (Decimal("9876543210123.00"), LARGE),
    }
    command(shop, "reparse", "orders", "--by", "anna", "--reason", "amounts may be larger", "--now", hour=14)
    after[("2024-11-05", 2, 7)] = (Decimal("123461.00"), 4)
    assert numbers(shop) == after
    assert "computed again from Bronze, is equal" in command(shop, "reproduce", "revenue", "2024-11-05", "--revision", "1")
