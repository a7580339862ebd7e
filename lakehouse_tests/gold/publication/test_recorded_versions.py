"""A commit records of its versions what the table has of them; the marks of earlier versions follow from the later ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.contracts.series import Series
from lakehouse.gold.numbers.published_table import PUBLISHED_SCHEMA
from lakehouse.gold.publication import revisions
from lakehouse.gold.reproduction import repair
from lakehouse.lake import table_io
from lakehouse.ledger import publications
from lakehouse_tests.support.api_client import numbers_with_weeks, publish_two_days
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.numbers_without_spark import without_spark

if TYPE_CHECKING:
    from pathlib import Path

#: What a later version sets on an earlier one.
MARKS = ("is_latest", "due_on", "superseded_at")


def test_versions_are_recorded_as_they_are_stored(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    with without_spark():
        numbers = publish_two_days(numbers_with_weeks(lake))
    series = Series(numbers.metric)
    table = locations.gold(lake, series)
    publications.follow(lake, series.name, table)
    recorded = {}
    for entry in publications.of(lake, series.name):
        recorded |= revisions.unpacked(entry.versions)
    stored = table.read()
    assert stored is not None
    assert len(stored) == 4
    for row in stored.select(PUBLISHED_SCHEMA.names).to_pylist():
        values = recorded[row["version_name"]]
        assert {name: row[name] for name in row if name not in MARKS} == {name: values[name] for name in row if name not in MARKS}


def test_the_marks_of_earlier_versions_follow_from_the_later_ones(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    with without_spark():
        numbers = publish_two_days(numbers_with_weeks(lake))
    series = Series(numbers.metric)
    for rows in table_io.split(locations.gold(lake, series).read(), series.by).values():
        unmarked = rows
        for name, value in (("is_latest", True), ("superseded_at", None)):
            kind = rows[name].type
            place = rows.column_names.index(name)
            unmarked = unmarked.set_column(place, name, pa.array([value] * len(rows), kind))
        marked = repair._in_order(unmarked)
        for name in MARKS:
            assert marked[name].to_pylist() == rows[name].to_pylist(), name
        assert pc.sum(marked["is_latest"]).as_py() == 1


def test_a_commit_of_an_earlier_release_has_recorded_nothing() -> None:
    assert revisions.unpacked(None) == {}
