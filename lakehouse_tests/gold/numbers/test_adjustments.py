"""A closed number and its adjustments add up to the number of a restatement, exactly and for each row of the grain (R9).

Generated histories of decimals with grain rows that appear and vanish; how bookings enter open and closed roll-ups. No Spark.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse import locations
from lakehouse.calendar.periods import Kind
from lakehouse.contracts import Catalog
from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.series import Series
from lakehouse.gold.numbers import history
from lakehouse.gold.numbers.lifecycle import RevisionReason
from lakehouse.gold.reproduction import recompute, reproduce
from lakehouse_tests.support.candidates import AFTER, DIGITS, NEXT
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.laws import law
from lakehouse_tests.support.numbers_without_spark import (
    ScriptedNumbers,
    columns_of_day,
    day,
    metric,
    published_rows,
    without_spark,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakehouse.gold.numbers.history import PublishedVersion

ADJUST: dict[str, Any] = {"after_close": "adjust"}
# A difference of two of them fits, too.
VALUES = (
    st.none() | st.decimals(Decimal("-4999999999999999.99"), Decimal("4999999999999999.99"), places=2) | st.just(Decimal("0.10"))
)
SAID = st.none() | st.dictionaries(st.sampled_from(["north", "south", "west"]), VALUES, min_size=1, max_size=3)


@pytest.fixture(autouse=True, scope="module")
def _without_spark() -> Iterator[None]:
    with without_spark():
        yield


def brought_to(numbers: ScriptedNumbers, number: int) -> dict[Any, list[Any]]:
    """Per row of the grain what the closed number and its adjustments add up to: the measure and the rows behind it."""
    sums: dict[Any, list[Any]] = defaultdict(lambda: [Decimal(0), 0])
    for row in published_rows(numbers.lake, numbers.series):
        if row["event_date"] == day(number) and (row["is_latest"] or row["adjustment"] is not None):
            sums[row["store"]][0] += row["total"] or 0
            sums[row["store"]][1] += row["row_count"]
    return {key: values for key, values in sums.items() if any(values)}


def restated(by_store: dict[str, Any] | None) -> dict[Any, list[Any]]:
    """The same for the totals of silver."""
    return {key: [value or Decimal(0), 1] for key, value in (by_store or {}).items()}


@law(100, in_each_run=3)
@example(history=[{"north": Decimal("0.10")}, None, {"south": None}, {"north": Decimal("0.10")}])
@given(history=st.lists(SAID, min_size=2, max_size=4))
def test_closed_and_adjustments_are_what_a_restatement_would_say(tmp_path_factory, history: list[Any]) -> None:
    numbers = ScriptedNumbers(
        lake_in(tmp_path_factory.mktemp("lake")), metric(grain=["store"], type="decimal(18,2)", publication=ADJUST)
    )
    numbers.at(9)
    first = next((by_store for by_store in history if by_store), {"north": Decimal(1)})
    numbers.set(1, first)
    numbers.publish()
    closed = [line for line in numbers.history(1) if line[3]]
    for number, by_store in enumerate(history, 10):
        numbers.at(number)
        numbers.set(1, by_store)
        numbers.publish(1)
        lines = numbers.history(1)
        assert lines[:1] == closed, "final stays final"
        assert all(".a" in line[0] for line in lines[1:])
        assert brought_to(numbers, 1) == restated(by_store)
        assert numbers.publish(1).revisions == [], "saying it again books nothing"
    assert all(row[0] is None or row[0] >= day(10) for row in columns_of_day(numbers, 1, "booked_on"))


def test_an_adjustment_that_does_not_fit_its_type_holds_its_day_and_no_other(lake) -> None:
    numbers = ScriptedNumbers(lake, metric(grain=["store"], type="decimal(18,2)", publication=ADJUST))
    numbers.at(12)
    for number in (1, 2):
        numbers.set(number, {"north": "9000000000000000.00"})
    numbers.publish()
    numbers.at(13)
    numbers.set(1, {"north": "-9000000000000000.00"})
    numbers.set(2, {"north": "1.00"})
    done = numbers.publish()
    assert done.held == [day(1)]
    assert [f"{revision.name}" for revision in done.revisions] == ["total_v2024-01-02.r1.a1"]
    assert numbers.publish(1).held == [day(1)], "it is held until the rows or the contract change"
    explanation = next(outcome.explanation for outcome in done.outcomes if outcome.day == day(1) and not outcome.passed)
    assert "an adjustment by -18000000000000000.00 does not fit decimal128(18, 2)" in explanation
    numbers.set(1, {"north": "8999999999999999.00"})
    done = numbers.publish(1)
    assert (done.held, brought_to(numbers, 1)) == ([], {"north": [Decimal("8999999999999999.00"), 1]})


def test_contents_of_an_adjustment(lake) -> None:
    numbers = ScriptedNumbers(lake, metric(grain=["store"], type="decimal(18,2)", publication=ADJUST))
    numbers.at(9)
    numbers.set(1, {"north": "1.50", "south": "2.00", "west": "3.00"})
    numbers.publish()
    numbers.at(10)
    numbers.set(1, {"north": "1.75", "east": "4.00", "west": "3.00"})
    numbers.publish()
    told = columns_of_day(numbers, 1, "version_name", "store", "total", "row_count", "is_latest", "state", "booked_on", "due_on")[
        3:
    ]
    name = "total_v2024-01-01.r1.a1"
    assert sorted(told) == [
        (name, "east", Decimal("4.00"), 1, False, "final", day(10), None),
        (name, "north", Decimal("0.25"), 0, False, "final", day(10), None),
        (name, "south", Decimal("-2.00"), -1, False, "final", day(10), None),
    ], "the rows that differ, and only these"


def test_a_difference_of_nothing_is_booked_as_zero(lake) -> None:
    """NULL counts as zero: the content is another one, and the books need nothing."""
    numbers = ScriptedNumbers(lake, metric(grain=["store"], publication=ADJUST))
    numbers.at(9)
    numbers.set(1, {"north": 0})
    numbers.publish()
    numbers.set(1, {"north": None})
    numbers.publish()
    assert columns_of_day(numbers, 1, "store", "total", "row_count", "adjustment") == [("north", 0, 1, None), (None, 0, 0, 1)]
    assert numbers.publish().revisions == []


def test_more_digits_than_pythons_own_decimals_keep(lake) -> None:
    numbers = ScriptedNumbers(lake, metric(grain=["store"], type="decimal(38,2)", publication=ADJUST))
    numbers.at(9)
    numbers.set(1, {"north": f"{DIGITS}"})
    numbers.publish()
    for value in (NEXT, AFTER, DIGITS):
        numbers.set(1, {"north": f"{value}"})
        numbers.publish()
    assert [row[0] for row in columns_of_day(numbers, 1, "total")] == [DIGITS, Decimal("0.01"), Decimal("0.01"), Decimal("-0.02")]
    numbers.set(1, {"north": f"{NEXT}", "south": None})
    numbers.publish()
    published = locations.gold(lake, numbers.series).read()
    whole = history.with_adjustments(numbers.series, published, published.select(numbers.series.content).schema)
    assert [(row["store"], row["total"]) for row in whole.to_pylist()] == [("north", NEXT), ("south", 0)]


def test_what_bookings_alone_have_made_is_in_the_number_with_its_adjustments() -> None:
    """As in a derived number, whose rows may have values where no input has rows."""
    series = Series(metric(grain=["store"]))
    columns = {"store": ["north", "south", "west"], "total": [-9, 4, 3], "row_count": [0, 1, 1], "revision": [2, 2, 1]}
    rows = pa.table({name: [*values, end] for (name, values), end in zip(columns.items(), ("south", -4, -1, 2))})
    found = history.with_adjustments(series, rows, rows.select(series.content).schema)
    assert found.to_pylist() == [{"store": "north", "total": -9, "row_count": 0}]


def test_before_the_close_it_is_restated(lake) -> None:
    numbers = ScriptedNumbers(lake, metric(publication=ADJUST))
    for number in (1, 4, 7):
        numbers.at(number)
        numbers.set(1, number)
        numbers.publish()
    numbers.at(8)
    numbers.set(1, 8)
    numbers.publish()
    assert [line[:3] for line in numbers.history(1)] == [
        ("r1", 1, "live"),
        ("r2", 4, "preliminary"),
        ("r3", 7, "preliminary"),
        ("r4", 8, "final"),
    ]
    assert columns_of_day(numbers, 1, "reason")[-1] == ("manual",), "content that changes with the close is no mere finalization"
    numbers.at(9)
    numbers.set(1, 9)
    numbers.publish()
    assert numbers.history(1)[-1] == ("r4.a1", 1, "final", False)


@pytest.mark.merge
def test_bookings_are_in_the_open_roll_ups_and_closed_ones_do_not_change(lake) -> None:
    """Days 1 to 7 are the first week, 8 to 14 the second; a week closes seven days after its end."""
    numbers = ScriptedNumbers(lake, metric(publication={**ADJUST, "rollups": ["week", "month"]}))
    week, month = (Series(numbers.metric, kind) for kind in (Kind.WEEK, Kind.MONTH))
    for last in (7, 14, 15):
        numbers.at(last)
        for number in range(max(1, last - 6), last + 1):
            numbers.set(number, 100)
        numbers.publish()
    for kind in (Kind.WEEK, Kind.MONTH):
        numbers.roll_up(kind)
    numbers.set(1, 130)
    numbers.publish(1)
    assert numbers.history(1)[-1][1:] == (30, "final", False)
    for kind in (Kind.WEEK, Kind.MONTH):
        numbers.roll_up(kind)
    assert [numbers.latest_total(number, week) for number in (1, 8, 15)] == [700, 700, 130]
    assert numbers.latest_total(1, month) == 1530
    made_from = [row["made_from"] for row in published_rows(lake, week) if row["is_latest"] and row["period_start"] == day(15)]
    assert ".a1" in made_from[0]
    assert numbers.roll_up().revisions == []
    numbers.at(60)
    numbers.close()
    for kind in (Kind.WEEK, Kind.MONTH):
        numbers.roll_up(kind)
    assert [numbers.latest_total(number, week) for number in (1, 8, 15)] == [700, 700, 130]
    assert numbers.history(1, month)[-1][1:] == (1530, "final", True)
    numbers.set(2, 90)
    numbers.publish(2)
    for kind in (Kind.WEEK, Kind.MONTH):
        numbers.roll_up(kind)
    assert numbers.history(1, month)[-1][1:] == (1530, "final", True), "booked behind its end"


def test_a_day_that_comes_after_its_week_was_closed(lake) -> None:
    """It is no adjustment of a day, but one of the week: booked to the open week, it is in that one's number."""
    numbers = ScriptedNumbers(lake, metric(publication={**ADJUST, "rollups": ["week"]}))
    week = Series(numbers.metric, Kind.WEEK)
    numbers.at(1)
    numbers.set(1, 100)
    numbers.publish()
    numbers.roll_up()
    numbers.at(20)
    numbers.set(20, 1)
    numbers.publish()
    numbers.close()
    numbers.roll_up()
    assert numbers.history(1, week)[-1][1:] == (100, "final", True)
    numbers.set(3, 7)
    numbers.publish(3)
    assert numbers.history(3) == [("r1", 7, "final", True)]
    numbers.roll_up()
    assert numbers.history(1, week)[-1][1:] == (7, "final", False)
    assert numbers.latest_total(20, week) == 8
    assert numbers.roll_up().revisions == []
    numbers.set(1, 103)
    numbers.set(4, 10)
    numbers.publish(1, 4)
    numbers.roll_up()
    assert numbers.history(1, week)[-1][1:] == (10, "final", False), "a day of its own is one of its days"
    assert numbers.latest_total(20, week) == 21, "what is booked of days and of weeks, published in one go"


def test_a_week_closed_on_its_last_day_books_nothing_in_itself(lake) -> None:
    numbers = ScriptedNumbers(lake, metric(publication={**ADJUST, "preliminary_after": 0, "final_after": 0, "rollups": ["week"]}))
    week = Series(numbers.metric, Kind.WEEK)
    numbers.at(7)
    numbers.set(1, 100)
    numbers.publish()
    numbers.roll_up()
    numbers.set(1, 103)
    numbers.publish()
    for _ in range(3):
        numbers.roll_up()
    assert numbers.history(1, week) == [("r1", 100, "final", True), ("r1.a1", 3, "final", False)]


def test_an_open_week_may_hold_bookings_only(lake) -> None:
    numbers = ScriptedNumbers(lake, metric(publication={**ADJUST, "rollups": ["week"]}))
    week = Series(numbers.metric, Kind.WEEK)
    numbers.at(1)
    numbers.set(1, 100)
    numbers.publish()
    numbers.at(9)
    numbers.close()
    numbers.set(1, 103)
    numbers.publish()
    numbers.roll_up()
    assert [numbers.history(number, week) for number in (1, 8)] == [[("r1", 100, "preliminary", True)], [("r1", 3, "live", True)]]
    numbers.set(10, 50)
    numbers.publish()
    numbers.roll_up()
    assert numbers.latest_total(8, week) == 53


def test_a_week_that_held_bookings_only_is_reproduced_and_is_empty_once_they_are_contained(lake) -> None:
    numbers = ScriptedNumbers(lake, metric(publication={**ADJUST, "rollups": ["week"]}))
    numbers.at(1)
    numbers.set(1, 100)
    numbers.publish()
    numbers.at(9)
    numbers.close()
    for value, after_close in ((103, "adjust"), (104, "restate")):
        numbers.metric = metric(publication={"after_close": after_close, "rollups": ["week"]})
        recompute.remember_contract(lake, numbers.metric, numbers.source)
        numbers.set(1, value)
        numbers.publish()
        numbers.roll_up()
    week = Series(numbers.metric, Kind.WEEK)
    assert numbers.history(8, week) == [("r1", 3, "live", False), ("r2", None, "live", True)]
    catalog = Catalog({"events": numbers.source}, {"total": numbers.metric})
    done = reproduce.reproduce(lake, catalog, week, day(8), 1, numbers.session)
    assert (done.equal, done.compared) == (True, ["total", "row_count"])
    with pytest.raises(recompute.ReproduceError, match="what was booked in it is contained in later revisions of the days"):
        reproduce.reproduce(lake, catalog, week, day(8), 2, numbers.session)


def test_adjustments_need_exact_types() -> None:
    measures = [{"name": "total", "sql": "sum(amount)", "type": "double"}]
    with pytest.raises(ValueError, match="adjustments are exact differences, and total cannot have any"):
        MetricContract.model_validate({"metric": "m", "source": "s", "measures": measures, "publication": ADJUST})


def test_a_comparison_names_the_causes_of_all_adjustments_between_its_sides(lake) -> None:
    numbers = ScriptedNumbers(lake, metric(type="decimal(18,2)", publication=ADJUST))
    for at, total in ((9, "10.00"), (10, "15.00"), (11, "14.00")):
        numbers.at(at)
        numbers.set(1, total)
        numbers.publish(1)
    [known] = history.history(lake, numbers.series, [day(1)]).values()
    causes = ((RevisionReason.INITIAL, 9), (RevisionReason.CORRECTION, 1), (RevisionReason.LATE_DATA, 5))
    known = [
        replace(version, reason=reason, row={**version.row, "changed_rows": rows})
        for version, (reason, rows) in zip(known, causes)
    ]
    closed, corrected, late = known
    assert [version.label for version in known] == ["r1", "r1.a1", "r1.a2"]

    def causes_between(before: PublishedVersion, after: PublishedVersion) -> tuple[str | None, int | None]:
        delta = history.changes(numbers.series, before, after, known)[0]
        return delta.reason, delta.rows

    assert causes_between(closed, late) == ("correction", 6)
    assert causes_between(corrected, late) == ("late_data", 5)
    assert causes_between(closed, corrected) == ("correction", 1)


#: A day gets a value, as new, late and corrected rows give it one; days pass; the contract is edited to adjust or to restate.
EVENTS = st.one_of(
    st.tuples(st.just("set"), st.integers(1, 16), st.integers(-9, 9)),
    st.tuples(st.just("pass"), st.integers(1, 9), st.none()),
    st.tuples(st.just("edit"), st.sampled_from(["adjust", "restate"]), st.none()),
)


@law(200, in_each_run=6)
# Lost: an adjustment is booked, and the contract is edited before the week of the booking is computed again.
@example([("set", 1, 9), ("pass", 9, None), ("set", 10, 1), ("set", 1, 5), ("edit", "restate", None), ("set", 10, 2)])
# Counted twice: the closed day is restated, and contains what was booked.
@example([("set", 1, 9), ("pass", 9, None), ("set", 10, 1), ("set", 1, 5), ("edit", "restate", None), ("set", 1, 7)])
# Booked, restated, booked again; at last behind the end of the week of the first booking.
@example(
    [
        *(("set", 1, 9), ("pass", 9, None), ("set", 10, 1), ("set", 1, 5), ("edit", "restate", None), ("set", 1, 7)),
        *(("edit", "adjust", None), ("set", 1, 8), ("pass", 9, None), ("set", 1, 4), ("edit", "restate", None), ("set", 1, 3)),
    ]
)
# A closed and adjusted day comes back to its closed number under a contract that restates.
@example([("set", 1, 9), ("pass", 9, None), ("set", 10, 1), ("set", 1, 5), ("edit", "restate", None), ("set", 1, 9)])
@given(st.lists(EVENTS, min_size=4, max_size=14))
def test_weeks_add_up_to_their_days_whatever_the_contract_said_of_closed_ones(tmp_path_factory, events: list[Any]) -> None:
    def of(after_close: str) -> MetricContract:
        return metric(publication={"after_close": after_close, "rollups": ["week"]})

    numbers = ScriptedNumbers(lake_in(tmp_path_factory.mktemp("lake")), of("adjust"))
    today, values = 1, dict[int, int]()
    numbers.at(today)
    for what, number, value in events:
        if what == "pass":
            today += number
            numbers.at(today)
        elif what == "edit":
            numbers.metric = of(number)
            continue  # a contract is edited between two runs
        elif number <= today:
            numbers.set(number, value)
            values[number] = value
        if not values:
            continue
        numbers.publish()
        numbers.close()
        for _ in range(3):
            numbers.roll_up()
        by_series = {series.name: counted(numbers, series) for series in (numbers.series, Series(numbers.metric, Kind.WEEK))}
        assert by_series == dict.fromkeys(by_series, sum(values.values())), events


def counted(numbers: ScriptedNumbers, series: Series) -> int:
    """The newest numbers of all periods; of days with what is booked of them, which the weeks of the bookings have."""
    rows = published_rows(numbers.lake, series)
    newest = {row[series.by]: row["revision"] for row in rows if row["is_latest"]}
    booked = (row for row in rows if row["adjustment"] is not None and row["revision"] == newest[row[series.by]])
    latest = sum(row["total"] or 0 for row in rows if row["is_latest"])
    return latest + (sum(row["total"] for row in booked) if series.kind is Kind.DAY else 0)
