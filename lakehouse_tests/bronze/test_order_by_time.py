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
from lakehouse.dispositions import claims
from lakehouse_tests.support.both_readers import DELIVERY, assert_same, outcome
from lakehouse_tests.support.lake import SampleLake, contract, csv_file

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


@pytest.mark.parametrize("seq", ["", "7", "2024-02-01 00:00:00", "2024-02-30"])
def test_what_is_no_time_is_malformed(seq: str) -> None:
    [reason] = sequences(source(), csv(seq))
    assert isinstance(reason, str)
    assert reason.startswith("seq: ")


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_a_day_is_its_start_in_the_zone_of_the_contract(zone: str) -> None:
    """The contract refuses a field of type date as an integer, and advises to order by it as a time or as clocks.arrival."""
    start = datetime(2024, 1, 31, 23, tzinfo=timezone.utc) if zone == "Europe/Berlin" else DAY
    fields = [{"name": "id", "type": "string"}, {"name": "amount", "type": "int"}]
    by_day = {"clocks": {"event": "event_time", "timezone": zone}, "order": {"sequence": {"column": "seq", "type": "time"}}}
    of = contract(**by_day, model={"fields": [*fields, {"name": "seq", "type": "date"}]})
    assert sequences(of, csv("2024-02-01", "2024-02-01 00:00:00")) == [start, start]
    assert sequences(contract(**by_day), csv("2024-02-01")) == [start]

    of = contract(
        clocks={"event": "event_time", "timezone": zone, "arrival": "arrived_at"},
        model={"fields": [*fields, {"name": "arrived_at", "type": "date"}]},
    )
    content = csv_file(["k,1,2024-01-31T12:00:00Z,2024-02-01,insert,,", "k,1,2024-01-31,2024-02-01,insert,,"])
    assert_same(of, content, 2**20)
    rows = outcome(rows_by_columns, of, content)
    assert not isinstance(rows, str)
    assert rows["malformed_reason"].to_pylist() == [None, None]
    assert rows["arrival_ts"].to_pylist() == [start, start]


def test_the_bound_is_that_of_the_arrival_clock() -> None:
    assert DELIVERY.arrival_date == date(2024, 2, 1)
    late, later = sequences(source(), csv("2024-02-03T00:00:00Z", "2024-02-03T00:00:01Z"))
    assert late == datetime(2024, 2, 3, tzinfo=timezone.utc)
    assert later == f"seq: 2024-02-03T00:00:01Z {AHEAD}"


@pytest.mark.parametrize(
    ("line", "sequence"),
    [
        ("o1,10,2024-01-31T12:00:00Z,,insert,,", -1),
        ("o1,10,2024-01-31T12:00:00Z,,,,", -1),
        ("o1,12,2024-01-31T12:00:00Z,2024-02-01T01:00:00Z,insert,,", 0),
        ("o1,12,2024-01-31T12:00:00Z,,correct,,", 0),
        ("o1,,,,delete,,", 0),
        ("o2,12,2024-01-31T12:00:00Z,,insert,o1,", 0),
    ],
)
def test_an_insert_without_a_time_of_its_own_comes_before_each_record_with_one(line: str, sequence: int) -> None:
    """Many systems leave the time of the last update empty until the first one."""
    content = f"id,amount,event_time,arrived_at,op,corrects,seq\n{line}\n".encode()
    assert_same(contract(), content, 2**20)
    rows = outcome(rows_by_columns, contract(), content)
    assert not isinstance(rows, str)
    assert rows["source_sequence"].to_pylist() == [sequence]


def test_what_is_ordered_by_numbers_or_by_its_delivery_keeps_its_order() -> None:
    line = "o1,10,2024-01-31T12:00:00Z,,insert,,7"
    content = f"id,amount,event_time,arrived_at,op,corrects,seq\n{line}\n".encode()
    for of, sequence in ((contract(order={"sequence": "seq"}), 7), (contract(clocks={"event": "event_time"}), 0)):
        assert_same(of, content, 2**20)
        assert outcome(rows_by_columns, of, content)["source_sequence"].to_pylist() == [sequence]


@pytest.mark.spark
@pytest.mark.parametrize("first", [0, 1])
def test_an_update_counts_although_the_row_before_it_has_no_time(lake, spark, first: int) -> None:
    lines = ["o1,10,2024-01-31T12:00:00Z,,,,", "o1,12,2024-01-31T12:00:00Z,2024-02-01T10:00:00Z,,,"]
    sample = SampleLake(lake, contract(), spark)
    for number in (first, 1 - first):
        sample.deliver(date(2024, 2, 1), csv_file([lines[number]]), f".{number}.csv")
        sample.ingest(date(2024, 2, 1))
        sample.update()
    assert [row[2] for row in sample.silver()] == [12]


def test_a_later_delivery_of_such_inserts_replaces_its_day_all_the_same(lake) -> None:
    source = contract(materialization={"reprocess_policy": "overwrite_partition_safe"}, changes={})
    sample = SampleLake(lake, source, None)
    for day, arrival in ((1, "2024-02-01T01:00:00Z"), (2, "")):
        sample.deliver(date(2024, 2, day), csv_file([f"o1,{day},2024-01-31T12:00:00Z,{arrival},,,"]))
        (entry,) = sample.ingest(date(2024, 2, day)).ingested
    chosen = claims.choices(lake, source, [date(2024, 1, 31)])
    assert chosen[date(2024, 1, 31)].counting == {entry.ingestion_id}
