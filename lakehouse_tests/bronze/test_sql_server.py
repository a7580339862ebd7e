"""The rows of SQL Server's change tables."""

from __future__ import annotations

import re
from typing import Any

import pytest

from lakehouse.bronze.envelopes import encoded, unfold_sql_server

ROW: dict[str, Any] = {
    "id": 1,
    "__$start_lsn": "0x0000002C000001A80003",
    "__$seqval": "0x0000002C000001A80002",
    "__$operation": "2",
}


def place(**changes: Any) -> tuple[int, str]:
    sequence, text = encoded(unfold_sql_server(ROW | {f"__${name}": value for name, value in changes.items()}, ["id"]).order)
    return sequence, text or ""


@pytest.mark.parametrize(("operation", "op"), [(1, "delete"), ("2", "insert"), (3, "delete"), ("4", "correct")])
def test_an_operation_has_a_meaning(operation: Any, op: str) -> None:
    change = unfold_sql_server(ROW | {"__$operation": operation}, ["id"])
    assert (change.op, change.row["id"], change.former) == (op, 1, None)


def test_changes_follow_the_commit_the_sequence_within_it_and_the_operation() -> None:
    places = [("1", "9", 4), ("9", "1", 1), ("9", "1", 2), ("9", "a", 3), ("9", "a", 4), ("f0", "0", 1)]
    placed = [place(start_lsn=lsn.zfill(20), seqval=seqval.zfill(20), operation=operation) for lsn, seqval, operation in places]
    assert placed == sorted(placed)
    assert len(set(placed)) == len(placed)


def test_a_number_may_be_written_with_its_prefix_and_in_capitals() -> None:
    assert (
        place(start_lsn="0x0000002C000001A80003")
        == place(start_lsn="0000002c000001a80003")
        == place(start_lsn="0X0000002c000001a80003")
    )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"__$operation": None}, "__$operation: missing from the envelope"),
        ({"__$operation": "update"}, "__$operation: 'update' is not an integer"),
        ({"__$operation": 5}, "__$operation: 5 is none of 1, 2, 3, 4"),
        ({"__$start_lsn": ""}, "__$start_lsn: missing from the envelope"),
        ({"__$start_lsn": "0x2C"}, "__$start_lsn: '0x2C' is not 20 hexadecimal digits"),
        ({"__$start_lsn": b"\0" * 10}, f"__$start_lsn: {str(bytes(10))[:60]!r} is not 20 hexadecimal digits"),
        ({"__$seqval": "0x0000002C000001A8000g"}, "__$seqval: '0x0000002C000001A8000g' is not 20 hexadecimal digits"),
    ],
)
def test_a_malformed_row_has_a_reason_that_names_the_column(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}$"):
        unfold_sql_server(ROW | changes, ["id"])
