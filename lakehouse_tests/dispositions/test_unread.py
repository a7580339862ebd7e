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
from lakehouse.dispositions import unread
from lakehouse.dispositions.unread import UnreadFile, UnreadOfSource
from lakehouse.lake import Lake
from lakehouse.ledger import ingestions
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
    """A line of a file: its key, the number of its event day, whether its amount can be read, and the day of its arrival time by
    the sender's clock; None is no readable value.
    """

    key: str | None
    day: int | None
    sound: bool
    sent: int | None = 28

    @property
    def text(self) -> str:
        amount = "5" if self.sound else "1,100.00"
        at = "?" if self.day is None else f"{day(self.day)}T12:00:00Z"
        sent = "?" if self.sent is None else f"{day(self.sent)}T00:00:00Z"
        return f'{self.key or ""},"{amount}",{at},{sent},insert,,'

    @property
    def is_read(self) -> bool:
        return self.sound and self.key is not None and self.day is not None and self.sent is not None


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
    [entry] = ingestions.newest_unread(sample.lake, "events").values()
    assert (entry.malformed, entry.days, entry.rows, entry.line_number) == (2, [day(4)], [1], 3)
    rows = unread.few_malformed(sample.lake, "events", 9)
    assert [(row["record_key"], row["event_date"]) for row in rows] == [("b", day(4)), ("c", None)]
    assert '"1,100.00"' in rows[0]["raw_payload"]
    assert unread.few_malformed(sample.lake, "events", 9, event_days=[day(4)]) == rows[:1]


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


def test_an_unread_row_holds_the_days_on_which_its_key_has_a_record(tmp_path: Path) -> None:
    sample = lake_at(tmp_path, contract())
    deliver(sample, 4, Line("a", 3, True), Line("b", 2, True), Line("c", 4, True))
    deliver(sample, 6, Line("a", 6, False), Line("b", None, True), Line("d", 6, True))
    assert waiting(sample, *range(1, 9)) == [2, 3, 6], "a may move to 6; the new day of b is not known"
    known = unread.of_source(sample.lake, sample.contract)
    assert [known.missing_of([day(number) for number in numbers])[0] for numbers in ([3], [3, 6], [2, 3, 6], [1, 4])] == [
        1,
        2,
        2,
        0,
    ]
    deliver(sample, 7, Line("a", 6, True), Line("b", 6, True))
    assert waiting(sample, *range(1, 9)) == []


def test_an_unread_correction_holds_the_days_of_the_key_that_it_corrects(tmp_path: Path) -> None:
    sample = lake_at(tmp_path, contract())
    deliver(sample, 4, Line("a", 3, True))
    line = Line("new", 6, False).text.replace("insert,", "correct,a")
    sample.deliver(day(6), csv_file([line]))
    sample.ingest(day(6))
    assert waiting(sample, *range(1, 9)) == [3, 6]


def test_a_row_is_replaced_only_by_one_that_comes_after_it_in_the_order_of_the_source(tmp_path: Path) -> None:
    sample = lake_at(tmp_path, contract())
    deliver(sample, 4, Line("a", 1, False, sent=3), Line("a", 1, True, sent=2))
    assert waiting(sample, 1) == [1], "newest first: the older row is further down"
    deliver(sample, 5, Line("a", 1, True, sent=2), Line("b", 5, True))
    assert waiting(sample, 1) == [1], "an older row that is sent again is still older"
    deliver(sample, 6, Line("a", 1, True, sent=3))
    assert waiting(sample, 1) == []
    deliver(sample, 7, Line("a", 1, False, sent=None))
    assert waiting(sample, 1) == [1]
    deliver(sample, 8, Line("a", 1, True, sent=2))
    assert waiting(sample, 1) == [], "whose order cannot be read, the delivery decides"


def test_the_numbers_of_a_source_order_unread_rows(tmp_path: Path) -> None:
    sample = lake_at(tmp_path, contract(order={"sequence": ["seq", "arrived_at"]}, clocks={"event": "event_time"}))
    text = "a,{},2024-01-03T12:00:00Z,7,insert,,{}".format
    sample.deliver(day(4), csv_file([text('"1,100.00"', 9), text(5, 8)]))
    sample.ingest(day(4))
    assert waiting(sample, 3) == [3]
    sample.deliver(day(5), csv_file([text(5, 10)]))
    sample.ingest(day(5))
    assert waiting(sample, 3) == []


LINES = st.builds(
    Line, st.sampled_from(["a", "b", None]), st.sampled_from([1, 2, 3, None]), st.booleans(), st.sampled_from([28, 27, None])
)


def expected(files: list[tuple[int, list[Line]]], on: int) -> bool:
    """Whether an unread row may belong to a day, row by row."""
    places = [(file, line) for file, (_, lines) in enumerate(files) for line in range(len(lines))]
    for file, line in places:
        arrival, lines = files[file]
        row = lines[line]
        if row.is_read:
            continue
        same_key = [(f, n) for f, n in places if row.key is not None and files[f][1][n][0] == row.key and files[f][1][n].is_read]

        def order(f: int, n: int, by_clock: bool = row.sent is not None) -> tuple[int, ...]:
            return (*([files[f][1][n].sent or 0] if by_clock else []), f, n)

        if any(order(*other) > order(file, line) for other in same_key):
            continue
        if on <= arrival and any(files[f][1][n].day == on for f, n in same_key):
            return True
        named = [other.day for other in lines if other.day is not None]
        first, last = min(named, default=0), max([*named, arrival])
        if row.day == on or (row.day is None and first <= on <= last):
            return True
    return False


@law(50, in_each_run=3)
@example(files=[[Line("a", 1, False)], [Line("a", 2, True)]])  # read later, on another day
@example(files=[[Line("a", 1, True), Line("a", 1, False)], [Line(None, None, True)]])  # read earlier only
@example(files=[[Line("a", 1, True)], [Line("a", 2, False), Line("a", 3, True, 27)]])  # read later, and older
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
