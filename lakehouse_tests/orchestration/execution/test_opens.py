"""A delivery opens each table once, through all layers, and what is done in object stores is counted."""

from __future__ import annotations

import sys
from collections import Counter
from importlib import resources
from typing import TYPE_CHECKING

import lakehouse
from lakehouse.lake import table_folder, table_io
from lakehouse.lake.table_folder import counted_requests

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from deltalake import DeltaTable


def test_a_delivery_opens_each_table_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contracts, templates = tmp_path / "contracts", resources.files("lakehouse.project") / "templates"
    contracts.mkdir()
    for name in ("orders.yaml", "orders_daily.yaml"):
        (contracts / name).write_text((templates / name).read_text())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAKEHOUSE_CONTRACTS", f"{contracts}")
    monkeypatch.setenv("LAKEHOUSE_BUNDLED_CONTRACTS", "false")
    monkeypatch.setenv("LAKEHOUSE_ROOT", f"{tmp_path / 'lake'}")
    opens, real = Counter[str](), table_io.open_snapshot

    def counted(path: str, *options: object) -> DeltaTable | None:
        table = real(path, *options)  # type: ignore[arg-type]
        caller = sys._getframe(2).f_code.co_name
        if table is not None and caller in {
            "open",
            "_newest",
            "<lambda>",
        }:  # else for a write that has to conflict with every other one
            opens[path.removeprefix(f"{tmp_path}/lake/")] += 1
        return table

    monkeypatch.setattr(table_io, "open_snapshot", counted)
    for delivery in range(3):
        file = tmp_path / f"orders_{delivery}.csv"
        rows = [f"{delivery * 3 + number},s,{number}.50,2024-01-0{1 + number}T10:00:00Z,insert" for number in range(6)]
        file.write_text("\n".join(["order_id,store,amount,ordered_at,op", *rows]))
        opens.clear()
        assert lakehouse.run("orders", [file]).rows == 6
        if delivery:  # the first one creates the tables
            assert {"ops/ingestions", "bronze/orders", "silver/orders", "gold/orders_daily"} <= opens.keys()
            assert set(opens.values()) == {1}, opens


def test_what_is_done_in_object_stores_is_counted_by_table() -> None:
    with counted_requests() as before:
        table_folder.count_request("/lake/silver/orders", "opens")
    with counted_requests() as during:
        table_folder.count_request("s3://bucket/lake/silver/orders", "opens")
        table_folder.count_request("s3://bucket/lake/silver/orders/", "bytes", 1000)
        table_folder.count_request("s3://bucket/lake/ops/*", "listings")
    assert before == {}
    assert during == {"ops/*": {"listings": 1}, "silver/orders": {"bytes": 1000, "opens": 1}}
