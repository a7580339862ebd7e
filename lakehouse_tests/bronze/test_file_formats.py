"""Files into records: every record once, with its line, and no exception but FileProblem."""

from __future__ import annotations

import csv
import gzip
import io
import json
from decimal import Decimal
from time import process_time
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lakehouse.bronze.file_formats import (
    MAX_DEPTH,
    MAX_LINES_OF_A_RECORD,
    FileProblem,
    Record,
    check_readable,
    foreign_format,
    read_records,
)
from lakehouse.contracts.inputs import Source

TWO_COLUMNS = ["a", "b"]
GZIPPED = gzip.compress(b"a,b\n" + b"".join(b"%d,%d\n" % (number, number**3) for number in range(50)), mtime=0)


def read(data: bytes, columns: list[str] | None = None, **source: Any) -> list[Record]:
    return list(read_records(io.BytesIO(data), Source(**source), TWO_COLUMNS if columns is None else columns))


def read_json(data: bytes) -> list[Record]:
    return read(data, format="json")


def line_outcomes(records: list[Record]) -> list[tuple[int, str]]:
    return [(record.line_number, "bad" if record.values is None else "good") for record in records]


def only_problem(records: list[Record]) -> str:
    (record,) = records
    assert record.values is None
    assert record.problem
    return record.problem


def test_a_row_is_read_by_the_names_of_the_header() -> None:
    assert read(b"a,b\n1,x\n") == [Record(2, "1,x", {"a": "1", "b": "x"})]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n\r\n",
        b"\xef\xbb\xbf",
        b"\xef\xbb\xbf\n",
        b"a,b",
        b"a,b\n",
        b"a,b\r\n\r\n",
        gzip.compress(b"", mtime=0),
    ],
)
def test_a_file_without_rows_has_no_records(data: bytes) -> None:
    assert read(data) == []


@pytest.mark.parametrize(
    "data",
    [
        b"a,b\r\n1,x\r\n",
        b"a,b\n1,x",
        b"a,b\r\r\n1,x\r\r\n",
        b"\xef\xbb\xbfa,b\n1,x\n",
        b'\xef\xbb\xbf"a","b"\n"1","x"\n',
        b"extra,b,a\n?,x,1\n",
        gzip.compress(b"a,b\n1,x\n", mtime=0),
        gzip.compress(b"a,b\n", mtime=0) + gzip.compress(b"1,x\n", mtime=0),
        gzip.compress(b"\xef\xbb\xbfa,b\r\n1,x\r\n", mtime=0),
    ],
)
def test_line_ends_gzip_and_column_order_do_not_change_a_row(data: bytes) -> None:
    (record,) = read(data)
    assert record.values is not None
    assert (record.line_number, record.values["a"], record.values["b"]) == (2, "1", "x")


def test_blank_lines_are_no_records_and_are_counted() -> None:
    assert line_outcomes(read(b"\na,b\n\n1,x\n\r\n\n2,y\n\n")) == [(4, "good"), (7, "good")]


def test_another_delimiter_and_quote() -> None:
    (record,) = read(b"a;b\n'x;y';'it''s'\n", delimiter=";", quote="'")
    assert record.values == {"a": "x;y", "b": "it's"}


def test_a_quoted_field_goes_over_lines_and_keeps_every_character() -> None:
    first, second = read(b'a,b\n1,"one\r\n\r\n\ntwo ""2"", \r"\n2,x\n')
    assert first == Record(2, '1,"one\r\n\r\n\ntwo ""2"", \r"', {"a": "1", "b": 'one\r\n\r\n\ntwo "2", \r'})
    assert second.line_number == 6


def test_a_line_separator_of_unicode_does_not_end_a_row() -> None:
    (record,) = read("a,b\n1,x\u2028y\x0b\x0c\x1c\x85\n".encode())
    assert record.values == {"a": "1", "b": "x\u2028y\x0b\x0c\x1c\x85"}


def test_an_unclosed_quote_swallows_no_row_after_it() -> None:
    records = read(b'a,b\n1,"open\n2,bob\n3,carol\n')
    assert line_outcomes(records) == [(2, "bad"), (3, "good"), (4, "good")]
    assert records[0] == Record(2, '1,"open', None, "a quote is opened and never closed")


def test_an_unclosed_quote_swallows_no_quoted_row_after_it() -> None:
    records = read(b'a,b\n1,"open\n2,bob\n3,"carol"\n4,"multi\nline"\n')
    assert line_outcomes(records) == [(2, "bad"), (3, "good"), (4, "good"), (5, "good")]
    assert "line 4: ',' expected" in str(records[0].problem)


@pytest.mark.parametrize("undecodable", [b"2,\xff", b"2,\0"])
def test_an_unclosed_quote_swallows_no_undecodable_row_after_it(undecodable: bytes) -> None:
    assert line_outcomes(read(b'a,b\n1,"open\n' + undecodable + b'\n3,"carol"\n')) == [(2, "bad"), (3, "bad"), (4, "good")]


def test_unclosed_quotes_in_a_row_are_one_record_each() -> None:
    assert line_outcomes(read(b'a,b\n1,"x"y\n2,"open\n3,"open\n4,z\n')) == [(2, "bad"), (3, "bad"), (4, "bad"), (5, "good")]


@pytest.mark.parametrize(
    "text",
    [
        b'"said "hi"\nand 2,y"',
        b'"said ""hi""\nand 2,y" ',
        b'"said "hi"\n\nsome\nand 2,"" y"',
        b'"said ""hi""\n3"2,z',
    ],
)
def test_the_rest_of_a_text_with_a_stray_quote_is_no_row(text: bytes) -> None:
    *broken, good = line_outcomes(read(b"a,b\n1," + text + b"\n4,z\n"))
    assert [verdict for _, verdict in broken] == ["bad"] * len(broken)
    assert len(broken) == len([line for line in text.split(b"\n") if line])
    assert good == (3 + text.count(b"\n"), "good")


def test_a_quote_in_a_cell_is_text_where_no_quote_was_broken_before() -> None:
    inch = b'2,5" pipe\n'
    assert line_outcomes(read(b"a,b\n" + inch)) == [(2, "good")]
    assert line_outcomes(read(b"a,b\n1,x\ry\n" + inch)) == [(2, "bad"), (3, "good")]
    assert line_outcomes(read(b'a,b\n1,"x\n' + inch)) == [(2, "bad"), (3, "bad")]
    far = b"3,z\n" * MAX_LINES_OF_A_RECORD
    assert line_outcomes(read(b'a,b\n1,"x"y\n' + far + inch))[-1] == (3 + MAX_LINES_OF_A_RECORD, "good")


def test_quotes_that_are_in_order_raise_no_doubt() -> None:
    assert line_outcomes(read(b'a,b\n1,"x"y\n2,"a ""b"", c\nd"\n"3",""\n')) == [(2, "bad"), (3, "good"), (5, "good")]
    other = read(b"a^b\n1^]x]y\n]2]^]a^]]]\n3^z]z\n", delimiter="^", quote="]")
    assert line_outcomes(other) == [(2, "bad"), (3, "good"), (4, "bad")]


def test_a_quote_has_a_limited_number_of_lines_to_close() -> None:
    inside = b"x,y\n" * (MAX_LINES_OF_A_RECORD - 1)
    assert line_outcomes(read(b'a,b\n1,"' + inside + b'"\n')) == [(2, "good")]
    assert len(read(b'a,b\n1,"' + inside + b'x,y\n"\n')) == MAX_LINES_OF_A_RECORD + 1


def test_a_record_over_lines_that_holds_a_bad_byte_stays_one_record() -> None:
    assert line_outcomes(read(b'a,b\n1,"x\xff\ny"\n2,"\0\nz"\n3,x\n')) == [(2, "bad"), (4, "bad"), (6, "good")]


def test_a_record_over_lines_with_too_many_fields_stays_one_record() -> None:
    records = read(b'a,b\n1,"x\n2,y",z\n3,x\n')
    assert line_outcomes(records) == [(2, "bad"), (4, "good")]
    assert records[0].raw == '1,"x\n2,y",z'


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"1", "has 1 fields where the header has 2"),
        (b"1,2,3", "has 3 fields where the header has 2"),
        (b" ", "has 1 fields where the header has 2"),
        (b'1,"x"y', "not CSV: ',' expected after '\"'"),
        (b"1,x\ry", "not CSV: new-line character seen in unquoted field"),
        (b"1,x\0", "holds a NUL byte"),
        (b"1,x\xff", "not valid UTF-8 at byte 4 of the record"),
        (b"1,\xed\xa0\x80", "not valid UTF-8 at byte 3 of the record"),
    ],
)
def test_a_row_that_is_no_record_names_the_reason(line: bytes, problem: str) -> None:
    assert only_problem(read(b"a,b\n" + line + b"\n")) == problem


def test_raw_text_can_be_read_whatever_the_bytes() -> None:
    assert [record.raw for record in read(b"a,b\n\xff\0,x\n")] == ["\\xff\\x00,x"]


def test_a_long_text_is_in_order() -> None:
    (record,) = read(b"a,b\n1," + b"x" * 200_000 + b"\n")
    assert record.values is not None


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a,c\n1,x\n", "line 1: column b is missing"),
        (b"\nc\n1\n", "line 2: column a, b is missing"),
        (b"a, b\n1,x\n", "line 1: column b is missing (the header has ' b'); have the file sent again"),
        (b"A,b\n1,x\n", "line 1: column a is missing (the header has 'A'); have the file sent again"),
        (b"a;b\n1;x\n", "line 1: column a, b is missing (source.delimiter: ';' would find it in 'a;b'); have"),
        (b"PK\x03\x04\x14\0\0\0a.csv\n", "the file is a zip archive; unpack it"),
        (b"BZh91AY&SY\xfc\x1f\n", "the file is compressed with bzip2; unpack it"),
        (b"PAR1\x15\x04\n", "the file is a Parquet file; 'source.format: parquet' reads it"),
        (b"ORCID,a\n1,x\n", "line 1: column b is missing; have the file sent again"),
        (b"a,b,a\n1,x,2\n", "line 1: the header names a twice; have the file sent again, or name the columns in the contract: "),
        (b"a,b,,a\n1,x,,2\n", "line 1: the header names a twice"),
        (b"a,b\xff\n1,x\n", "line 1: not valid UTF-8 at byte 4"),
        ("a,b\n1,x\n".encode("utf-16"), "line 1: not valid UTF-8 at byte 1"),
        (b'a,"b\n1,x\n', "line 1: the header is not CSV"),
        (b"a,b\r1,x\r", "line 1: the header is not CSV"),
        (b"a,b\0\n1,x\n", "line 1: "),
    ],
)
def test_a_header_that_cannot_be_used_holds_the_file(data: bytes, message: str) -> None:
    with pytest.raises(FileProblem) as caught:
        read(data)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("name", ["ORC", "PAR1", "BZh"])
def test_a_text_that_begins_with_the_letters_of_a_format_is_read(name: str) -> None:
    (record,) = read(f"{name},a,b,pr\u00e9nom\n1,x,\u00e9,y\n".encode())
    assert record.values is not None
    assert record.values["a"] == "x"
    assert foreign_format(f"{name}\u00e9,x\n\u00e9".encode()[:-1]) is None, "a text may be cut within a letter"


@pytest.mark.parametrize("header", [b"a,b,,", b"a,b,c,c", b"a,b,,c,"])
def test_names_that_the_contract_does_not_read_may_be_empty_or_repeated(header: bytes) -> None:
    (record,) = read(header + b"\n1,x" + b",y" * (header.count(b",") - 1) + b"\n")
    assert record.values is not None
    assert (record.values["a"], record.values["b"]) == ("1", "x")


@pytest.mark.parametrize(
    ("header", "columns"),
    [
        (b"a,b,a", "['a', 'b', 'a_2']"),
        (b"a,a,,b,", "['a', 'a_2', 'column', 'b', 'column_2']"),
        (b"a,a,a_2,b", "['a', 'a_3', 'a_2', 'b']"),
    ],
)
def test_the_contract_can_name_the_columns_of_a_header_with_a_name_twice(header: bytes, columns: str) -> None:
    with pytest.raises(FileProblem) as caught:
        read(header + b"\n")
    assert str(caught.value).endswith(f"source: {{skip_lines: 1, columns: {columns}}}")


@pytest.mark.parametrize(
    "data",
    [
        GZIPPED[:2],
        GZIPPED[:30],
        GZIPPED[:-1],
        GZIPPED[:-8] + bytes(8),
        GZIPPED[:40] + b"\xff\xff\xff" + GZIPPED[43:],
        GZIPPED + b"more",
    ],
)
@pytest.mark.parametrize("format_", ["csv", "json"])
def test_a_broken_gzip_holds_the_file(data: bytes, format_: str) -> None:
    with pytest.raises(FileProblem, match=r"the gzip stream breaks off after line \d+"):
        read(data, format=format_)
    with pytest.raises(FileProblem):
        check_readable(io.BytesIO(data))


def test_a_whole_file_is_readable() -> None:
    check_readable(io.BytesIO(GZIPPED))


def test_many_columns_take_no_quadratic_time() -> None:
    names = [f"c{number}" for number in range(30_000)]
    start = process_time()
    assert read(",".join(names).encode() + b"\n", columns=names[-1:]) == []
    assert process_time() - start < 5


def test_many_unclosed_quotes_take_no_quadratic_time() -> None:
    start = process_time()
    assert len(read(b"a,b\n" + b'1,"x\n2,y\n' * 5_000)) == 10_000
    assert process_time() - start < 5


def test_a_json_line_is_a_record() -> None:
    line = b' { "a" : 1,\t"b" : {"c": [true, null, "\\ud83d\\ude00"]} } '
    assert read_json(line + b"\r\n") == [Record(1, line.decode(), {"a": 1, "b": {"c": [True, None, "\U0001f600"]}})]


def test_blank_json_lines_are_no_records() -> None:
    assert line_outcomes(read_json(b'\xef\xbb\xbf\n \t\r\n{"a": 1}\n\n[]')) == [(3, "good"), (5, "bad")]


def test_a_json_file_may_begin_with_a_byte_order_mark() -> None:
    assert line_outcomes(read_json(b'\xef\xbb\xbf{"a": 1}')) == [(1, "good")]


@pytest.mark.parametrize("number", ["0.10", "1E+400", "1E-400", "0.1000000000000000055511151231257827", "-0.0"])
def test_json_decimals_are_kept_exact(number: str) -> None:
    (record,) = read_json(f'{{"a": {number}}}'.encode())
    assert record.values is not None
    assert record.values["a"].as_tuple() == Decimal(number).as_tuple()


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"[1]", "a JSON list where an object is expected"),
        (b"null", "a JSON NoneType where an object is expected"),
        (b'"x"', "a JSON str where an object is expected"),
        (b'{"a": 1,}', "not JSON: "),
        (b'{"a": 1} {"a": 2}', "not JSON: Extra data at character 10"),
        (b'{"a": "\0"}', "not JSON: "),
        (b'{"a": "\xff"}', "not valid UTF-8 at byte 8 of the line"),
        (b'{"a": 1, "b": 2, "a": 1}', "names 'a' twice"),
        (b'{"b": {"a": 1, "a": 1}}', "names 'a' twice"),
        (b'{"a": "\\ud800"}', "holds half of a surrogate pair, which is no text"),
        (b'{"b": [{"\\udfff": 1}]}', "holds half of a surrogate pair, which is no text"),
        (b'{"\\ud800": 1, "\\ud800": 1}', "names '\\ud800' twice"),
        (b'{"a": ' + b"9" * 5_000 + b"}", "holds a number of 5000 characters; 1000 are allowed"),
        (b'{"a": 0.' + b"9" * 4_998 + b"}", "holds a number of 5000 characters; 1000 are allowed"),
        (b'{"a": 1e99999999999999999999}', "the number 1e99999999999999999999 is out of range"),
        (b'{"a": ' + b"[" * MAX_DEPTH + b"]" * MAX_DEPTH + b"}", "nested deeper than 100 levels"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested deeper than 100 levels"),
        (b"[" * 100_000, "nested deeper than 100 levels"),
    ],
)
def test_a_json_line_that_is_no_record_names_the_reason(line: bytes, problem: str) -> None:
    assert only_problem(read_json(line)).startswith(problem)


def test_json_may_be_nested_up_to_the_limit() -> None:
    depth = MAX_DEPTH - 1
    assert line_outcomes(read_json(b'{"a": ' + b"[" * depth + b"]" * depth + b"}")) == [(1, "good")]


no_nul = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
tricky = st.text(st.sampled_from('a1,"\n\r é'))
tables = st.integers(1, 4).flatmap(lambda width: st.lists(st.lists(no_nul | tricky, min_size=width, max_size=width), min_size=1))
messy = st.binary() | st.lists(st.sampled_from([b"1", b",", b'"', b"\n", b"\r\n", b"\0", b"\xff", b"\xc3"])).map(b"".join)


@settings(deadline=None)
@given(table=tables, windows=st.booleans(), zipped=st.booleans())
def test_what_a_csv_writer_wrote_is_read_back(table: list[list[str]], *, windows: bool, zipped: bool) -> None:
    header = [f"c{number}" for number in range(len(table[0]))]
    out = io.StringIO()
    writer = csv.writer(out) if windows else csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerows([header, *table])
    data = out.getvalue().encode()
    records = read(gzip.compress(data) if zipped else data, columns=header)
    assert [list((record.values or {}).values()) for record in records] == table


@settings(deadline=None)
@given(body=messy)
@example(body=b'1,"x\n\n2,"y"')
@example(body=b'\r1,"\n\r')
def test_every_csv_line_is_in_exactly_one_record(body: bytes) -> None:
    lines = (b"a,b\n" + body).decode(errors="backslashreplace").replace("\0", "\\x00").split("\n")
    records = read(b"a,b\n" + body)
    accounted = [line.rstrip("\r") for record in records for line in record.raw.split("\n")]
    assert [line for line in accounted if line] == [line.rstrip("\r") for line in lines[1:] if line.rstrip("\r")]
    assert all(record.raw.split("\n")[0].rstrip("\r") == lines[record.line_number - 1].rstrip("\r") for record in records)
    assert all((record.values is None) == (record.problem is not None) for record in records)


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
).map(lambda value: json.dumps(value).encode())


@settings(deadline=None)
@given(lines=st.lists(messy | json_like))
def test_every_json_line_is_exactly_one_record(lines: list[bytes]) -> None:
    body = b"{}\n" + b"\n".join(lines)
    records = read_json(body)
    expected = [number for number, line in enumerate(body.split(b"\n"), 1) if line.strip(b" \t\r")]
    assert [record.line_number for record in records] == expected
    assert all((record.values is None) == (record.problem is not None) for record in records)


@settings(deadline=None)
@given(at=st.integers(0, len(GZIPPED) - 1), byte=st.integers(0, 255))
def test_a_damaged_file_is_held_or_read(at: int, byte: int) -> None:
    try:
        records = read(GZIPPED[:at] + bytes([byte]) + GZIPPED[at + 1 :])
    except FileProblem:
        return
    assert len(records) == 50
