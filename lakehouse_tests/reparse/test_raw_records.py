"""Raw records read again give the rows that the file would give now, and differ from those in force only where these do."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.bronze.file_formats import FileProblem, numbered_lines, unzipped
from lakehouse.bronze.reader import exact_rows
from lakehouse.bronze.type_conversion import null_numbers
from lakehouse.contracts.source import SourceContract
from lakehouse.delta.columns import arrow_schema, bronze_columns
from lakehouse.dispositions.readings import RECEIVED
from lakehouse.reparse.read_again import RawFile, rows_read_otherwise
from lakehouse_tests.support.both_readers import DELIVERY, outcome
from lakehouse_tests.support.lake import HEADER, contract, csv_file
from lakehouse_tests.support.laws import law
from lakehouse_tests.support.malformed_files import malformations
from lakehouse_tests.support.row_histories import DAYS, FEEDS, RowChange, RowState
from lakehouse_tests.support.written_records import contracts, files


def header_of(source: SourceContract, content: bytes) -> str | None:
    if source.source.format != "csv":
        return None
    lines = (line.rstrip(b"\r\n") for _, line in numbered_lines(unzipped(io.BytesIO(content))))
    return next(line.decode() for line in lines if line)


def with_arrival(rows: pa.Table) -> pa.Table:
    """Rows of Bronze as ``readings.pieces`` gives them: a malformed row may know the sender's clock, not when it was received."""
    return rows.append_column(RECEIVED, pc.if_else(pc.is_null(rows["malformed_reason"]), rows["arrival_ts"], None))


def read_again(before: pa.Table, source: SourceContract, content: bytes) -> pa.Table:
    """The rows of a file that is in Bronze, read again: those that read otherwise in place of the former ones."""
    raw = RawFile(DELIVERY.path, header_of(source, content), DELIVERY.received_at)
    in_force = with_arrival(before)
    otherwise = rows_read_otherwise(source, {DELIVERY.ingestion_id: raw}, in_force)
    schema = arrow_schema(bronze_columns(source))
    former = pa.table({item.name: column_of(before, item) for item in schema})
    unchanged = former.filter(pc.invert(pc.is_in(former["line_number"], otherwise["line_number"].combine_chunks())))
    return pa.concat_tables([unchanged, otherwise.select(schema.names)]).sort_by("line_number")


def column_of(rows: pa.Table, item: pa.Field) -> Any:
    return rows[item.name] if item.name in rows.column_names else pa.nulls(len(rows), item.type)


def shown(rows: pa.Table) -> list[str]:
    return [repr(row) for row in rows.to_pylist()]


def has_decimals_as_text(source: SourceContract, content: bytes) -> bool:
    """Whether a Parquet file has decimals that are read as text, or compared with a word for null (docs/rereading.md)."""
    if source.source.format != "parquet":
        return False
    schema = pq.read_schema(io.BytesIO(content))
    decimals = {name for name in source.columns_read if name in schema.names and pa.types.is_decimal(schema.field(name).type)}
    return bool(decimals) and (bool(null_numbers(source.source.nulls)) or not decimals <= source.number_columns)


@pytest.mark.merge
@pytest.mark.parametrize("file_format", ["csv", "json"])
def test_under_the_same_contract_no_row_of_a_damaged_file_reads_otherwise(file_format: str) -> None:
    source = contract(source={"landing": "arrival_date={arrival_date}*", "start_date": "2024-01-01", "format": file_format})
    read = 0
    for damaged in [item for item in malformations() if item.format == file_format][::3]:
        before = outcome(exact_rows, source, damaged.content)
        if isinstance(before, str) or not len(before):
            continue
        raw = RawFile(DELIVERY.path, header_of(source, damaged.content), DELIVERY.received_at)
        in_force = with_arrival(before)
        assert shown(rows_read_otherwise(source, {DELIVERY.ingestion_id: raw}, in_force)) == [], damaged
        read += len(before)
    assert read > 1_000


@st.composite
def changed(draw: st.DrawFn, source: dict[str, Any]) -> dict[str, Any]:
    """The contract with another zone, other words for null, a field more, and a field of another name and type."""
    clocks = source["clocks"] | {"timezone": draw(st.sampled_from(["UTC", "Asia/Kathmandu", "America/St_Johns"]))}
    if draw(st.booleans()):
        clocks["naive_times"] = "in_timezone"
    words = draw(st.sampled_from([[""], ["", "null", "N/A"], [], ["0", "true"]]))
    fields = [dict(field) for field in source["model"]["fields"]]
    if draw(st.booleans()):
        fields.append({"name": "forgotten", "type": "string", "column": "extra"})
    in_key = {*source.get("primary_key", ()), *source.get("synthetic_key", {}).get("fields", ())}
    renamed = [field for field in fields if field["name"].startswith("f") and field["name"] not in {*in_key, "forgotten"}]
    if renamed and draw(st.booleans()):
        field = renamed[0]
        field["column"] = field.get("column", field["name"])
        field["name"] = f"other_{field['name']}"
        field["type"] = draw(st.sampled_from(["string", "double", "bigint", field["type"]]))
    return source | {
        "clocks": clocks,
        "model": {"fields": fields},
        "source": source["source"] | {"null_values": words},
    }


@st.composite
def changed_contracts(draw: st.DrawFn) -> tuple[SourceContract, SourceContract, bytes]:
    """A contract, the contract that follows it, and a file that the former one describes."""
    written = draw(contracts())
    former = SourceContract.model_validate(written)
    return former, SourceContract.model_validate(draw(changed(written))), draw(files(former))


@law(200, in_each_run=50, shrinks=True)
@given(changed_contracts())
def test_reading_again_is_the_same_as_reading_the_file_under_the_new_contract(
    case: tuple[SourceContract, SourceContract, bytes],
) -> None:
    former, now, content = case
    before, expected = outcome(exact_rows, former, content), outcome(exact_rows, now, content)
    if isinstance(before, str) or not len(before) or has_decimals_as_text(now, content):
        return
    if isinstance(expected, str):
        with pytest.raises(FileProblem, match=r"cannot be read under this contract"):
            read_again(before, now, content)
        return
    assert shown(read_again(before, now, content)) == shown(expected)


def test_events_of_a_change_feed_are_read_again_once_the_contract_knows_their_envelope() -> None:
    former = FEEDS["debezium of postgresql"].contract
    former = former.model_copy(update={"source": former.source.model_copy(update={"envelope": None})})
    feed = FEEDS["debezium of postgresql"]
    old, new = RowState(1, 1, DAYS[0]), RowState(1, 2, DAYS[1])
    changes = [RowChange(None, old, 0, 0), RowChange(old, new, 1, 1), RowChange(new, None, 2, 2)]
    content = feed.file([record for change in changes for record in feed.records(change)])
    before, expected = outcome(exact_rows, former, content), outcome(exact_rows, feed.contract, content)
    assert not isinstance(before, str)
    assert not isinstance(expected, str)
    assert before["malformed_reason"].null_count == 0
    after = read_again(before, feed.contract, content)
    assert shown(after.slice(0, 3)) == shown(expected)
    assert after["malformed_reason"].to_pylist()[3] == "a JSON NoneType where an object is expected", "the tombstone has its row"


@pytest.mark.parametrize("file_format", ["csv", "json"])
def test_bytes_that_are_no_text_stay_malformed(file_format: str) -> None:
    """Bronze holds them as text, which could be read."""
    source = contract(source={"landing": "arrival_date={arrival_date}*", "start_date": "2024-01-01", "format": file_format})
    record = b"a\xff,1,2024-01-22T12:00:00Z,2024-02-01T12:00:00Z,insert,,0\n"
    content = HEADER.encode() + b"\n" + record if file_format == "csv" else b'{"id": "a\xff", "amount": 1}\n'
    before = outcome(exact_rows, source, content)
    assert not isinstance(before, str)
    assert "not valid UTF-8" in before["malformed_reason"][0].as_py()
    now = source.model_copy(update={"clocks": source.clocks.model_copy(update={"timezone": "Asia/Tokyo"})})
    assert shown(read_again(before, now, content)) == shown(before)


def test_a_record_that_was_one_only_under_the_former_quote_is_malformed() -> None:
    described = {"landing": "arrival_date={arrival_date}*", "start_date": "2024-01-01"}
    former, now = (contract(source={**described, "quote": quote}) for quote in "'\"")
    lines = [
        "'a\nb',1,2024-01-22T12:00:00Z,2024-02-01T12:00:00Z,insert,,0",
        'c",2,2024-01-22T12:00:00Z,2024-02-01T12:00:00Z,insert,,0',
    ]
    content = csv_file(lines)
    before = outcome(exact_rows, former, content)
    assert not isinstance(before, str)
    after = read_again(before, now, content)
    assert after["malformed_reason"].to_pylist()[1] is None
    assert after["record_key"].to_pylist() == [None, 'c"']
    assert after["line_number"].to_pylist() == [2, 4]
