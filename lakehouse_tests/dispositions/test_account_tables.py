"""The tables for SQL after an ingestion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakehouse import locations
from lakehouse.delta import row_writer
from lakehouse.delta.columns import arrow_schema, bronze_columns
from lakehouse.dispositions import account, account_tables
from lakehouse.ledger import key_log
from lakehouse.ledger.ids import DeliveredFile
from lakehouse_tests.support.arrivals import append_claims
from lakehouse_tests.support.claim_histories import DAYS, NOON
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import contract

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.mark.parametrize("policy", ["merge", "append", "overwrite_partition_safe", "overwrite_all"])
def test_each_row_of_a_delivery_is_written_once_malformed_ones_too(tmp_path: Path, policy: str) -> None:
    lake, source = lake_in(tmp_path), contract(materialization={"reprocess_policy": policy}, changes={})
    delivered = {"arrival_date": DAYS[0], "arrival_ts": NOON, "ingestion_id": "f1", "source_file": "f1.csv"}
    sound = delivered | {"line_number": 2, "record_key": "a", "event_date": DAYS[0], "source_sequence": 0}
    rows = [sound | {"change_op": "insert"}, delivered | {"line_number": 3, "malformed_reason": "no number"}]
    bronze = pa.Table.from_pylist(rows, schema=arrow_schema(bronze_columns(source)))
    row_writer.append(locations.bronze(lake, "events"), bronze, partition_by=["arrival_date"])
    claim = sound | {"kind": "insert", "standing": "admitted", "beyond": False, "failed_rules": []}
    claims = [{name: value for name, value in claim.items() if name in key_log.SCHEMA.names}]
    append_claims(lake, "events", claims)
    for _ in range(2):  # a stopped run is repeated
        account_tables.after_ingestions(lake, source, [DeliveredFile("f1.csv", "f1", DAYS[0], NOON)], 1, {})
        disposed = locations.dispositions(lake, "events").read(["line_number", "disposition", "because"])
        assert disposed is not None
        assert sorted(map(tuple, (row.values() for row in disposed.to_pylist()))) == [
            (2, "applied", "lives"),
            (3, "malformed", "no number"),
        ]


def test_a_row_is_written_once_where_another_delivery_of_its_key_is_entered_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, source = lake_in(tmp_path), contract(changes={})
    files = [DeliveredFile(f"{name}.csv", name, DAYS[0], NOON) for name in ("f1", "f2")]
    sound = [
        {"arrival_date": DAYS[0], "arrival_ts": NOON, "ingestion_id": file.ingestion_id, "source_file": file.path}
        | {"line_number": 2, "record_key": "a", "event_date": DAYS[0], "source_sequence": number}
        for number, file in enumerate(files)
    ]
    rows = [row | {"change_op": "insert"} for row in sound]
    bronze = pa.Table.from_pylist(rows, schema=arrow_schema(bronze_columns(source)))
    row_writer.append(locations.bronze(lake, "events"), bronze, partition_by=["arrival_date"])
    claims = [row | {"kind": "insert", "standing": "admitted", "beyond": False, "failed_rules": []} for row in sound]
    append_claims(
        lake, "events", [{name: value for name, value in row.items() if name in key_log.SCHEMA.names} for row in claims]
    )
    pieces, begun = account.pieces, []

    def the_other_is_faster(*arguments: Any, **options: Any) -> Iterator[pa.Table]:
        if not begun:
            begun.append(True)
            account_tables.after_ingestions(lake, source, files[1:], 0, {})
        yield from pieces(*arguments, **options)

    monkeypatch.setattr(account, "pieces", the_other_is_faster)
    account_tables.after_ingestions(lake, source, files[:1], 0, {})
    disposed = locations.dispositions(lake, "events").read(["ingestion_id", "disposition"])
    assert disposed is not None
    assert sorted(tuple(row.values()) for row in disposed.to_pylist()) == [("f1", "duplicate"), ("f2", "applied")]
