"""The rows of a Delta table's change feed."""

from __future__ import annotations

import re
from typing import Any

import pytest

from lakehouse.bronze.envelopes import encoded, unfold_delta_feed

ROW: dict[str, Any] = {"id": 1, "_change_type": "insert", "_commit_version": 7, "_commit_timestamp": "2024-01-01T00:00:00Z"}


def place(kind: str, version: Any) -> tuple[int, str]:
    sequence, text = encoded(unfold_delta_feed(ROW | {"_change_type": kind, "_commit_version": version}, ["id"]).order)
    return sequence, text or ""


@pytest.mark.parametrize(
    ("kind", "op"),
    [("insert", "insert"), ("update_preimage", "delete"), ("update_postimage", "correct"), ("delete", "delete")],
)
def test_a_change_type_has_a_meaning(kind: str, op: str) -> None:
    change = unfold_delta_feed(ROW | {"_change_type": kind}, ["id"])
    assert (change.op, change.row["id"], change.former) == (op, 1, None)


def test_a_commit_removes_before_it_adds() -> None:
    assert place("insert", 8) < place("update_preimage", 9) < place("update_postimage", "9") < place("delete", 10)
    assert place("delete", 9) < place("insert", 9)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"_change_type": None}, "_change_type: missing from the envelope"),
        ({"_change_type": "update"}, "_change_type: 'update' is none of insert, update_preimage, update_postimage, delete"),
        ({"_commit_version": ""}, "_commit_version: missing from the envelope"),
        ({"_commit_version": "7a"}, "_commit_version: '7a' is not an integer"),
    ],
)
def test_a_malformed_row_has_a_reason_that_names_the_column(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(reason)}$"):
        unfold_delta_feed(ROW | changes, ["id"])
