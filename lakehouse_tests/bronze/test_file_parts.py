"""The parts of a large file together give the rows of the exact reader, wherever they are cut."""

from __future__ import annotations

import gzip
import io
from datetime import date

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse.bronze.file_formats import MAX_LINES_OF_A_RECORD
from lakehouse.bronze.reader import exact_rows, parts_of, rows_by_columns
from lakehouse.contracts.source import SourceContract
from lakehouse_tests.support.both_readers import outcome
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.laws import law
from lakehouse_tests.support.row_histories import FEEDS, RowChange, RowState
from lakehouse_tests.support.written_records import contracts, files

LANDING = {"landing": "arrival_date={arrival_date}*", "start_date": "2024-01-01"}
HEADER = b"id,amount,event_time,arrived_at,op,corrects,seq\n"
BLOCK_BYTES = 2**21
#: What may stand between whole records: lines that are more or less than one.
ODD_LINES = (
    b'"open,1,2024-01-30T10:00:00Z,,insert,,0\n',
    b'x,"1\n2",2024-01-30T10:00:00Z,,insert,,0\n',
    b'x,1"2,2024-01-30T10:00:00Z,,insert,,0\n',
    b"x,1\r2,,,insert,,0\n",
    b"\xef\xbb\xbfx,1,\xff,,insert,,0\r\n",
    b"\n",
    b'\n"\n\n',
    b"x,\x00,2024-01-30T10:00:00Z,,insert,,0\n",
)


def csv_contract() -> SourceContract:
    return contract(source={**LANDING, "format": "csv"}, changes={"op": "op", "corrects_event_id": "corrects"})


def whole_lines(number: int) -> bytes:
    return b"".join(b'k%d,"%d",2024-01-30T10:00:00Z,2024-02-01T10:00:00Z,insert,,0\n' % (row % 7, row) for row in range(number))


def assert_parts_give_all_rows(source: SourceContract, content: bytes, size: int) -> int:
    """Compare the rows of all parts with those of the exact reader; returns the number of parts."""
    expected = outcome(exact_rows, source, content)
    if isinstance(expected, str):
        return 0
    parts = parts_of(source, io.BytesIO(content), size)
    tables = [outcome(rows_by_columns, source, content, BLOCK_BYTES, part) for part in parts]
    assert [repr(row) for table in tables for row in table.to_pylist()] == [repr(row) for row in expected.to_pylist()]
    return len(parts)


@law(25)
@given(
    st.lists(
        st.tuples(st.integers(MAX_LINES_OF_A_RECORD - 3, MAX_LINES_OF_A_RECORD + 5), st.sampled_from(ODD_LINES)),
        min_size=1,
        max_size=4,
    ),
    st.integers(1, 200_000),
)
@example([(MAX_LINES_OF_A_RECORD - 1, ODD_LINES[0]), (MAX_LINES_OF_A_RECORD - 1, ODD_LINES[0])], 1)
@example([(MAX_LINES_OF_A_RECORD, ODD_LINES[0]), (MAX_LINES_OF_A_RECORD, ODD_LINES[2])], 1)
def test_no_cut_of_csv_is_inside_a_record(stretches: list[tuple[int, bytes]], size: int) -> None:
    content = HEADER + b"".join(odd + whole_lines(number) for number, odd in stretches)
    assert assert_parts_give_all_rows(csv_contract(), content, size)


def test_csv_is_cut_where_enough_whole_lines_are() -> None:
    assert assert_parts_give_all_rows(csv_contract(), HEADER + whole_lines(3 * MAX_LINES_OF_A_RECORD + 10), 1) == 4


def test_csv_without_enough_whole_lines_is_one_part() -> None:
    content = HEADER + (whole_lines(MAX_LINES_OF_A_RECORD - 1) + ODD_LINES[2]) * 3
    assert assert_parts_give_all_rows(csv_contract(), content, 1) == 1


@law(200, in_each_run=40)
@given(st.data())
def test_generated_files_may_be_cut_anywhere(data: st.DataObject) -> None:
    source = SourceContract.model_validate(data.draw(contracts()))
    assert_parts_give_all_rows(source, data.draw(files(source)), data.draw(st.sampled_from([1, 64, 300])))


def test_json_is_cut_behind_any_line() -> None:
    source = contract(source={**LANDING, "format": "json"})
    line = b'{"id": "%d", "amount": 1, "event_time": "2024-01-30T10:00:00Z"}\n'
    content = b"\xef\xbb\xbf" + b"".join(line % row if row % 5 else b"\n[]\n" for row in range(200))
    assert assert_parts_give_all_rows(source, content, 500) > 10


def test_a_change_feed_of_json_lines_is_cut_behind_any_line() -> None:
    feed = FEEDS["debezium of postgresql"]
    rows = [RowState(number % 7, number, date(2024, 1, 1)) for number in range(60)]
    changes = [RowChange(row, None, number, number) for number, row in enumerate(rows)]
    content = feed.file([record for change in changes for record in feed.records(change)] + [[], {"op": "x"}])
    assert assert_parts_give_all_rows(feed.contract, content, 500) > 10


@pytest.mark.parametrize("name", ["sql server, csv", "delta feed, parquet"])
def test_another_change_feed_is_one_part(name: str) -> None:
    feed = FEEDS[name]
    content = feed.file(feed.records(RowChange(None, RowState(1, 1, date(2024, 1, 1)), 0, 0)) * 3_000)
    assert assert_parts_give_all_rows(feed.contract, content, 500) == 1


def test_parquet_is_cut_between_row_groups() -> None:
    source = contract(source={**LANDING, "format": "parquet"})
    values = {"id": [f"k{row}" for row in range(100)], "amount": [float(row) for row in range(100)]}
    times = {name: ["2024-01-30T10:00:00Z"] * 100 for name in source.columns_read if name not in values}
    stream = io.BytesIO()
    pq.write_table(pa.table(values | times), stream, row_group_size=10)
    assert assert_parts_give_all_rows(source, stream.getvalue(), 1) == 10


@pytest.mark.parametrize("file_format", ["csv", "json"])
def test_a_compressed_file_is_one_part(file_format: str) -> None:
    source = contract(source={**LANDING, "format": file_format})
    assert parts_of(source, io.BytesIO(gzip.compress(HEADER + whole_lines(3_000))), 1) == [None]
