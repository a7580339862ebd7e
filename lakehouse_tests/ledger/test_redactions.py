"""Redacted fields are empty wherever rows are shown."""

from __future__ import annotations

import pyarrow as pa

from lakehouse.ledger import redactions

ROWS = pa.table({"record_key": ["a", "b"], "name": ["Ann", "Ben"], "raw_payload": ["a,Ann", "b,Ben"], "count": [1, 2]})


def test_a_redacted_field_is_empty_and_with_it_the_record_as_it_was_read() -> None:
    assert redactions.applied(ROWS, {"name": {"b"}}).to_pylist() == [
        {"record_key": "a", "name": "Ann", "raw_payload": "a,Ann", "count": 1},
        {"record_key": "b", "name": None, "raw_payload": None, "count": 2},
    ]


def test_a_field_that_the_contract_no_longer_has_hides_the_record_as_it_was_read() -> None:
    assert redactions.applied(ROWS, {"address": {"a"}})["raw_payload"].to_pylist() == [None, "b,Ben"]
    without = ROWS.drop_columns(["raw_payload"])
    assert redactions.applied(without, {"address": {"a"}}).equals(without)
