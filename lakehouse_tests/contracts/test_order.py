"""The section ``order`` of a contract: one column or several, integers or text."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from lakehouse.contracts.record_changes import Order
from lakehouse.contracts.source import SourceContract


def order(sequence: Any) -> Order:
    return Order.model_validate({"sequence": sequence})


@pytest.mark.parametrize(
    ("sequence", "columns"),
    [
        (None, []),
        ("lsn", [("lsn", "integer")]),
        (["lsn"], [("lsn", "integer")]),
        ({"column": "at", "type": "text"}, [("at", "text")]),
        ({"column": "at", "type": "time"}, [("at", "time")]),
        (["commit", {"column": "change", "type": "text"}], [("commit", "integer"), ("change", "text")]),
    ],
)
def test_a_column_is_an_integer_unless_it_says_that_it_is_text(sequence: Any, columns: list[tuple[str, str]]) -> None:
    assert [(item.column, item.type) for item in order(sequence).sequence] == columns


@pytest.mark.parametrize("sequence", [None, "lsn", ["commit", {"column": "change", "type": "text"}]])
def test_an_order_is_written_such_that_it_is_read_again(sequence: Any) -> None:
    written = order(sequence).model_dump(mode="json")
    assert Order.model_validate(written) == order(sequence)


@pytest.mark.parametrize(("sequence", "written"), [(None, None), ("lsn", "lsn"), (["lsn"], "lsn")])
def test_an_order_of_one_integer_is_written_as_before_there_were_others(sequence: Any, written: Any) -> None:
    assert order(sequence).model_dump(mode="json") == {"sequence": written}


@pytest.mark.parametrize(
    ("sequence", "mistake"),
    [
        (["lsn", "lsn"], "named twice: lsn"),
        ({"column": "lsn", "type": "hex"}, "'integer', 'text' or 'time'"),
        (7, "valid dictionary"),
    ],
)
def test_a_mistake_is_named(sequence: Any, mistake: str) -> None:
    with pytest.raises(ValidationError, match=mistake):
        order(sequence)


@pytest.mark.parametrize(
    ("kind", "refused"), [("timestamp", True), ("date", True), ("double", True), ("long", False), ("string", False)]
)
def test_a_field_that_holds_no_integers_is_no_sequence_but_its_text_may_be(kind: str, refused: bool) -> None:
    content: dict[str, Any] = {
        "dataset": "seq",
        "primary_key": ["id"],
        "clocks": {"event": "at"},
        "model": {"fields": [{"name": "id", "type": "string"}, {"name": "changed", "type": kind, "column": "updated_at"}]},
    }
    assert SourceContract.model_validate(content | {"order": {"sequence": {"column": "updated_at", "type": "text"}}})
    if not refused:
        assert SourceContract.model_validate(content | {"order": {"sequence": "updated_at"}})
        return
    as_type = "text" if kind == "double" else "time"
    told = f"order.sequence: updated_at is a {kind}, and a sequence is an integer; write '.column: updated_at, type: {as_type}.'"
    with pytest.raises(ValidationError, match=told):
        SourceContract.model_validate(content | {"order": {"sequence": "updated_at"}})


def test_a_column_that_the_contract_reads_as_a_time_is_an_order_by_time() -> None:
    content: dict[str, Any] = {
        "dataset": "seq",
        "primary_key": ["id"],
        "source": {"formats": {"changed_ms": "epoch_milliseconds"}},
        "clocks": {"event": "at"},
        "model": {"fields": [{"name": "id", "type": "string"}]},
    }
    with pytest.raises(ValidationError, match=r"changed_ms holds times \(source.formats\); write '{column: changed_ms,"):
        SourceContract.model_validate(content | {"order": {"sequence": "changed_ms"}})
    assert SourceContract.model_validate(content | {"order": {"sequence": {"column": "changed_ms", "type": "time"}}})
