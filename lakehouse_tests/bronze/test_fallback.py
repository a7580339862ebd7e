"""Where Arrow cannot read a block, or finds other records in it than one a line, the exact reader reads the block."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakehouse.bronze import csv_columns, json_columns
from lakehouse_tests.support.both_readers import assert_same
from lakehouse_tests.support.lake import contract

CONTENTS = {
    "csv": b"id,amount,event_time,arrived_at,op,corrects,seq\n"
    b"a,1,2024-01-30T10:00:00Z,2024-02-01T10:00:00Z,insert,,0\n"
    b"b,two,2024-01-30T10:00:00Z,2024-02-01T10:00:00Z,insert,,0\n",
    "json": b'{"id": "a", "amount": 1, "event_time": "2024-01-30T10:00:00Z", "arrived_at": "2024-02-01T10:00:00Z"}\n'
    b'{"id": "b", "amount": "two", "event_time": "2024-01-30T10:00:00Z", "arrived_at": "2024-02-01T10:00:00Z"}\n',
}
READERS = {"csv": (csv_columns.pa_csv, "read_csv"), "json": (json_columns.pa_json, "read_json")}


@pytest.mark.parametrize("fault", ["it fails", "it loses a record"])
@pytest.mark.parametrize("file_format", ["csv", "json"])
def test_a_block_that_arrow_does_not_read_is_read_exactly(file_format: str, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = contract(
        source={"landing": "arrival_date={arrival_date}*", "start_date": "2024-01-01", "format": file_format},
        changes={} if file_format == "json" else {"op": "op", "corrects_event_id": "corrects"},
    )
    module, name = READERS[file_format]
    read = getattr(module, name)
    faults = 0

    def faulty(*arguments: Any) -> pa.Table:
        nonlocal faults
        faults += 1
        if fault == "it fails":
            raise pa.ArrowInvalid(fault)
        return read(*arguments).slice(1)

    monkeypatch.setattr(module, name, faulty)
    assert_same(source, CONTENTS[file_format], 2**21)
    assert faults == 1
