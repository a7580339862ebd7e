"""``lakehouse source audit`` as people type it, on a lake that delta-rs wrote."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from lakehouse.contracts import load_catalog
from lakehouse.lake import Lake
from lakehouse.settings import Settings
from lakehouse.silver import audit
from lakehouse_tests.support.forked_cli import lakehouse_command
from lakehouse_tests.support.silver_log import append_to_silver

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.merge
def test_the_audit_is_listed_for_people_and_for_programs(tmp_path: Path) -> None:
    lake = Lake(Settings(root=str(tmp_path / "lake"), landing=None))
    catalog = load_catalog(None)
    for number in range(3):
        append_to_silver(lake, (f"s{number}", number + 1, 1), source=catalog.sources["sales"])
        audit.follow(lake, catalog.sources["sales"], catalog.metrics_of("sales"))

    done = lakehouse_command(tmp_path, "audit", "sales", "--date", "2024-02-02", COLUMNS="40")
    assert done.returncode == 0
    assert "late_merge: s1 on 2024-02-02\n    by shop: arrived 5 d after the event (silver version 1)\n" in done.stdout
    assert 'new: record_key "s1", ' in done.stdout
    assert done.stdout.endswith("    affects revenue@2024-02-02, revenue_weekly@2024-W05, revenue_monthly@2024-02\n1 row.\n")

    lines = lakehouse_command(tmp_path, "audit", "sales", "--actor", "shop", "--json").stdout.splitlines()
    assert [json.loads(line)["event_id"] for line in lines] == ["s0", "s1", "s2"]
    assert json.loads(lines[0])["new_value"]["event_date"] == "2024-02-01"

    newest = lakehouse_command(tmp_path, "audit", "sales", "--limit", "1").stdout
    assert "s2 on 2024-02-03" in newest
    assert newest.endswith("3 rows, 2 older ones not shown (--limit).\n")
    assert lakehouse_command(tmp_path, "audit", "sales", "--since", "2999-01-01").stdout == "0 rows.\n"
    wrong = lakehouse_command(tmp_path, "audit", "sales", "--action", "gone")
    assert wrong.returncode == 2
    assert "one of late_merge, correction, backfill" in wrong.stderr
