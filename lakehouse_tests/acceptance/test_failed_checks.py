"""A check that fails in ``lakehouse run`` is printed, ends it with 1, and holds the number; what it says puts all right."""

from __future__ import annotations

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
    days = ("--start-date", "2024-11-04", "--end-date", "2024-11-04")
    mended = lakehouse_command(tmp_path, "rebuild", "orders", *days, "--reason", "a row was lost")
    assert mended.returncode == 0, mended.stdout + mended.stderr
    history = lakehouse_command(tmp_path, "gold", "history", "orders_daily", "2024-11-04").stdout
    assert "amount: 200.00 -> 262.00 (+62.00, +31.00 %)" in history
