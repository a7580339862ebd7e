"""The same value gives the same row, or is refused, in every format and physical type, by columns and one by one."""

from __future__ import annotations

import io
import json
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse.bronze.reader import exact_rows, rows_by_columns
from lakehouse.contracts.source import SourceContract
from lakehouse_tests.support.both_readers import DELIVERY, outcome
from lakehouse_tests.support.lake import contract as padded
from lakehouse_tests.support.laws import law

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
#: How a refusal is compared: its words name the value as the format has it.
REFUSED = "refused"


def source(kind: str, file_format: str, **section: Any) -> SourceContract:
    fields = [{"name": "id", "type": "string"}, {"name": "v", "type": kind}]
    return SourceContract.model_validate(
        {
            "dataset": "events",
            "primary_key": ["id"],
            "model": {"fields": fields},
            "source": {"format": file_format, "start_date": "2020-01-01", **section},
            "clocks": {"event": "at"},
        }
    )


def read(kind: str, file_format: str, content: bytes, **section: Any) -> Any:
    """The value of the only row, by both readers."""
    results = []
    for reader in (rows_by_columns, exact_rows):
        rows = outcome(reader, source(kind, file_format, **section), content)
        assert not isinstance(rows, str), rows
        row = rows.to_pylist()[0]
        results.append(repr(row["v"]) if row["malformed_reason"] is None else REFUSED)
        assert row["malformed_reason"] is None or row["malformed_reason"].startswith("v: ")
    assert results[0] == results[1]
    return results[0]


def csv_file(text: str) -> bytes:
    return f'id,at,v\n1,2024-01-02,"{text}"\n'.encode()


def json_file(text: str) -> bytes:
    return f'{{"id": "1", "at": "2024-01-02", "v": {text}}}\n'.encode()


def parquet_file(values: pa.Array, metadata: dict[str, str] | None = None, **options: Any) -> bytes:
    table = pa.table({"id": ["1"], "at": ["2024-01-02"], "v": values}).replace_schema_metadata(metadata)
    pq.write_table(table, buffer := io.BytesIO(), **options)
    return buffer.getvalue()


def texts(value: str) -> list[bytes]:
    kinds = [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.binary(),
        pa.large_binary(),
    ]
    return [parquet_file(pa.array([value.encode() if "binary" in str(kind) else value], kind)) for kind in kinds]


def everywhere(kind: str, text: str, in_json: str, parquet: list[bytes], **section: Any) -> Any:
    """The one result of a value in all formats."""
    results = {
        read(kind, "csv", csv_file(text), **section),
        read(kind, "json", json_file(in_json), **section),
        *(read(kind, "parquet", content, **section) for content in parquet),
    }
    assert len(results) == 1, (kind, text, results)
    return results.pop()


NUMBER_TYPES = ["int", "bigint", "double", "decimal(12,2)", "boolean", "date", "timestamp"]


@law(300, in_each_run=40)
@given(st.integers(-(2**63), 2**63 - 1) | st.integers(-200, 200), st.sampled_from([*NUMBER_TYPES, "string"]))
def test_integers(number: int, kind: str) -> None:
    widths = [
        pa.array([number], width)
        for width, bits in ((pa.int8(), 7), (pa.int16(), 15), (pa.int32(), 31), (pa.int64(), 63))
        if -(2**bits) <= number < 2**bits
    ]
    widths += [pa.array([number], pa.uint64())] if number >= 0 else []
    widths.append(pa.array([Decimal(number)], pa.decimal128(38, 0)))
    everywhere(kind, f"{number}", f"{number}", [*map(parquet_file, widths), *texts(f"{number}")])


@law(300, in_each_run=40)
@given(
    st.floats(width=64) | st.floats(width=32) | st.sampled_from([1001.0, -0.0, 0.1, 1e16, 2.0**53 + 2, 1e-7]),
    st.sampled_from(NUMBER_TYPES),
)
@example(1.0855505414859518e16, "bigint")  # as many digits as its exponent says
def test_floats_as_python_pandas_and_polars_write_them(number: float, kind: str) -> None:
    everywhere(kind, repr(number), json.dumps(number), [parquet_file(pa.array([number], pa.float64())), *texts(repr(number))])


@law(200, in_each_run=30)
@given(st.floats(width=32, allow_nan=False), st.sampled_from(["double", "decimal(12,2)", "int"]))
def test_a_float_of_32_bits_is_the_number_that_its_writer_shows(number: float, kind: str) -> None:
    values = pa.array([number], pa.float32())
    shown = pc.cast(values, pa.string())[0].as_py()
    assert read(kind, "parquet", parquet_file(values)) == read(kind, "csv", csv_file(shown))


@law(200, in_each_run=30)
@given(st.integers(-(2**60), 2**60).map(float) | st.floats(-1000, 1000))
@example(1.0899605383203422e16)  # as many digits as its exponent says
def test_a_number_is_the_same_text_in_typed_formats(number: float) -> None:
    results = {
        read("string", "json", json_file(json.dumps(number))),
        read("string", "parquet", parquet_file(pa.array([number], pa.float64()))),
    }
    if number.is_integer() and abs(number) <= 2**53:
        results.add(read("string", "csv", csv_file(f"{int(number)}")))
        results.add(read("string", "parquet", parquet_file(pa.array([int(number)], pa.int64()))))
    assert len(results) == 1


@law(200, in_each_run=30)
@given(st.integers(-(10**9) + 1, 10**9 - 1).map(lambda cents: Decimal(cents).scaleb(-2)), st.sampled_from(NUMBER_TYPES))
def test_decimals(number: Decimal, kind: str) -> None:
    types = [pa.decimal32(9, 2), pa.decimal64(18, 2), pa.decimal128(12, 2), pa.decimal256(50, 2)]
    written = [parquet_file(pa.array([number], width)) for width in types]
    written += [parquet_file(pa.array([number], pa.decimal128(12, 2)), store_decimal_as_integer=True)]
    everywhere(kind, f"{number}", f"{number}", [*written, *texts(f"{number}")])


@law(200, in_each_run=30)
@given(st.dates() | st.sampled_from([date.min, date.max]), st.sampled_from(["date", "string", "timestamp", "int"]))
def test_days(day: date, kind: str) -> None:
    days = pa.array([day], pa.date32())
    written = [parquet_file(days), parquet_file(days.cast(pa.date64()))]
    everywhere(kind, f"{day}", f'"{day}"', [*written, *texts(f"{day}")])
    as_time = parquet_file(days.cast(pa.timestamp("us")))  # as pandas has it
    assert kind != "date" or read(kind, "parquet", as_time) == read(kind, "csv", csv_file(f"{day}"))


@pytest.mark.parametrize("days", [2_932_897, -719_163, 2**31 - 1, -(2**31)])
def test_days_outside_of_the_calendar_are_refused(days: int) -> None:
    values = pa.array([days], pa.int32()).cast(pa.date32())
    assert read("date", "parquet", parquet_file(values)) == REFUSED


@law(300, in_each_run=40)
@given(
    st.datetimes() | st.datetimes(datetime(2024, 1, 1), datetime(2024, 12, 31)),  # noqa: DTZ001
    st.integers(0, 999).filter(lambda nanos: nanos < 3 or nanos > 900),
    st.sampled_from(["timestamp", "date"]),
)
def test_moments(moment: datetime, nanos: int, kind: str) -> None:
    micros = (moment.replace(tzinfo=timezone.utc) - EPOCH) // timedelta(microseconds=1)
    text = f"{moment:%H:%M:%S.%f}{nanos:03d}" if nanos else f"{moment:%H:%M:%S.%f}"
    text = f"{moment.date()}T{text}Z"
    written = []
    if not nanos:
        zoned = pa.array([micros], pa.int64()).cast(pa.timestamp("us", "UTC"))
        written += [parquet_file(zoned), parquet_file(zoned.cast(pa.timestamp("us", "America/New_York")))]
        written += (
            [parquet_file(zoned, {"org.apache.spark.version": "3.5.0"}, use_deprecated_int96_timestamps=True)]
            if (1678 < moment.year < 2262)
            else []
        )
    if 1678 < moment.year < 2262:
        fine = pa.array([micros * 1000 + nanos], pa.int64()).cast(pa.timestamp("ns", "UTC"))
        written += [parquet_file(fine)]
        by_spark = {"org.apache.spark.version": "3.5.0"}
        written += [parquet_file(fine, by_spark, use_deprecated_int96_timestamps=True)]
    everywhere(kind, text, f'"{text}"', [*written, *texts(text)])


@law(200, in_each_run=30)
@given(st.sampled_from(["", " ", "N/A", "NaN", "nan", "x", "true", "1001.0", "-999"]), st.sampled_from([*NUMBER_TYPES, "string"]))
def test_texts_and_blanks(text: str, kind: str) -> None:
    result = everywhere(kind, text, json.dumps(text), texts(text), null_values=["N/A", "NaN", "-999"])
    assert (result == "None") == (text in {"", "N/A", "NaN", "nan", "-999"} or (text == " " and kind != "string"))


@pytest.mark.parametrize("kind", [*NUMBER_TYPES, "string"])
def test_no_value_is_no_value_in_every_format(kind: str) -> None:
    every = [
        pa.nulls(1, pa.int64()),
        pa.nulls(1, pa.float64()),
        pa.nulls(1, pa.timestamp("ns")),
        pa.nulls(1),
        pa.array([float("nan")]),
    ]
    written = [parquet_file(values) for values in [*every, pa.array([-999]), pa.array([-999.0]), pa.array([Decimal("-999.00")])]]
    words = {"null_values": ["NaN", "-999"]}
    assert everywhere(kind, "", "null", written, **words) == everywhere(kind, "-999", "-999.0", [], **words) == "None"
    assert everywhere(kind, "nan", "NaN", [], **words) == "None"


@pytest.mark.parametrize("kind", ["boolean", "string", "int"])
@pytest.mark.parametrize("word", ["true", "false"])
def test_booleans(kind: str, word: str) -> None:
    everywhere(kind, word, word, [parquet_file(pa.array([word == "true"]))])


@pytest.mark.parametrize("kind", NUMBER_TYPES)
@pytest.mark.parametrize("text", ["   ", "N/A", " N/A", "\u00a0-\t"])
def test_blanks_around_a_word_for_null_do_not_count_but_in_a_text(kind: str, text: str) -> None:
    words = {"null_values": ["N/A", "-"]}
    found = everywhere(kind, text, json.dumps(text), texts(text), **words)
    assert found == "None"
    assert everywhere("string", text, json.dumps(text), texts(text), **words) == (repr(text) if text != "N/A" else "None")
    assert everywhere(kind, text, json.dumps(text), texts(text), null_values=["no"], blank_is_null=False) == REFUSED


def test_blanks_around_a_word_for_null_do_not_count_in_clocks_and_operations() -> None:
    """The sender of a table of fixed width pads each value."""
    content = b"id,amount,event_time,arrived_at,op,corrects,seq\nk,1,2024-01-02T12:00:00Z,  , ,, \n"
    source = padded(order={"sequence": "seq"})
    assert outcome(rows_by_columns, source, content)["malformed_reason"].to_pylist() == [
        "seq: required and empty (the contract orders by it)"
    ]
    for reader in (rows_by_columns, exact_rows):
        [row] = outcome(reader, padded(), content).to_pylist()
        assert (row["malformed_reason"], row["change_op"], row["arrival_ts"]) == (None, "insert", DELIVERY.received_at)


@pytest.mark.parametrize("key", ["4.00638E+12", "4,00638E+12", "1E+15", " 4.01E+12 "])
@pytest.mark.parametrize("column", ["id", "corrects"])
def test_a_key_that_a_spreadsheet_has_shortened_is_malformed(key: str, column: str) -> None:
    """Many keys of a file become one: all rows but one would be superseded."""
    record = {"id": "1", "amount": "1", "event_time": "2024-01-02T12:00:00Z", "op": "correct", "corrects": "", column: key}
    table = pa.table({name: pa.array([value]) for name, value in (record | {"arrived_at": ""}).items()})
    pq.write_table(table, buffer := io.BytesIO())
    cells = ",".join(f'"{value}"' for value in table.to_pylist()[0].values())
    content = {
        "csv": f"{','.join(table.column_names)}\n{cells}\n".encode(),
        "json": json.dumps(table.to_pylist()[0]).encode(),
        "parquet": buffer.getvalue(),
    }
    reason = f"{column}: {key!r} is a key that a spreadsheet has shortened: digits are lost; have the file sent again as it was"
    for file_format, written in content.items():
        for reader in (rows_by_columns, exact_rows):
            rows = outcome(reader, padded(source={"format": file_format, "start_date": "2020-01-01"}), written)
            assert rows["malformed_reason"].to_pylist() == [reason]


@pytest.mark.parametrize("key", ["1e5", "4.00638E-12", "E+12", "12E+12", "SKU1E+12"])
def test_other_texts_are_keys(key: str) -> None:
    content = f"id,amount,event_time,arrived_at,op,corrects\n{key},1,2024-01-02T12:00:00Z,,,\n".encode()
    for reader in (rows_by_columns, exact_rows):
        assert outcome(reader, padded(), content)["record_key"].to_pylist() == [key]
