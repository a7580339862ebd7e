"""The README's main job and the questions one asks after it, on the real command line."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from lakehouse.ledger import store
from lakehouse_tests.cli.test_commands import lakehouse_command

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.acceptance]


@pytest.fixture(name="home", scope="module")
def _home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("demo")
    done = lakehouse_command(home, "demo")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "Revenue per event day: as first published, and now" in done.stdout
    assert "dagster dev -w workspace.yaml" in done.stdout
    return home


def test_the_same_demo_again_changes_nothing(home: Path) -> None:
    versions = [store.open_table(str(home / "lake" / layer)).version() for layer in ("silver/sales", "gold/revenue")]
    done = lakehouse_command(home, "demo")
    assert done.returncode == 0
    assert "0 of them new" in done.stderr
    assert [store.open_table(str(home / "lake" / layer)).version() for layer in ("silver/sales", "gold/revenue")] == versions


def test_every_row_is_accounted_for(home: Path) -> None:
    bronze = store.read(str(home / "lake" / "bronze" / "sales"), ["arrival_date", "malformed_reason"])
    per_day = Counter(f"{day}" for day in bronze["arrival_date"].to_pylist())
    done = lakehouse_command(home, "account", "sales", "--json")
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert {line["arrival_date"]: line["rows"] for line in told} == per_day
    kinds = ("applied", "superseded", "duplicate", "malformed")
    assert all(sum(line[kind] for kind in kinds) == line["rows"] for line in told)
    assert sum(line["malformed"] for line in told) == 1
    silver = store.read(str(home / "lake" / "silver" / "sales"), ["record_key"])
    deleted = sum(line["applied"] for line in told) - len(silver)
    assert deleted > 0, "the deletes that count are applied too, and leave no row"
    assert lakehouse_command(home, "account", "sales").stdout.count("\n") > len(told)


def test_a_key_is_followed_from_its_lines_to_the_numbers_it_moved(home: Path) -> None:
    claims = store.read(str(home / "lake" / "ops" / "sales_keys"), ["record_key", "kind", "event_date"]).to_pylist()
    days = {row["record_key"]: set() for row in claims}
    for row in claims:
        if row["kind"] in {"insert", "correct"}:
            days[row["record_key"]].add(row["event_date"])
    moved = min(key for key, seen in days.items() if len(seen) > 1)
    told = json.loads(lakehouse_command(home, "trace", "sales", moved, "--json").stdout)
    assert [row["disposition"] for row in told["records"]].count("applied") == 1
    superseded = next(row for row in told["records"] if row["disposition"] == "superseded")
    assert superseded["decided_by"].startswith("arrival_date=")
    assert {change["change"] for change in told["silver"]} >= {"inserted", "removed"}
    assert all(change["published"] for change in told["silver"]), "each of its changes moved a published day"
    assert "gold/revenue of" in lakehouse_command(home, "trace", "sales", moved).stdout
    nobody = lakehouse_command(home, "trace", "sales", "nobody")
    assert nobody.returncode == 1
    assert "No row of bronze/sales has the key 'nobody'" in nobody.stderr
