"""Rows that are read by columns are those that the exact reader gives, and every message is one row."""

from __future__ import annotations

import json
from datetime import timedelta
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.streams import message_rows
from lakehouse_tests.support.kafka_lake import at, contract, milliseconds
from lakehouse_tests.support.message_columns import NOW, columns, rows

SOURCE = contract("t", "a:1")
_FIELDS = {
    "id": st.sampled_from(["a", "b", "", None, 7]),
    "amount": st.one_of(st.integers(-5, 5), st.sampled_from(["x", None, 1.5])),
    "event_time": st.sampled_from(["2024-01-02T10:00:00Z", "2024-01-09", "2025-01-01T00:00:00Z", "never", None]),
    "op": st.sampled_from(["insert", "correct", "delete", "?", None]),
}
_RECORDS = st.fixed_dictionaries({}, optional=_FIELDS).map(lambda record: json.dumps(record).encode())
_ODD = st.sampled_from([None, b"", b" \n", b"{", b"\xff", b"null", b"[]", b'{"id": "a",\n "event_time": "2024-01-02"}\r\n'])
_MOMENTS = st.sampled_from([at(2), at(3), at(10), None, milliseconds(NOW + timedelta(days=2)), 5])


@pytest.mark.merge
@settings(max_examples=60)
@given(sent=st.lists(st.tuples(st.one_of(_RECORDS, _RECORDS, _ODD), _MOMENTS), min_size=1, max_size=30))
def test_both_readers_agree_and_each_message_is_one_row(sent: list[tuple[bytes | None, int | None]]) -> None:
    messages = columns([value for value, _ in sent], [moment for _, moment in sent])
    by_columns = rows(SOURCE, messages)
    with patch.object(message_rows, "can_read_by_columns", return_value=False):
        exact = rows(SOURCE, messages)
    assert by_columns.to_pylist() == exact.to_pylist()
    assert by_columns["kafka_offset"].to_pylist() == messages.offsets
    ids = list(zip(by_columns["ingestion_id"].to_pylist(), by_columns["line_number"].to_pylist()))
    assert len(set(ids)) == len(sent)
    assert ids == sorted(ids) or by_columns["arrival_date"].to_pylist() != sorted(by_columns["arrival_date"].to_pylist())
    valued = [value is not None for value, _ in sent]
    assert [raw is not None for raw in by_columns["raw_payload"].to_pylist()] == valued
