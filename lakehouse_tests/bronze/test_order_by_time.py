"""A source whose order is a time: compared as an instant, whatever its format, and bounded by the delivery, so that a sender's
clock in the future decides nothing for years.
"""

from __future__ import annotations

import io
from datetime import date, datetime, timezone
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse.bronze.reader import rows_by_columns
from lakehouse_tests.support.both_readers import DELIVERY, assert_same, outcome
from lakehouse_tests.support.lake import contract

DAY = datetime(2024, 2, 1, tzinfo=timezone.utc)
AHEAD = "lies more than 1 day, 0:00:00 after the delivery: the sender's clock is ahead"


def source(source_format: str = "csv", **more: Any) -> Any:
    columns = {"source": {"start_date": "2024-01-01", "format": source_format, **more}}
    return contract(order={"sequence": {"column": "seq", "type": "time"}}, **columns)


def csv(*times: str) -> bytes:
    lines = [f"k{n},1,2024-01-31T12:00:00Z,2024-02-01T01:00:00Z,insert,,{at}\n" for n, at in enumerate(times)]
    return "".join(["id,amount,event_time,arrived_at,op,corrects,seq\n", *lines]).encode()


def sequences(of: Any, content: bytes) -> list[Any]:
    """The sequence of each row as a time, or why the row is malformed; both readers agree."""
    assert_same(of, content, 2**20)
    rows = outcome(rows_by_columns, of, content)
    assert not isinstance(rows, str), rows
    return [
        row["malformed_reason"] or datetime.fromtimestamp(row["source_sequence"] / 1e6, timezone.utc) for row in rows.to_pylist()
    ]


def test_times_are_compared_as_instants_and_one_in_the_future_is_malformed() -> None:
    found = sequences(source(), csv("2024-02-01T00:00:00Z", "2024-02-01T01:00:00+01:00", "2034-02-01T00:00:00Z"))
    assert found == [DAY, DAY, f"seq: 2034-02-01T00:00:00Z {AHEAD}"]


def test_a_number_of_milliseconds_is_a_time_where_the_contract_says_so() -> None:
    of = source(formats={"seq": "epoch_milliseconds"})
    found = sequences(of, csv("1706745600000", "2022451200000"))
    assert found == [DAY, f"seq: 2034-02-02T00:00:00+00:00 {AHEAD}"]


def test_a_time_of_parquet_is_the_same_sequence() -> None:
    names = ["id", "amount", "event_time", "arrived_at", "op", "corrects", "seq"]
    values = ["k", 1, DAY, DAY, "insert", None, DAY]
    written = io.BytesIO()
    pq.write_table(pa.table({name: [value] for name, value in zip(names, values)}), written)
    assert sequences(source("parquet"), written.getvalue()) == [DAY]


@pytest.mark.parametrize("seq", ["", "7", "2024-02-01 00:00:00", "2024-02-01"])
def test_what_is_no_time_is_malformed(seq: str) -> None:
    [reason] = sequences(source(), csv(seq))
    assert isinstance(reason, str)
    assert reason.startswith("seq: ")


def test_the_bound_is_that_of_the_arrival_clock() -> None:
    assert DELIVERY.arrival_date == date(2024, 2, 1)
    late, later = sequences(source(), csv("2024-02-03T00:00:00Z", "2024-02-03T00:00:01Z"))
    assert late == datetime(2024, 2, 3, tzinfo=timezone.utc)
    assert later == f"seq: 2024-02-03T00:00:01Z {AHEAD}"
