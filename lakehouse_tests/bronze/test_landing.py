"""The files of some arrival days are those of the whole landing folder, found in the folders of these days, markers first."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakehouse.bronze import landing
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
