"""Which version of a period readers get: the one that was newest at a time, the final one, one by its number.

A later time never gives an older version, whatever the clock did; the filters of the documentation give
the same. No Spark.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse import locations
from lakehouse.calendar.periods import Kind
from lakehouse.contracts.series import Series
from lakehouse.gold.numbers import history as numbers_history
from lakehouse.gold.numbers.version_selector import SelectBy, UnknownVersionError, parse
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.laws import law
from lakehouse_tests.support.numbers_without_spark import FIRST, ScriptedNumbers, day, metric, published_rows, without_spark

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date

    from lakehouse.gold.numbers.history import PublishedVersion


@pytest.fixture(autouse=True, scope="module")
def _without_spark() -> Iterator[None]:
    with without_spark():
        yield


def known(numbers: ScriptedNumbers, number: int) -> list[PublishedVersion]:
    return numbers_history.history(numbers.lake, numbers.series, [day(number)])[day(number)]


def answer(numbers: ScriptedNumbers, number: int, text: str) -> str:
    return numbers_history.version(numbers.lake, numbers.series, numbers.series.period(day(number)), parse(text)).version.label


MOMENTS = st.lists(st.tuples(st.integers(1, 12), st.integers(0, 2), st.integers(1, 3)), min_size=1, max_size=6)


@law(100, in_each_run=4)
@given(
    moments=MOMENTS,
    asked_hours=st.lists(st.integers(-24, 14 * 24), min_size=8, max_size=8),
    closed=st.sampled_from(["restate", "adjust"]),
)
def test_as_of_a_time(tmp_path_factory, moments: list[tuple[int, int, int]], asked_hours: list[int], closed: str) -> None:
    numbers = ScriptedNumbers(lake_in(tmp_path_factory.mktemp("lake")), metric(publication={"after_close": closed}))
    shown: list[tuple[Any, Any]] = []  # what readers saw from when on, as it happened: only where the clock went forward
    for number, hour, value in moments:
        numbers.at(number, hour)
        numbers.set(1, value)
        numbers.publish(1)
        shown.append((numbers.lake.now(), numbers.latest_total(1)))
    versions = [version for version in known(numbers, 1) if version.adjustment is None]
    start = versions[0].published_at
    labels = []
    for hours in sorted(asked_hours):
        moment = min(start, numbers.lake.now()).replace(hour=0) + timedelta(hours=hours)
        text = moment.isoformat()
        holding = [
            version
            for version in versions
            if version.published_at <= moment and (version.superseded_at is None or version.superseded_at > moment)
        ]
        picked = numbers_history.pick(known(numbers, 1), parse(text))
        assert [picked.version] == holding if picked else moment < start and not holding
        if picked:
            labels.append(picked.version.revision)
        if [time for time, _ in shown] == sorted(time for time, _ in shown):
            seen = [value for time, value in shown if time <= moment]
            assert [row["total"] for row in (picked.version.rows if picked else [])] == seen[-1:]
    assert labels == sorted(labels), "later is never older"
    assert numbers_history.pick(known(numbers, 1), parse("latest")) == numbers_history.pick(
        known(numbers, 1), parse("2100-01-01")
    )


def numbers_with_history(lake) -> ScriptedNumbers:
    """Day 1: r1 on the 1st, r2 on the 3rd, r3 final on the 8th, adjusted twice on the 9th; day 2: r1 on the 3rd."""
    numbers = ScriptedNumbers(lake, metric(grain=["store"], publication={"after_close": "adjust", "rollups": ["week"]}))
    for number, hour, value in ((1, 6, 1), (3, 6, 2), (8, 6, 2), (9, 6, 5), (9, 7, 4)):
        numbers.at(number, hour)
        numbers.set(1, {"s": value, "n": 10})
        if number == 3:
            numbers.set(2, {"n": 7})
        numbers.publish()
    return numbers


def test_versions_by_name(lake) -> None:
    numbers = numbers_with_history(lake)
    assert [one.label for one in known(numbers, 1)] == ["r1", "r2", "r3", "r3.a1", "r3.a2"]
    for text, label in [
        *(("latest", "r3"), ("final", "r3"), ("first", "r1"), ("r2", "r2"), ("2", "r2"), ("r3.a2", "r3.a2"), ("v1", "r3")),
        *(("2024-01-01", "r1"), ("2024-01-02", "r1"), ("2024-01-03", "r2"), ("2024-01-03T05:59:59Z", "r1")),
        *(
            ("2024-01-03T06:00:00Z", "r2"),
            ("2024-01-03T07:00:00+02:00", "r1"),
            ("total_v2024-01-01.r2", "r2"),
            ("2030-01-01", "r3"),
        ),
    ]:
        assert answer(numbers, 1, text) == label, text
    assert [row["store"] for row in known(numbers, 1)[0].rows] == ["n", "s"]


@pytest.mark.parametrize(
    ("number", "text", "message"),
    [
        (3, "latest", "nothing of total has been published for 2024-01-03"),
        (
            1,
            "r9",
            "has no version r9 of 2024-01-01: it was first published 2024-01-01 06:00 UTC, and has r1, r2, r3, r3.a1",
        ),
        (1, "r2.a1", "has no version r2.a1"),
        (1, "v2", "has no version v2"),
        (2, "2024-01-02", "has no version 2024-01-02 of 2024-01-02: it was first published 2024-01-03 06:00 UTC"),
    ],
)
def test_missing_versions_are_reported(lake, number: int, text: str, message: str) -> None:
    numbers = numbers_with_history(lake)
    with pytest.raises(UnknownVersionError, match=message):
        answer(numbers, number, text)


def test_a_number_that_is_not_final_says_so(lake) -> None:
    numbers = ScriptedNumbers(lake)
    numbers.at(2)
    numbers.set(1, 1)
    numbers.publish()
    found = numbers_history.version(lake, numbers.series, numbers.series.period(day(1)), parse("final"))
    assert found.note == "not final: this is the newest number, and it is preliminary; the next state is due on 2024-01-08"
    numbers.at(8)
    numbers.close()
    assert numbers_history.version(lake, numbers.series, numbers.series.period(day(1)), parse("final")).note is None


def test_many_periods_as_of_a_time(lake) -> None:
    numbers = numbers_with_history(lake)

    def labels(text: str, first: date = FIRST) -> dict[int, str]:
        found = numbers_history.versions(numbers_history.history_between(lake, numbers.series, first, day(5)) or {}, parse(text))
        return {one.day: version.label for one, version in found.items()}

    assert labels("latest") == {1: "r3", 2: "r2"}
    assert labels("2024-01-02") == {1: "r1"}
    assert labels("2024-01-03") == {1: "r2", 2: "r1"}
    assert labels("first", day(2)) == {2: "r1"}
    every = numbers_history.history_between(lake, numbers.series, None, None) or {}
    assert [start for start, known in sorted(every.items()) if known] == [day(1), day(2)], "all that was published"
    assert {start: one.label for start, one in numbers_history.newest(lake, numbers.series).items()} == {
        day(1): "r3",
        day(2): "r2",
    }


def test_a_roll_up_names_what_it_was_made_from(lake) -> None:
    numbers = numbers_with_history(lake)
    numbers.roll_up()
    week = Series(numbers.metric, Kind.WEEK)
    [found] = numbers_history.history(lake, week, [day(1)])[day(1)]
    assert found.made_from.as_json() == {"2024-01-01": "r3", "2024-01-02": "r2"}
    names = {row["version_name"] for row in published_rows(lake, numbers.series)}
    assert {f"total_v{one}.{label}" for one, label in found.made_from.revisions.items()} <= names
    [booked] = numbers_history.history(lake, week, [day(8)])[day(8)]
    assert booked.made_from.as_json() == {"adjustments": ["total_v2024-01-01.r3.a1", "total_v2024-01-01.r3.a2"]}
    assert [row["total"] for row in booked.rows] == [2]


def test_two_versions_side_by_side(lake) -> None:
    numbers = numbers_with_history(lake)
    first, second, *_ = known(numbers, 1)
    changed = {(one.grain, one.before, one.after) for one in numbers_history.changes(numbers.series, first, second)}
    assert changed == {((("store", "n"),), 10, 10), ((("store", "s"),), 1, 2)}
    assert [one.before for one in numbers_history.changes(numbers.series, None, second)] == [None, None]
    assert numbers_history.changes(numbers.series, None, None) == []
    told = numbers_history.moved(numbers.series, known(numbers, 1))
    assert [(sides["total"].before, sides["total"].after) for sides in told] == [
        (None, 11),
        (11, 12),
        (12, 12),
        (12, 15),
        (15, 14),
    ], "an adjustment comes on top"


def test_a_number_by_a_grain_of_integers_has_its_zero_and_its_nothing(lake) -> None:
    numbers = numbers_with_history(lake)
    published = locations.gold(lake, numbers.series).read()
    assert published is not None
    one = published.slice(0, 1)
    place = one.column_names.index("store")
    rows = pa.concat_tables([one.set_column(place, "store", pa.array([store], pa.int64())) for store in (None, 2, 0, 1)])
    ((version,),) = numbers_history.versions_in(numbers.series, rows).values()
    assert [row["store"] for row in version.rows] == [0, 1, 2, None]


def test_words_for_versions_are_the_ones_that_are_parsed() -> None:
    assert {one.value for one in SelectBy} == {"latest", "final", "first", "revision", "as_of", "dataset"}
