"""The entries of a manifest, how files violate them, and the messages for a manifest that cannot be used."""

from __future__ import annotations

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.bronze.file_completeness import MEASURES, ManifestEntry, ManifestProblem, manifest_entries

HASH = "0123456789abcdef" * 4
FOLDER = "2024-11-05"


def read(content: str | bytes, name: str = "manifest.json") -> list[ManifestEntry]:
    return manifest_entries(f"{FOLDER}/{name}", content.encode() if isinstance(content, str) else content)


def problem(content: str | bytes, name: str = "manifest.json") -> str:
    with pytest.raises(ManifestProblem) as caught:
        read(content, name)
    assert str(caught.value).startswith(f"{FOLDER}/{name}: ")
    assert "sent again" in str(caught.value)
    return str(caught.value).removeprefix(f"{FOLDER}/{name}: ")


ENTRY = st.fixed_dictionaries(
    {},
    optional={
        "bytes": st.integers(0, 2**50),
        "rows": st.integers(0, 2**40),
        "sha256": st.binary(min_size=32, max_size=32).map(bytes.hex),
    },
)
NAMES = st.lists(st.text("abc ,\"'-_é", min_size=1), min_size=1, max_size=2).map("/".join)
FILES = st.dictionaries(NAMES, ENTRY)


@given(FILES, st.booleans())
def test_json_and_csv_promise_the_same(files: dict[str, dict[str, int | str]], under_files: bool) -> None:
    entries = [{"file": name, **measures, "made_by": "us"} for name, measures in files.items()]
    table = io.StringIO()
    writer = csv.DictWriter(table, ["made_by", "file", *MEASURES])
    writer.writeheader()
    writer.writerows(entries)
    expected = {f"{FOLDER}/{name}": measures for name, measures in files.items()}
    for text, name in [(json.dumps({"files": entries} if under_files else entries), "m.json"), (table.getvalue(), "m.csv")]:
        found = read(text, name)
        assert {one.file: dict(one.measures) for one in found} == expected
        assert {one.manifest for one in found} <= {f"{FOLDER}/{name}"}


def test_a_file_is_named_from_the_folder_of_its_manifest() -> None:
    text = '[{"file": "parts/a.csv"}, {"file": "./b.csv"}]'
    assert [one.file for one in read(text)] == [f"{FOLDER}/parts/a.csv", f"{FOLDER}/b.csv"]
    assert [one.file for one in manifest_entries("2024-11-05.json", text.encode())] == ["parts/a.csv", "b.csv"]


def test_measures_that_are_not_promised_are_not_checked() -> None:
    (one,) = read('[{"file": "a.csv", "rows": "3", "bytes": null, "sha256": ""}]'.replace('""', "null"))
    assert dict(one.measures) == {"rows": 3}
    assert one.violations({"rows": 3, "bytes": 7, "sha256": HASH}) == []


def test_each_measure_that_differs_is_reported_with_both_values() -> None:
    (one,) = read(json.dumps([{"file": "a.csv", "rows": 3, "bytes": 7, "sha256": HASH.upper()}]))
    assert one.violations({"rows": 3, "bytes": 7, "sha256": HASH}) == []
    said = one.violations({"rows": 2, "bytes": 7, "sha256": "f" * 64})
    assert said == [
        f"rows is 2, and {FOLDER}/manifest.json says 3; have the file or the manifest sent again",
        f"sha256 is {'f' * 64}, and {FOLDER}/manifest.json says {HASH}; have the file or the manifest sent again",
    ]


def test_an_empty_list_promises_nothing() -> None:
    assert read("[]") == read('{"files": []}') == read("file,rows\n", "m.csv") == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "not JSON"),
        ('[{"file": "a.csv", "rows": 3}', "not JSON"),
        (b'[{"file": "\xff"}]', "not valid UTF-8 at byte 12"),
        ('"a.csv"', "files: a list of files is expected"),
        ('{"rows": 3}', "files: a list of files is expected"),
        ('["a.csv"]', "files.0: an object is expected, not 'a.csv'"),
        ('[{"rows": 3}]', "files.0: file: is missing"),
        ('[{"file": ["a"]}]', "files.0: file: is missing"),
        ('[{"file": "/etc/passwd"}]', "files.0: file: '/etc/passwd' lies outside the manifest's folder"),
        ('[{"file": "a/../../b"}]', "files.0: file: 'a/../../b' lies outside the manifest's folder"),
        ('[{"file": "a"}, {"file": "./a"}]', f"files.1: file: {FOLDER}/a is named twice"),
        ('[{"file": "a", "rows": -1}]', "files.0: rows: -1 is no count"),
        ('[{"file": "a", "rows": 1.5}]', "files.0: rows: 1.5 is no count"),
        ('[{"file": "a", "bytes": true}]', "files.0: bytes: True is no count"),
        ('[{"file": "a", "rows": "many"}]', "files.0: rows: 'many' is no count"),
        ('[{"file": "a", "sha256": "abc"}]', "files.0: sha256: 'abc' is no SHA-256 in hex"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_what_is_wrong_with_json_is_named_by_entry_and_field(content: str | bytes, message: str) -> None:
    assert problem(content).startswith(message)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "line 1: column file is missing"),
        ("name,rows\na.csv,3\n", "line 1: column file is missing"),
        ("file,rows\na.csv,3\nb.csv\n", "line 3: its number of fields differs from the header"),
        ("file,rows\na.csv,3,4\n", "line 2: its number of fields differs from the header"),
        ("file,rows\na.csv,x\n", "line 2: rows: 'x' is no count"),
        ("file,rows\n,3\n", "line 2: file: is missing"),
        ('file,rows\n"a.csv,3\n', "line 2: not CSV"),
    ],
)
def test_what_is_wrong_with_csv_is_named_by_line_and_column(content: str, message: str) -> None:
    assert problem(content, "m.csv").startswith(message)


def test_a_manifest_of_windows_reads_the_same() -> None:
    assert [one.file for one in read("\ufefffile,rows\r\na.csv,3\r\n", "m.csv")] == [f"{FOLDER}/a.csv"]
