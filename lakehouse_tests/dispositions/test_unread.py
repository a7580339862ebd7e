"""What cannot be read, and the event days to which it may belong, against a plain model."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse.bronze import checks as bronze_checks
from lakehouse.dispositions import malformed_rows, unread
from lakehouse.dispositions.unread import UnreadFile, UnreadOfSource
from lakehouse.lake import Lake
from lakehouse.ledger import ingestions, unread_rows
from lakehouse.settings import Settings
from lakehouse_tests.support.lake import SampleLake, contract, csv_file
from lakehouse_tests.support.laws import law

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakehouse.contracts.source import SourceContract


def day(number: int) -> date:
    return date(2024, 1, number)


class Line(NamedTuple):
    """A line of a file: its key, the number of its event day, and whether its amount can be read; None is no readable value."""

    key: str | None
    day: int | None
    sound: bool

    @property
    def text(self) -> str:
        amount = "5" if self.sound else "1,100.00"
        at = "?" if self.day is None else f"{day(self.day)}T12:00:00Z"
        return f'{self.key or ""},"{amount}",{at},{day(28)}T00:00:00Z,insert,,'

    @property
    def is_read(self) -> bool:
        return self.sound and self.key is not None and self.day is not None


def no_session() -> SparkSession:
    raise AssertionError("small files need no Spark")


def lake_at(path: Path, source: SourceContract) -> SampleLake:
    (path / "landing").mkdir()
    lake = Lake(Settings(root=str(path / "root"), landing=str(path / "landing")))
    return SampleLake(lake, source, no_session)


def deliver(sample: SampleLake, number: int, *lines: Line, name: str = ".csv") -> None:
    sample.deliver(day(number), csv_file(line.text for line in lines), name)
    sample.ingest(day(number))


def waiting(sample: SampleLake, *numbers: int) -> list[int]:
    """The numbers of the days, of some, that rows may belong to that could not be read."""
    known = unread.of_source(sample.lake, sample.contract)
    at_once = [number for number in numbers if known.missing_of([day(number)])[0]]
    separately = [n for n in numbers if unread.of_source(sample.lake, sample.contract, [day(n)]).missing_of([day(n)])[0]]
    assert at_once == separately
    return at_once


def test_a_malformed_row_that_names_its_day_holds_this_day_only(tmp_path: Path) -> None:
    sample = lake_at(tmp_path, contract())
    deliver(sample, 6, Line("a", 4, True), Line("b", 5, False), Line("c", 5, False))
    assert waiting(sample, *range(1, 9)) == [5]
    rows, reason = unread.of_source(sample.lake, sample.contract).missing_of([day(5)])
    assert (rows, reason) == (2, "amount: '1,100.00' is not an integer (arrival_date=2024-01-06.csv:3)")


def test_a_row_without_a_day_may_belong_to_the_days_of_its_file_through_its_arrival(tmp_path: Path) -> None:
    sample = lake_at(tmp_path, contract())
    deliver(sample, 6, Line("a", 4, True), Line("b", None, True))
    assert waiting(sample, *range(1, 9)) == [4, 5, 6]
    assert unread.of_source(sample.lake, sample.contract).missing_of([day(4), day(5)])[0] == 1


def test_a_file_of_which_no_day_can_be_read_may_belong_to_every_day_until_it_came(tmp_path: Path) -> None:
    sample = lake_at(tmp_path, contract())
    deliver(sample, 6, Line("a", None, True), Line(None, None, False))
    assert waiting(sample, *range(1, 9)) == [1, 2, 3, 4, 5, 6]


def test_the_same_key_read_later_meets_the_need_and_one_read_earlier_does_not(tmp_path: Path) -> None:
    sample = lake_at(tmp_path, contract())
    deliver(sample, 4, Line("a", 3, True))
    deliver(sample, 5, Line("a", 3, False), Line("b", 5, False))
    assert waiting(sample, 3, 5) == [3, 5]
    deliver(sample, 6, Line("b", 5, True))
    assert waiting(sample, 3, 5) == [3]
    deliver(sample, 7, Line("a", 3, True))
    assert waiting(sample, 3, 5) == []


def test_rows_without_key_are_replaced_by_a_file_of_the_same_name_with_as_many_rows(tmp_path: Path) -> None:
    sample = lake_at(tmp_path, contract())
    deliver(sample, 5, Line(None, 5, True), Line("b", None, False))
    deliver(sample, 5, Line("c", 5, True))
    assert waiting(sample, 5) == [5], "it has fewer rows"
    deliver(sample, 5, Line("a", 5, True), Line("b", 5, True))
    assert waiting(sample, 5) == [5], "the row that names its day has no key"
    deliver(sample, 6, Line("b", None, False))
    assert waiting(sample, 6) == [6]
    deliver(sample, 6, Line("b", 6, True))
    assert waiting(sample, 6) == []


@pytest.mark.parametrize("policy", ["overwrite_partition_safe", "overwrite_all"])
def test_a_day_that_is_sent_again_replaces_its_unread_rows(tmp_path: Path, policy: str) -> None:
    source = contract(materialization={"reprocess_policy": policy}, changes={})
    sample = lake_at(tmp_path, source)
    deliver(sample, 5, Line("a", 4, True), Line(None, 4, False), Line("b", 5, False))
    assert waiting(sample, 4, 5) == [4, 5]
    deliver(sample, 6, Line("a", 4, True), Line("x", 4, True))
    assert waiting(sample, 4, 5) == ([5] if policy == "overwrite_partition_safe" else [])


def test_what_an_earlier_release_ingested_holds_by_its_count(tmp_path: Path) -> None:
    sample = lake_at(tmp_path, contract())
    deliver(sample, 5, Line("a", 4, True))
    [entry] = ingestions.all_of(sample.lake, "events")
    old = replace(entry, ingestion_id="old", content_hash="old", source_file="old.csv", rows=3, malformed=2)
    ingestions.record(sample.lake, old)
    assert waiting(sample, *range(1, 9)) == [4, 5]
    assert unread.of_source(sample.lake, sample.contract).missing_of([day(4)]) == (2, None)


def test_they_are_counted_once_and_listed_with_their_text(tmp_path: Path) -> None:
    sample = lake_at(tmp_path, contract())
    deliver(sample, 5, Line("a", 4, True), Line("b", 4, False), Line("c", None, True))
    [entry] = unread_rows.newest(sample.lake, "events").values()
    assert (entry.malformed, entry.days, entry.rows, entry.line_number) == (2, [day(4)], [1], 3)
    rows = malformed_rows.few(sample.lake, "events", 9)
    assert [(row["record_key"], row["event_date"]) for row in rows] == [("b", day(4)), ("c", None)]
    assert '"1,100.00"' in rows[0]["raw_payload"]
    assert malformed_rows.few(sample.lake, "events", 9, event_days=[day(4)]) == rows[:1]


def test_checks_tell_malformed_rows_from_rows(tmp_path: Path) -> None:
    sample = lake_at(tmp_path, contract(quality={"row_count": {"min": 2}}))
    deliver(sample, 5, Line("a", 4, True), Line("b", 4, False), Line("c", 4, False))
    checks = {result.check: result for result in bronze_checks.check_bronze(sample.lake, sample.contract, [day(5)])}
    assert not checks["row_count"].passed
    found = checks["malformed_tolerated"]
    assert (found.passed, found.warns, found.numbers) == (False, True, {"rows": 3, "malformed": 2, "share": 0.666667})
    assert str(found.explanation).startswith("2 of 3 rows could not be read: amount: '1,100.00' is not an integer; the contract")
    lenient = contract(quality={"malformed": {"tolerated": 0.7, "severity": "error"}})
    checks = {result.check: result for result in bronze_checks.check_bronze(sample.lake, lenient, [day(5)])}
    assert checks["malformed_tolerated"].passed


@pytest.mark.parametrize(
    ("unreadable", "tolerated", "waits"), [(1, "0.01", False), (2, "0.01", True), (1, "0", True), (99, "1", False)]
)
def test_the_share_is_that_of_the_rows_of_the_day(unreadable: int, tolerated: str, waits: bool) -> None:
    file = UnreadFile("a.csv", "a", day(5), 100, 2, "no", {day(4): unreadable}, 0, day(4), day(5))
    known = UnreadOfSource(Decimal(tolerated), [file], {day(4): 100 - unreadable, day(5): 1})
    assert bool(known.missing_of([day(4)])[0]) is waits


LINES = st.builds(Line, st.sampled_from(["a", "b", None]), st.sampled_from([1, 2, 3, None]), st.booleans())


def expected(files: list[tuple[int, list[Line]]], on: int) -> bool:
    """Whether an unread row may belong to a day, row by row."""
    places = [(file, line) for file, (_, lines) in enumerate(files) for line in range(len(lines))]
    for file, line in places:
        arrival, lines = files[file]
        row = lines[line]
        if row.is_read:
            continue
        later = [files[f][1][n] for f, n in places if (f, n) > (file, line)]
        if row.key is not None and any(other.is_read and other.key == row.key for other in later):
            continue
        named = [other.day for other in lines if other.day is not None]
        first, last = min(named, default=0), max([*named, arrival])
        if row.day == on or (row.day is None and first <= on <= last):
            return True
    return False


@law(50, in_each_run=3)
@example(files=[[Line("a", 1, False)], [Line("a", 2, True)]])  # read later, on another day
@example(files=[[Line("a", 1, True), Line("a", 1, False)], [Line(None, None, True)]])  # read earlier only
@given(files=st.lists(st.lists(LINES, min_size=1, max_size=4), min_size=1, max_size=4))
def test_a_day_waits_exactly_for_the_unread_rows_that_may_belong_to_it(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[Line]]
) -> None:
    sample = lake_at(tmp_path_factory.mktemp("lake"), contract())
    delivered: list[tuple[int, list[Line]]] = []
    for number, lines in enumerate(files, 3):
        deliver(sample, number, *lines, Line(f"only in {number}", number, True))  # no file is sent twice
        delivered.append((number, [*lines, Line(f"only in {number}", number, True)]))
        days = range(1, 9)
        assert waiting(sample, *days) == [on for on in days if expected(delivered, on)]
