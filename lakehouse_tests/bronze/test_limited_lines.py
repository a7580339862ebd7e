"""A line that is too long becomes one malformed row with its beginning as raw text, and never lies in memory as a whole."""

from __future__ import annotations

import gzip
import io
import json
import tracemalloc
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse.bronze import csv_columns, line_limits
from lakehouse.bronze.file_formats import MAX_LINES_OF_A_RECORD, FileProblem, check_readable, read_records
from lakehouse.bronze.reader import exact_rows, parts_of, rows_by_columns
from lakehouse.contracts.inputs import Source
from lakehouse.dispositions.readings import RECEIVED
from lakehouse.project import inference
from lakehouse.project.inference import InferenceError
from lakehouse.reparse.read_again import RawFile, rows_read_otherwise
from lakehouse_tests.support.both_readers import DELIVERY, assert_same, outcome
from lakehouse_tests.support.lake import contract

if TYPE_CHECKING:
    from lakehouse.contracts.source import SourceContract

LIMIT = 200
HEADER = b"id,amount,event_time,arrived_at,op,corrects,seq\n"
LONG = b"x" * 500
#: Long lines among whole ones, in each place where a reader may meet them.
CSV = {
    "between records": [b"GOOD", LONG, b"GOOD"],
    "at the end, without an end of line": [b"GOOD", LONG],
    "at the end of an open quote": [b'q,"open', LONG, b"GOOD", b'z",1,,,,,'],
    "with a quote that is not closed": [b'"' + LONG, b"GOOD", b'rest",1,,,,,', b"GOOD"],
    "two of them": [LONG, b'"' + LONG, b"GOOD"],
    "nothing but returns": [b"\r" * 500, b"GOOD"],
    "one byte too long": [b"GOOD", b"y" * LIMIT, b"GOOD"],
    "as long as allowed": [b"GOOD", b"y" * (LIMIT - 1), b"GOOD"],
    "a record of many lines": [b'm,"' + b"y" * 90, *[b"y" * 90] * 6, b'",2024-01-30T10:00:00Z,,insert,,0', b"GOOD"],
}
GOOD = b"k%d,1,2024-01-30T10:00:00Z,2024-02-01T10:00:00Z,insert,,0"


@pytest.fixture(autouse=True)
def _low_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_limits, "MAX_RECORD_BYTES", LIMIT)


def source(file_format: str) -> SourceContract:
    landing = {"landing": "arrival_date={arrival_date}*", "start_date": "2024-01-01"}
    return contract(source={**landing, "format": file_format}, changes={"op": "op", "corrects_event_id": "corrects"})


def csv_text(lines: list[bytes]) -> bytes:
    return HEADER + b"\n".join(GOOD % number if line == b"GOOD" else line for number, line in enumerate(lines))


def json_text(*lines: bytes) -> bytes:
    good = json.dumps({"id": "a", "amount": 1, "event_time": "2024-01-30T10:00:00Z", "arrived_at": "2024-02-01T10:00:00Z"})
    return b"\n".join(good.encode() if line == b"GOOD" else line for line in lines)


@pytest.mark.parametrize("block_bytes", [1, 60, 450, 2**21])
@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("name", CSV)
def test_both_readers_give_the_same_rows_of_csv(name: str, zipped: bool, block_bytes: int) -> None:
    content = csv_text(CSV[name])
    assert_same(source("csv"), gzip.compress(content) if zipped else content, block_bytes)


@pytest.mark.parametrize("block_bytes", [1, 60, 450, 2**21])
@pytest.mark.parametrize("zipped", [False, True])
def test_both_readers_give_the_same_rows_of_json(zipped: bool, block_bytes: int) -> None:
    content = json_text(b"GOOD", b'{"id": "' + LONG + b'"}', b" " * 500, b"GOOD")
    assert_same(source("json"), gzip.compress(content) if zipped else content, block_bytes)


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize(
    ("file_format", "content"), [("csv", csv_text([b"GOOD", LONG, b"GOOD"])), ("json", json_text(b"GOOD", LONG, b"GOOD"))]
)
def test_the_row_says_how_long_the_line_is_and_the_others_are_read(file_format: str, content: bytes, zipped: bool) -> None:
    rows = outcome(rows_by_columns, source(file_format), gzip.compress(content) if zipped else content)
    assert isinstance(rows, pa.Table)
    reasons = rows["malformed_reason"].to_pylist()
    assert (reasons[0], reasons[2]) == (None, None)
    assert reasons[1].startswith("longer than 200 bytes (501): the raw text is its first 200 bytes; have the file sent again")
    assert rows["raw_payload"].to_pylist()[1] == "x" * 200
    assert rows["record_key"].null_count == 1


def parquet_rows(*keys: str) -> bytes:
    moments = {"event_time": "2024-01-30T10:00:00Z", "arrived_at": "2024-02-01T10:00:00Z"}
    rows = [{"id": key, "amount": 1, **moments, "op": "insert", "corrects": None, "seq": 0} for key in keys]
    pq.write_table(pa.Table.from_pylist(rows), packed := io.BytesIO(), compression="zstd")
    return packed.getvalue()


def test_a_row_of_parquet_that_is_too_long_is_malformed_and_the_others_are_read() -> None:
    content = parquet_rows("a", "x" * 500, "b")
    rows = outcome(rows_by_columns, source("parquet"), content)
    assert isinstance(rows, pa.Table)
    assert rows["id"].to_pylist() == ["a", None, "b"]
    [reason] = rows["malformed_reason"].drop_null().to_pylist()
    assert reason.startswith("longer than 200 bytes (546): the raw text is its first 200 bytes; have the file sent again")
    assert rows["raw_payload"].to_pylist()[1] == "x" * 200
    assert_same(source("parquet"), content, 2**21)


def test_what_is_kept_of_a_line_is_limited_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_limits, "KEPT_BYTES", 10)
    (record,) = read_records(io.BytesIO(LONG), Source(format="json"), [])
    assert record.raw == "x" * 10
    assert "(500): the raw text is its first 10 bytes" in f"{record.problem}"


def test_a_header_that_is_too_long_holds_the_file() -> None:
    with pytest.raises(FileProblem, match=r"^line 1: the header is longer than 200 bytes \(501\)"):
        list(read_records(io.BytesIO(LONG + b"\n1\n"), Source(format="csv"), []))


@pytest.mark.parametrize(("file_format", "size"), [("csv", 1), ("csv", 5_000), ("json", 1), ("json", 900)])
def test_the_parts_of_a_file_give_all_rows(file_format: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_columns, "_CHUNK", 64)
    many: list[bytes] = [b"GOOD"] * (MAX_LINES_OF_A_RECORD + 2 if file_format == "csv" else 6)
    lines = [*many, LONG, *many, b'"' + LONG, b'stray",1,,,,,', *many]
    content = csv_text(lines) if file_format == "csv" else json_text(*lines)
    expected = outcome(exact_rows, source(file_format), content)
    assert isinstance(expected, pa.Table)
    parts = parts_of(source(file_format), io.BytesIO(content), size)
    assert len(parts) > 1
    tables = [outcome(rows_by_columns, source(file_format), content, 2**21, part) for part in parts]
    assert [repr(row) for table in tables for row in table.to_pylist()] == [repr(row) for row in expected.to_pylist()]


@pytest.mark.parametrize("file_format", ["csv", "json"])
def test_a_line_that_was_cut_stays_malformed_when_it_is_read_again(file_format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_limits, "KEPT_BYTES", len(GOOD % 1))
    content = csv_text([(GOOD % 1) + LONG]) if file_format == "csv" else json_text(LONG)
    rows = outcome(exact_rows, source(file_format), content)
    assert isinstance(rows, pa.Table)
    raw = RawFile(DELIVERY.path, HEADER.decode().strip(), DELIVERY.received_at - timedelta(hours=1))
    in_force = rows.append_column(RECEIVED, rows["arrival_ts"])
    assert len(rows_read_otherwise(source(file_format), {DELIVERY.ingestion_id: raw}, in_force)) == 0


def test_infer_says_it_of_a_sample(tmp_path: Path) -> None:
    sample = tmp_path / "sample.csv.gz"
    sample.write_bytes(gzip.compress(b"a,b\n1," + LONG + b"\n"))
    with pytest.raises(InferenceError, match=r"sample.csv.gz, line 2: longer than 200 bytes"):
        inference.read(sample, inference.source_of(sample))
    sample.write_bytes(gzip.compress(LONG))
    with pytest.raises(InferenceError, match=r"line 1: the header is longer than 200 bytes"):
        inference.read(sample, inference.source_of(sample))
    sample.write_bytes(gzip.compress(LONG)[:-9])
    with pytest.raises(InferenceError, match="the gzip stream breaks off"):
        inference.source_of(sample)


@pytest.fixture(name="long_line", scope="module")
def _long_line() -> bytes:
    """One line of 64 MB in a gzip of some KB."""
    packed = io.BytesIO()
    with gzip.open(packed, "wb") as unpacked:
        for _ in range(64):
            unpacked.write(b"1" * 2**20)
    return packed.getvalue()


@pytest.mark.parametrize("reader", ["json", "csv", "check", "infer"])
def test_memory_stays_small_however_long_a_line_becomes(
    long_line: bytes, reader: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(line_limits, "MAX_RECORD_BYTES", 2**20)
    file = tmp_path / "long.gz"
    file.write_bytes(long_line)
    tracemalloc.start()
    try:
        if reader == "infer":
            assert inference.source_of(file).format == "csv"
        elif reader == "check":
            check_readable(io.BytesIO(long_line))
        elif reader == "json":
            (batch,) = rows_by_columns(source("json"), DELIVERY, io.BytesIO(long_line))
            assert "(67,108,864)" in batch["malformed_reason"][0].as_py()
        else:
            with pytest.raises(FileProblem, match="the header is longer"):
                list(rows_by_columns(source("csv"), DELIVERY, io.BytesIO(long_line)))
        assert tracemalloc.get_traced_memory()[1] < 8 * 2**20
    finally:
        tracemalloc.stop()
