"""Two corrections of one original, and corrections of each other: found whatever their order, their chain and their days; by
files that need no Spark.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import date, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse import locations
from lakehouse.ledger import applied_inputs
from lakehouse.silver import checks, correction_checks
from lakehouse.silver import update as silver_update
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.ingested_files import deliver_files
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.laws import law

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake

KEYS = "abcdef"
#: A record: its key, the key of the record that it corrects (its own for an insert), and its day of January.
Record = tuple[str, str, int]


def arrive(lake: Lake, number: int, records: Sequence[Record], op: str | None = None) -> None:
    """Ingest a file of records and bring silver up to date.

    :param op: what the records are said to be; by default a record that names another is a correction.
    """
    lines = []
    for line, (key, named, day) in enumerate(records):
        word = op or ("insert" if key == named else "correct")
        lines.append(f"{key},1,2024-01-0{day}T12:00:00Z,2024-02-01T{number:02}:00:{line:02}Z,{word},{named},0")
    deliver_files(lake, contract(), date(2024, 2, 1) + timedelta(days=number), {"x": lines})
    waiting = set(applied_inputs.pending(lake, "events"))
    silver_update.update(lake, contract(), lambda: pytest.fail("few rows need no Spark"), waiting, f"run {number}")


def living(lake: Lake) -> set[str]:
    rows = locations.silver(lake, "events").read(["record_key"])
    return set() if rows is None else set(rows["record_key"].to_pylist())


def competing(lake: Lake, *days: int) -> list[list[str]]:
    table = locations.silver(lake, "events").open()
    assert table is not None
    wanted = [date(2024, 1, day) for day in days]
    groups = correction_checks.undecided(lake, contract(), table, wanted).competing
    return sorted(sorted(one.key for one in group) for group in groups)


def test_a_chain_is_no_competition_and_two_corrections_of_one_original_are(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    arrive(lake, 0, [("a", "a", 1), ("x", "x", 1)])
    arrive(lake, 1, [("b", "a", 1)])
    arrive(lake, 2, [("c", "b", 2)])
    assert competing(lake, 1, 2) == []
    arrive(lake, 3, [("d", "x", 1), ("e", "x", 3)])
    assert competing(lake, 1) == [["d", "e"]]
    assert competing(lake, 2) == []
    assert competing(lake, 3) == [["d", "e"]]
    [failed] = [each for each in checks.check_silver(lake, contract(), [date(2024, 1, 1)]) if each.check == "one_correction"]
    assert not failed.passed
    assert "d and e correct the same original, and all of them count" in f"{failed.explanation}"


def test_a_correction_of_a_correction_competes_with_a_later_one_of_the_original(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    arrive(lake, 0, [("d", "x", 1), ("e", "x", 1), ("x", "x", 1)])
    arrive(lake, 1, [("f", "d", 1)])
    assert competing(lake, 1) == [["e", "f"]]


def failed(lake: Lake, source: SourceContract | None = None, day: int = 1) -> str:
    """What the check says about a day; empty if it passes."""
    outcomes = checks.check_silver(lake, source or contract(), [date(2024, 1, day)])
    return next(each.explanation or "" for each in outcomes if each.check == "one_correction")


@pytest.mark.parametrize("op", ["correct", "insert"])
@pytest.mark.parametrize("originals", [[], [("a", "a", 1), ("b", "b", 1)]], ids=["alone", "after their originals"])
def test_two_records_that_correct_each_other_hold_the_numbers_until_one_is_sent_again_alone(
    tmp_path: Path, op: str, originals: list[Record]
) -> None:
    lake = lake_in(tmp_path)
    arrive(lake, 0, originals)
    arrive(lake, 1, [("a", "b", 1), ("b", "a", 2)], op)
    assert "a and b correct each other, and which one counts is unknown" in failed(lake)
    assert "a and b correct each other" in failed(lake, day=2)
    arrive(lake, 2, [("b", "b", 2)], "correct")
    assert (failed(lake), failed(lake, day=2), living(lake)) == ("", "", {"b"})


def test_a_circle_of_three_holds_the_numbers_of_all_its_days(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    arrive(lake, 0, [("c", "a", 3)])
    arrive(lake, 1, [("b", "c", 2)])
    arrive(lake, 2, [("a", "b", 1)])
    assert "a and b and c correct each other" in failed(lake)
    assert [failed(lake, day=day) == "" for day in (2, 3)] == [False, False]


def test_an_original_that_is_sent_again_as_the_correction_of_its_correction_counts(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    arrive(lake, 0, [("x", "x", 1)])
    arrive(lake, 1, [("a", "x", 1)])
    arrive(lake, 2, [("x", "a", 1)])
    assert (failed(lake), living(lake)) == ("", {"x"})


def test_a_record_back_under_its_first_id_that_does_not_count_is_not_passed_over(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    for number, record in enumerate([("x", "x", 1), ("a", "x", 1), ("x", "a", 1)]):
        arrive(lake, number, [record], "insert")
    assert living(lake) == set()
    assert "a and x correct each other" in failed(lake)


@law(50, in_each_run=6)
@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(KEYS), st.integers(1, 3)), min_size=1, max_size=4),
        min_size=1,
        max_size=3,
    )
)
def test_the_groups_are_those_of_all_records(tmp_path_factory: pytest.TempPathFactory, files: list[list[Record]]) -> None:
    lake = lake_in(tmp_path_factory.mktemp("lake"))
    for number, records in enumerate(files):
        arrive(lake, number, records)
    rows = locations.silver(lake, "events").read(["record_key", "corrects_key"])
    living = {row["record_key"]: row["corrects_key"] for row in ([] if rows is None else rows.to_pylist())}
    group = {key: {key} for key in KEYS}
    for key, named, _ in (record for records in files for record in records):
        together = group[key] | group[named]
        group |= dict.fromkeys(together, together)
    corrections = defaultdict[frozenset[str], list[str]](list)
    for key, named in living.items():
        if named not in (None, key):
            corrections[frozenset(group[key])].append(key)
    assert competing(lake, 1, 2, 3) == sorted(sorted(keys) for keys in corrections.values() if len(keys) > 1)
    assert circular(lake) == sorted(circles([record for records in files for record in records], living))


def circular(lake: Lake) -> list[list[str]]:
    table = locations.silver(lake, "events").open()
    assert table is not None
    groups = correction_checks.undecided(lake, contract(), table, [date(2024, 1, day) for day in (1, 2, 3)]).circular
    return sorted(sorted(one.key for one in group) for group in groups)


def circles(records: Sequence[Record], living: Iterable[str]) -> Iterator[list[str]]:
    """The keys whose newest records correct each other, unless one of them alone has an original and one counts."""
    newest = {key: named for key, named, _ in records}
    originals = {key for key, named, _ in records if key == named}
    for key in newest:
        path = [key]
        while newest.get(path[-1], path[-1]) not in path:
            path.append(newest[path[-1]])
        closes = newest.get(path[-1]) == key and len(path) > 1 and key == min(path)
        if closes and not (len(originals.intersection(path)) == 1 and set(path).intersection(living)):
            yield sorted(path)
