"""``lakehouse source redact`` beside published numbers: days, weeks and derived numbers say the same afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from lakehouse_tests.support.forked_cli import lakehouse_command

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = """dataset: orders
primary_key: [order_id]
source: {format: csv, start_date: 2024-11-01}
clocks: {event: ordered_at, start_date: 2024-01-01}
changes: {op: op}
model:
  fields:
    - {name: order_id, type: bigint, required: true}
    - {name: store, type: string}
    - {name: amount, type: "decimal(18,2)"}
"""
DAILY = """metric: daily
source: orders
grain: [store]
measures: [{name: amount, sql: "coalesce(sum(amount), 0)", type: "decimal(38,2)", additive: true}]
publication: {rollups: [week], after_close: CLOSED, final_after: 1}
"""
SHARE = """metric: share
from: [daily]
grain: [store]
measures: [{name: amount, sql: daily.amount, type: "decimal(38,2)", additive: true}]
publication: {rollups: [week]}
"""


class Project:
    def __init__(self, folder: Path, **contracts: str) -> None:
        self.folder, self.now = folder, ""
        (folder / "contracts").mkdir()
        for name, text in contracts.items():
            (folder / "contracts" / f"{name}.yaml").write_text(text)

    def __call__(self, *arguments: str) -> str:
        settings = {"LAKEHOUSE_CONTRACTS": "contracts", "LAKEHOUSE_BUNDLED_CONTRACTS": "false", "LAKEHOUSE_NOW": self.now}
        done = lakehouse_command(self.folder, *arguments, **settings)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def load(self, now: str, *lines: str) -> None:
        self.now = now
        file = self.folder / f"{now[:13]}.csv"
        file.write_text("\n".join(["order_id,store,ordered_at,amount,op", *lines, ""]))
        self("run", "orders", file.name)

    def redact(self, now: str, key: int) -> None:
        self.now = now
        self("source", "redact", "orders", "--key", f"{key}", "--fields", "store", "--by", "dora", "--reason", "erasure")

    def shown(self, series: str, by: str = "period_start") -> dict[Any, float]:
        """The newest numbers by period and store."""
        rows = DeltaTable(str(self.folder / "lake" / "gold" / series)).to_pyarrow_table().to_pylist()
        latest = [row for row in rows if row["is_latest"]]
        assert len({(row[by], row["store"]) for row in latest}) == len(latest), "one row of each value of the grain"
        return {(f"{row[by]:%d}", row["store"]): float(row["amount"]) for row in latest if row["amount"]}


def test_a_week_shows_the_store_that_another_key_has_for_that_key_alone(tmp_path: Path) -> None:
    project = Project(tmp_path, orders=SOURCE, daily=DAILY.replace("CLOSED", "restate"))
    project.load("2024-11-06T20:00:00Z", "1,c,2024-11-05T09:00:00Z,10,insert", "2,c,2024-11-06T10:00:00Z,90,insert")
    project.redact("2024-11-06T21:00:00Z", 1)
    assert project.shown("daily", "event_date") == {("05", None): 10, ("06", "c"): 90}
    assert project.shown("daily_weekly") == {("04", None): 10, ("04", "c"): 90}


@pytest.mark.merge
def test_a_closed_week_stays_and_books_nothing_for_a_mask(tmp_path: Path) -> None:
    project = Project(tmp_path, orders=SOURCE, daily=DAILY.replace("CLOSED", "adjust"))
    project.load("2024-11-06T20:00:00Z", "1,c,2024-11-05T09:00:00Z,10,insert", "2,c,2024-11-06T10:00:00Z,90,insert")
    project.load("2024-11-20T20:00:00Z", "3,c,2024-11-20T09:00:00Z,7,insert")
    project.redact("2024-11-20T21:00:00Z", 1)
    assert project.shown("daily", "event_date") == {("05", None): 10, ("06", "c"): 90, ("20", "c"): 7}
    assert project.shown("daily_weekly") == {("04", "c"): 100, ("18", "c"): 7}


@pytest.mark.merge
def test_a_closed_number_is_masked_with_its_adjustments_and_books_nothing_for_it(tmp_path: Path) -> None:
    project = Project(tmp_path, orders=SOURCE, daily=DAILY.replace("CLOSED", "adjust"), share=SHARE)
    first = ("1,c,2024-11-04T09:00:00Z,10,insert", "2,,2024-11-04T10:00:00Z,90,insert", "3,d,2024-11-04T10:00:00Z,5,insert")
    project.load("2024-11-04T20:00:00Z", *first)
    project.load("2024-11-06T20:00:00Z", "9,c,2024-11-06T09:00:00Z,1,insert", "3,c,2024-11-04T10:00:00Z,7,correct")
    project.redact("2024-11-06T21:00:00Z", 1)
    assert project.shown("share_weekly") == project.shown("daily_weekly") == {("04", "c"): 8, ("04", None): 100}
    project.redact("2024-11-06T22:00:00Z", 3)
    assert project.shown("daily", "event_date") == {("04", None): 107, ("06", "c"): 1}
    assert project.shown("share", "event_date") == {("04", None): 107, ("06", "c"): 1}
    assert project.shown("share_weekly") == project.shown("daily_weekly") == {("04", "c"): 1, ("04", None): 107}
    history = project("gold", "history", "daily", "2024-11-04")
    assert "r2.a1" in history
    assert "r2.a2" not in history, "what is only masked is no adjustment"
    project.load("2024-11-06T23:00:00Z", "1,z,2024-11-04T09:00:00Z,100,correct")
    assert project.shown("share_weekly") == project.shown("daily_weekly") == {("04", "c"): 1, ("04", None): 197}
