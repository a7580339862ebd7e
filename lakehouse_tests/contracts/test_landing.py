"""How a contract describes names in landing, and when an arrival day is complete."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from lakehouse.contracts.inputs import Source

FLAT, FOLDERS = "arrival_date={arrival_date}*", "{arrival_date}/*.csv"


@pytest.mark.parametrize(
    ("landing", "complete"),
    [
        (FOLDERS, {"marker": "{arrival_date}/_SUCCESS"}),
        (FOLDERS, {"manifest": "{arrival_date}/manifest*.json"}),
        (FOLDERS, {"manifest": "{arrival_date}/index.csv.json"}),
        (FLAT, {"marker": "arrival_date={arrival_date}.done"}),
        (FLAT, {"manifest": "arrival_date={arrival_date}.manifest.csv"}),
        (FOLDERS, {"manifest": "{arrival_date}/manifest.csv"}),
    ],
)
def test_markers_and_manifests_of_both_layouts(landing: str, complete: dict[str, str]) -> None:
    source = Source.model_validate({"landing": landing, "complete_when": complete})
    assert source.complete_when is not None
    assert source.complete_when.pattern == next(iter(complete.values()))


@pytest.mark.parametrize(
    ("complete", "where", "message"),
    [
        ({}, "complete_when", "name a 'marker:' or a 'manifest:', one of the two"),
        ({"marker": "{arrival_date}/a", "manifest": "{arrival_date}/b.csv"}, "complete_when", "one of the two"),
        ({"marker": "_SUCCESS"}, "complete_when.marker", "must name the arrival day once"),
        ({"marker": "/{arrival_date}/_SUCCESS"}, "complete_when.marker", "no leading slash"),
        ({"marker": "../{arrival_date}"}, "complete_when.marker", "no '..'"),
        ({"manifest": "{arrival_date}/manifest"}, "complete_when.manifest", "must end in .json or .csv"),
        ({"manifest": "{arrival_date}/*.csv"}, "", "matches the day's files themselves"),
        ({"marker": "{arrival_date}/*"}, "", "matches the day's files themselves"),
        ({"marked": "{arrival_date}/_SUCCESS"}, "complete_when.marked", "Extra inputs"),
    ],
)
def test_a_mistake_names_its_field(complete: dict[str, str], where: str, message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Source.model_validate({"landing": FOLDERS, "complete_when": complete})
    assert message in caught.value.errors()[0]["msg"]
    assert ".".join(map(str, caught.value.errors()[0]["loc"])) == where


@pytest.mark.parametrize("landing", ["*.csv", "{arrival_date}/{arrival_date}.csv", "/{arrival_date}", "a/../{arrival_date}"])
def test_a_landing_pattern_names_the_day_once_below_the_folder(landing: str) -> None:
    with pytest.raises(ValidationError):
        Source.model_validate({"landing": landing})
