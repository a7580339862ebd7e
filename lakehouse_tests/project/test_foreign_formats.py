"""Files that the product does not read are named, with how to convert them; plain files are not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakehouse.project import inference
from lakehouse.project.questions import InferenceError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{\n  "id": 1\n}\n', "JSON over several lines"),
        (b"PK\x03\x04" + b"\0" * 30 + b"data.csv", "is a zip archive"),
        (b"PK\x03\x04" + b"\0" * 30 + b"xl/workbook.xml", "is an Excel workbook"),
        (b"<!DOCTYPE html>\n<html>", "is HTML or XML"),
        ("id,at\n".encode("utf-16"), "is UTF-16 text; convert it to UTF-8: iconv"),
        (b"STATION     DATE       VALUE\nA1          2024-11-04   5\n", "columns of fixed width"),
        (b'{"op": "c", "before": null, "after": {"id": 1}}\n', "envelope: debezium"),
        (b'{"data": [{"id": 1}]}\n', "is one object with its records in 'data'"),
        (
            b'{"meta": {"at": 1}, "series": [{"site": "A", "values": [{"at": "2024-11-04", "v": 1}]}]}\n',
            r"'.series\[\].values\[\]'",
        ),
        (
            b'{"series": {"x y": [{"site": "A"}, {"site": "B"}]}, "notes": [{"a": 1}], "more": [{"a": 1}]}\n',
            r'.series.\["x y"\]\[\]',
        ),
        (b'{"id": 1,\n "at": "2024-11-04"}\n', "JSON over several lines"),
        (b'[[1730710800, "a", 5.5], [1730710801, "b", 6.5]]\n', "is a JSON array of lists"),
        (b"[\n  [1730710800, 5.5],\n  [1730710801, 6.5]\n]\n", "is a JSON array of lists"),
        (b"1,2024-11-04,5.50\n", "has no header"),
        (b"7,2024-11-04T08:00:00Z,5.00,DE\n8,2024-11-05T08:00:00Z,7.00,FR\n", "has no header: its first line is a record"),
        (b"DE;04.11.2024;5,00\nFR;05.11.2024;7,00\n", "has no header: its first line is a record"),
        (b"Obj\x01rest", "is an Avro file"),
    ],
)
def test_a_format_that_is_not_read_is_named_with_a_way_out(content: bytes, words: str, tmp_path: Path) -> None:
    file = tmp_path / "a.dat"
    file.write_bytes(content)
    with pytest.raises(InferenceError, match=words):
        inference.source_of(file)


def test_a_record_with_lists_among_other_records_is_read(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"id": 1, "a": {"b": [{"c": 1}]}}\n{"id": 2, "a": {"b": []}}\n')
    assert inference.source_of(file).format == "json"
    file.write_text('{"id": 1, "at": "2024-11-04T09:00:00Z", "items": [{"sku": "a"}, {"sku": "b"}]}\n')
    assert inference.source_of(file).format == "json", "an order with its items"


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_a_mark_in_front_and_each_delimiter_are_read(delimiter: str, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(b"\xef\xbb\xbf" + f"id{delimiter}at\n1{delimiter}2024-11-04\n".encode())
    source = inference.source_of(file)
    assert (source.delimiter, inference.read(file, source).columns) == (delimiter, ["id", "at"])
