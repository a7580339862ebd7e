"""The files of some arrival days are those of the whole landing folder, found in the folders of these days, markers first.

A file that lacks a column that the contract reads, or names it twice, is held.
"""

from __future__ import annotations

import io
import json
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse.bronze import landing
from lakehouse.contracts.source import SourceContract
from lakehouse_tests.support.lake import contract

if TYPE_CHECKING:
    from lakehouse.lake import Lake

DAYS = [date(2024, 1, 5), date(2024, 1, 7)]
FILES = [
    f"{folder}{day}{name}" for day in ("2024-01-05", "2024-01-06") for folder in ("", "eu/") for name in ("/a.csv", "/x/b.csv")
]
FLAT = ["sales-2024-01-05.csv", "sales-2024-01-06.csv", "2024-01-05/_done", "marks/2024-01-05/_done", "2024-01-07"]


@pytest.mark.parametrize(
    ("pattern", "marker", "folders"),
    [
        ("{arrival_date}/*.csv", None, ["2024-01-05", "2024-01-07"]),
        ("{arrival_date}/*.csv", "{arrival_date}/_done", ["2024-01-05", "2024-01-07"]),
        ("eu/{arrival_date}/x/*.csv", "marks/{arrival_date}/_done", [f"{top}/{day}" for top in ("marks", "eu") for day in DAYS]),
        ("*/{arrival_date}/*.csv", None, None),
        ("{arrival_date}/*.csv", "done-{arrival_date}", None),
        ("sales-{arrival_date}.csv", None, None),
    ],
)
def test_only_folders_of_the_days_are_listed(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, pattern: str, marker: str | None, folders: list[str] | None
) -> None:
    complete = {"complete_when": {"marker": marker}} if marker else {}
    source = contract(source={"landing": pattern, "start_date": "2024-01-01"} | complete)
    root = Path(lake.landing_of(source.dataset))
    for name in (*FILES, *FLAT):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    whole = landing.listing(lake, source)
    listed = []
    of_folder = landing._list
    monkeypatch.setattr(landing, "_list", lambda system, path: listed.append(path) or of_folder(system, path))
    of_days = landing.listing_of_days(lake, source, DAYS)
    assert [file for file in of_days.files if file.arrival_date in DAYS] == [
        file for file in whole.files if file.arrival_date in DAYS
    ]
    assert of_days.completion_markers == whole.completion_markers
    assert of_days.files
    assert listed == [str(root) if folders is None else f"{root}/{folder}" for folder in folders or [""]]


def test_a_file_that_matches_no_pattern_is_named_unless_its_name_says_that_it_is_not_meant(lake: Lake) -> None:
    complete = {"complete_when": {"marker": "{arrival_date}/done"}}
    source = contract(source={"landing": "{arrival_date}/*.csv", "start_date": "2024-01-01"} | complete)
    meant = ["2024-01-05/a.csv", "2024-01-05/done"]
    passed_over = ["2024-01-05/_SUCCESS", "2024-01-05/.a.csv.part", "_temporary/2024-01-05/a.csv", ".trash/x"]
    unmatched = ["2024-01-05/a.CSV", "2024-01-05/a.csv.zip", "20240105/a.csv", "notes.txt"]
    other = contract(dataset="others", source={"landing": "notes*{arrival_date}*", "start_date": "2024-01-01"})
    of_other = "notes/2024-01-05"
    alone = lake.with_settings(landing=None)
    for listed, expected in ((lake, unmatched), (alone, [*unmatched, of_other])):
        for name in (*meant, *passed_over, *unmatched, of_other):
            path = Path(listed.landing_of("events"), name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(name)
        complaints = landing.listing(listed, source).unmatched_complaints(listed, source, [source, other])
        assert sorted(complaints) == sorted(expected), "the sources share the folder that the settings name, and no other"
    of_days = landing.listing_of_days(alone, source, [DAYS[0]])
    assert sorted(of_days.unmatched) == ["2024-01-05/a.CSV", "2024-01-05/a.csv.zip"]


def test_many_days_are_listed_at_once(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = []
    monkeypatch.setattr(landing, "_list", lambda _, path: listed.append(path) or [])
    source = contract(source={"landing": "{arrival_date}/*.csv", "start_date": "2024-01-01"})
    landing.listing_of_days(lake, source, [date(2024, 1, 1 + number) for number in range(20)])
    assert listed == [lake.landing_of(source.dataset)]


DAY = date(2024, 11, 4)
GOOD = '{"id":"1","day":"2024-11-04","amount":10}\n'
RENAMED = '{"id":"1","day":"2024-11-04","Amount":10}\n'


def _orders(kind: str = "json", **changes: object) -> SourceContract:
    fields = [{"name": "id", "type": "string"}, {"name": "amount", "type": "decimal(10,2)"}, {"name": "note", "type": "string"}]
    source = {"landing": "{arrival_date}/*", "format": kind, "start_date": "2024-01-01", **changes.pop("source", {})}
    clocks = {"event": "day"}
    return SourceContract.model_validate(
        {"dataset": "orders", "primary_key": "id", "model": {"fields": fields}, "source": source, "clocks": clocks, **changes}
    )


def _problem(lake: Lake, source: SourceContract, content: bytes) -> str | None:
    """Why a file as a whole cannot be read."""
    path = Path(lake.landing_of(source.dataset)) / f"{DAY}" / "orders"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    (file,) = landing.listing(lake, source).files
    return landing.fingerprint(lake, source, file).problem


@pytest.mark.parametrize(
    ("content", "changes", "problem"),
    [
        (GOOD, {}, None),  # senders leave out what has no value, here the note
        ('{"id":"1","day":"2024-11-04"}\n', {}, None),
        (GOOD.replace("}", ',"till":3}'), {}, "column note is in no record (the records have 'till')"),
        (GOOD.replace("}", ',"till":3}'), {"quality": {"nulls": {"note": 1}}}, None),
        (GOOD.replace("}", ',"till":3}') + GOOD.replace("}", ',"note":null}'), {}, None),
        (
            RENAMED,
            {},
            "column amount is in no record (the records have 'Amount'); have the file sent again, or name the column in",
        ),
        (f"[{RENAMED}]", {"source": {"array": True}}, "column amount is in no record (the records have 'Amount')"),
        (GOOD.replace("}", ',"note":"","day_":"x"}'), {}, None),
        (
            GOOD.replace("}", ',"note":"","Op":"d"}'),
            {"changes": {"op": "op"}},
            "column op is in no record (the records have 'Op')",
        ),
        (GOOD.replace("}", ',"note":"","by":"x"}'), {"changes": {"op": "op"}}, None),
        ('{"id":"1","day":"2024-11-04","op":"D","by":"me"}\n', {"changes": {"op": "op"}}, None),  # a delete needs its key only
        (GOOD.replace("10", '10,"till":3') * 1200 + GOOD.replace("}", ',"note":"late"}'), {}, None),
        (GOOD.replace("10", '10,"till":3') * 1200 + GOOD.replace("10", '"note"'), {}, "column note is in no record"),
    ],
)
def test_json_without_a_column_is_held_where_other_names_came(
    lake: Lake, content: str, changes: dict[str, object], problem: str | None
) -> None:
    found = _problem(lake, _orders(**changes), content.encode())
    assert (found is None) if problem is None else (found or "").startswith(problem)


def test_the_columns_of_an_envelope_are_those_of_its_row(lake: Lake) -> None:
    source = _orders(source={"envelope": "debezium"})
    row = {"id": "1", "day": "2024-11-04", "note": "", "amount": 10}
    event = {"op": "c", "before": None, "source": {"lsn": 1}, "after": row}
    assert _problem(lake, source, json.dumps(event).encode()) is None
    renamed = event | {"after": {"id": "1", "day": "2024-11-04", "note": "", "total": 10}}
    message = _problem(lake, source, json.dumps(renamed).encode())
    assert (message or "").startswith("column amount is in no record (the records have 'total')")


def test_parquet_with_a_column_twice_is_held(lake: Lake) -> None:
    names = ["id", "day", "amount", "note", "amount"]
    table = pa.table([pa.array(["1"]), pa.array(["2024-11-04"]), pa.array([10]), pa.array([""]), pa.array([99])], names=names)
    pq.write_table(table, buffer := io.BytesIO())
    problem = _problem(lake, _orders("parquet"), buffer.getvalue())
    assert problem == "names column amount twice; have the file sent again with a name for each column"
