"""Sample files are read as people send them: a title in front, columns without names, a broken line among others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakehouse.project import inference
from lakehouse.project.inference import infer
from lakehouse.project.questions import InferenceError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("content", "delimiter", "skipped", "columns"),
    [
        ("Means of states, made on: 20241104\nid;at;mm;\n1;2024-11-04;2.5;\n2;2024-11-05;3.5;\n", ";", 1, ["id", "at", "mm", ""]),
        ("Report\n\nAll shops\nid,at,amount\n1,2024-11-04,2.5\n2,2024-11-05,3.5\n", ",", 3, ["id", "at", "amount"]),
        ("# by us\nTitle\nid,at,amount\n# again\n1,2024-11-04,2.5\n", ",", 2, ["id", "at", "amount"]),
        (
            "Bank of X;;\nExported 2024-11-05;;\nno;at;amount\n1;2024-11-04;2,5\n2;2024-11-05;3,5\n",
            ";",
            2,
            ["no", "at", "amount"],
        ),
        (",,,\nid,at,,note\n1,2024-11-04,,a\n2,2024-11-05,,b\n", ",", 1, ["id", "at", "", "note"]),
        ("id;at;amount\n1;2024-11-04;2,5\n2;2024-11-05;3,5\n", ";", 0, ["id", "at", "amount"]),
        ("id\tat\tnote\n1\t2024-11-04\ta, b, c, d\n2\t2024-11-05\te, f, g, h\n", "\t", 0, ["id", "at", "note"]),
        ('id,at,note\n1,2024-11-04,"a; b; c; d"\n2,2024-11-05,"e; f; g; h"\n', ",", 0, ["id", "at", "note"]),
        ("id\n1\n2\n", ",", 0, ["id"]),
        ("a,b,c\n1,2,3,\n4,5,6,\n", ",", 0, ["a", "b", "c"]),
    ],
)
def test_the_delimiter_and_the_header_are_those_of_most_lines(
    content: str, delimiter: str, skipped: int, columns: list[str], tmp_path: Path
) -> None:
    file = tmp_path / "a.csv"
    file.write_text(content)
    source = inference.source_of(file)
    assert (source.delimiter, source.skip_lines) == (delimiter, skipped)
    if columns != ["a", "b", "c"]:  # whose records are all broken
        assert inference.read(file, source).columns == columns


def test_a_column_without_a_name_is_left_out_and_told(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text(",id,at,amount\n0,7,2024-11-04,2.5\n1,8,2024-11-05,3.5\n")
    found = infer([inference.read(file, inference.source_of(file))])
    assert [column.name for column in found.columns] == ["id", "at", "amount"]
    assert "a column has no name: it is left out" in found.doubts


def test_a_broken_line_among_others_is_left_out_and_told(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(b"id,at\n1,2024-11-04\n2\n3,2024-11-05\n4,2024-\xff\n5,2024-11-06\n")
    sample = inference.read(file, inference.source_of(file))
    assert [record["id"] for record in sample.records] == ["1", "3", "5"]
    fields, text = infer([sample]).doubts[:2]
    assert fields == f"{file}, line 3 has 1 fields where the header has 2: it will be malformed"
    assert text.startswith(f"{file}, line 5 not valid UTF-8 at byte 8 of the record (if it is Windows-1252: iconv -f")


def test_text_in_another_encoding_is_refused_with_the_way_to_convert_it(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes("id,Größe\n1,ä\n2,ö\n".encode("cp1252"))
    with pytest.raises(InferenceError, match=r"not valid UTF-8 .* iconv -f WINDOWS-1252"):
        inference.read(file, inference.source_of(file))


@pytest.mark.parametrize(
    ("header", "second", "words"),
    [("site\tday\tflow", "15s\t10d\t8n", "15s, 10d, 8n|10d, 8n"), ("site\tday\tflow", "\t\tm3/s", "m3/s")],
)
def test_a_line_of_units_behind_the_header_is_named(header: str, second: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "a.tsv"
    records = "".join(f"A\t2024-11-0{day}\t{day}.5\n" for day in range(1, 8))
    file.write_text(f"# made by us\n{header}\n{second}\n{records}")
    with pytest.raises(
        InferenceError, match=rf"has no record in line 3, but units or formats \(({words})\).*: sed 3d FILE > NEW"
    ):
        inference.read(file, inference.source_of(file))
    file.write_text(f"# made by us\n{header}\nA\t2024-11-01\tn/a\n{records}")
    assert len(inference.read(file, inference.source_of(file)).records) == 8
