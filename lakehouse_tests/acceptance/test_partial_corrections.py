"""Corrections that carry only what they change, staged and promoted, with a redaction between them: the other fields stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakehouse.lake import Table
from lakehouse_tests.support.forked_cli import lakehouse_command

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark"), pytest.mark.proof]

SOURCE = """
dataset: pay
primary_key: [id]
source: {format: csv, start_date: 2024-01-01}
clocks: {event: at, start_date: 2024-01-01}
changes: {op: op, corrected_field: what, corrections: partial}
model:
  fields:
    - {name: id, type: string, required: true}
    - {name: at, type: timestamp, required: true}
    - {name: amount, type: "decimal(12,2)"}
    - {name: shop, type: string}
    - {name: email, type: string}
"""
REVENUE = """
metric: revenue
source: pay
grain: [shop]
measures:
  - {name: revenue, sql: sum(amount), type: "decimal(18,2)", additive: true}
"""
HEADER, AT = "id,at,amount,shop,email,op,what\n", "2024-11-04T09:00:00Z"
FILES = {
    "first": f"a,{AT},5,north,a@x,insert,\nb,{AT},1,south,b@x,insert,\n",
    "amount": f"a,{AT},7,,,correct,amount\n",
    "shop": f"a,{AT},,west,,correct,shop\n",
}
WHO = ("--by", "anna", "--reason", "asked for")


def test_a_stage_and_a_redaction_keep_what_a_partial_correction_leaves_out(tmp_path: Path) -> None:
    (tmp_path / "contracts").mkdir()
    (tmp_path / "contracts" / "pay.yaml").write_text(SOURCE)
    (tmp_path / "contracts" / "revenue.yaml").write_text(REVENUE)
    for name, text in FILES.items():
        (tmp_path / f"{name}.csv").write_text(HEADER + text)

    def done(now: str, *arguments: str) -> str:
        run = lakehouse_command(tmp_path, *arguments, LAKEHOUSE_NOW=f"2024-11-{now}:00Z", LAKEHOUSE_BUNDLED_CONTRACTS="false")
        assert run.returncode == 0, run.stdout + run.stderr
        return run.stdout

    def silver() -> list[str]:
        rows = Table(f"{tmp_path}/lake/silver/pay").read(["id", "amount", "shop", "email"])
        assert rows is not None
        return sorted(" ".join(f"{value}" for value in row.values()) for row in rows.to_pylist())

    done("04T18:00", "run", "pay", "first.csv")
    assert "6.00 -> 8.00" in done("05T18:00", "stage", "create", "s1", "pay", *WHO, "--file", "amount.csv")
    assert silver() == ["a 5.00 north a@x", "b 1.00 south b@x"]
    done("05T18:10", "stage", "promote", "s1", *WHO, "--sign-off", "it is right")
    assert silver() == ["a 7.00 north a@x", "b 1.00 south b@x"]
    done("05T19:00", "redact", "pay", "--key", "a", "--fields", "email", *WHO)
    done("06T18:00", "run", "pay", "shop.csv")
    assert silver() == ["a 7.00 west None", "b 1.00 south b@x"], "a correction after the redaction brings no email back"
    again = done("06T19:00", "reproduce", "revenue", "2024-11-04", "--revision", "r1")
    assert "is equal except for redacted values" in again
