"""The model against cases worked out by hand: it judges the code, so it must not share its mistakes."""

from __future__ import annotations

from datetime import date, datetime, timezone
from typing import Any

import pytest

from lakehouse_tests.support.reference_model import Record, live_rows

FIRST, SECOND = date(2024, 1, 1), date(2024, 1, 2)


def record(hour: int, op: Any, day: date | None = FIRST, key: str = "a", **more: Any) -> Record:
    return Record(key, op, day, 0, datetime(2024, 2, 1, hour, tzinfo=timezone.utc), **more)


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([record(1, "insert"), record(2, "correct", SECOND)], {"a": SECOND}),
        ([record(2, "insert"), record(1, "correct", SECOND)], {"a": FIRST}),
        ([record(1, "insert"), record(2, "delete", None)], {}),
        ([record(3, "insert"), record(2, "delete", None)], {"a": FIRST}),
        ([record(1, "insert"), record(2, "correct", SECOND, "b", corrects="a")], {"b": SECOND}),
        ([record(3, "insert"), record(2, "correct", SECOND, "b", corrects="a")], {"b": SECOND}),
        ([record(3, "correct"), record(2, "correct", SECOND, "b", corrects="a")], {"a": FIRST, "b": SECOND}),
        ([record(1, "correct", SECOND, corrects="a")], {"a": SECOND}),
        ([record(1, "insert", file="2"), record(1, "correct", SECOND, file="1")], {"a": FIRST}),
    ],
)
def test_the_rule_by_hand(records: list[Record], expected: dict[str, date]) -> None:
    for order in (records, records[::-1]):
        assert {key: row.day for key, row in live_rows(order, by_sequence=False).items()} == expected


def test_a_sequence_outranks_arrival_and_brings_a_retired_key_back() -> None:
    retiring = record(2, "correct", SECOND, "b", corrects="a", sequence=1)
    assert set(live_rows([record(1, "insert", sequence=2), retiring], by_sequence=True)) == {"a", "b"}
