from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from lakehouse.calendar.periods import Kind
from lakehouse.contracts import Catalog
from lakehouse.contracts.series import Series
from lakehouse.gold.numbers.lifecycle import RevisionReason, State
from lakehouse.gold.numbers.version_selector import parse
from lakehouse.gold.promotion import promotion
from lakehouse.gold.publication import held_numbers, restatement_reports
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.restatement import derived, derived_inputs, revert
from lakehouse.gold.restatement.pending import find_due, find_pending
from lakehouse_tests.support.derived_numbers import (
    BIGGEST,
    MONDAY,
    RATIO,
    SALES,
    VISITS,
    DerivedNumbers,
    adjusting,
    day,
    metric,
    metrics,
    revenue,
    sessions,
)
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.stopped_commits import stopped_after_each_commit

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakehouse.lake import Lake

pytestmark = pytest.mark.spark

#: Columns of a published row that differ from run to run.
VOLATILE = {"run_id", "publication_id", "published_at", "superseded_at", "restated_on"}


@pytest.fixture
def sample(lake: Lake, spark: SparkSession) -> DerivedNumbers:
    one = DerivedNumbers(lake, spark)
    one.at(1)
    return one


def test_a_derived_day_is_published_from_the_newest_numbers_of_its_inputs(sample: DerivedNumbers) -> None:
    sample.publish("revenue", {day(1): revenue(north=10, south=5)})
    sample.publish("sessions", {day(1): sessions(north=4, east=2)})
    done = sample.follow()
    assert sample.latest() == {
        day(1): [("east", None, 2), ("north", Decimal("2.500000"), 6), ("south", None, 2)],
    }
    assert [revision.reason for revision in done.revisions] == [RevisionReason.INITIAL]
    made_from = {"revenue": {f"{day(1)}": "r1"}, "sessions": {f"{day(1)}": "r1"}}
    assert json.loads(sample.published()[0]["made_from"]) == made_from
    assert find_pending(sample.lake, sample.series()).starts == frozenset()


def test_a_period_that_an_input_has_no_number_for_waits_until_it_has(sample: DerivedNumbers) -> None:
    sample.publish("revenue", {day(1): revenue(north=10), day(2): revenue(north=1)})
    assert find_pending(sample.lake, sample.series()).starts == frozenset()
    sample.publish("sessions", {day(2): sessions(north=4)})
    assert find_pending(sample.lake, sample.series()).starts == {day(2)}
    sample.follow(starts=[day(1)])
    assert sample.latest() == {day(2): [("north", Decimal("0.250000"), 6)]}
    sample.publish("sessions", {day(1): sessions(north=5)})
    assert find_pending(sample.lake, sample.series()).starts == {day(1)}
    sample.follow()
    assert sample.latest().keys() == {day(1), day(2)}


def test_a_restated_input_restates_exactly_its_day_with_its_most_serious_reason(sample: DerivedNumbers) -> None:
    days = [day(1), day(2)]
    sample.publish("revenue", dict.fromkeys(days, revenue(north=10)))
    sample.publish("sessions", dict.fromkeys(days, sessions(north=4)))
    sample.follow()
    sample.publish("sessions", {day(2): sessions(north=5)}, run=Run("fix", reason=RevisionReason.BUG_REPLAY))
    sample.publish("sessions", {day(2): sessions(north=8)}, run=Run("late", reason=RevisionReason.LATE_DATA))
    assert find_pending(sample.lake, sample.series()).starts == {day(2)}
    done = sample.follow()
    assert [(one.start, one.reason) for one in done.revisions] == [(day(2), RevisionReason.BUG_REPLAY)]
    assert sample.latest()[day(2)] == [("north", Decimal("1.250000"), 10)]
    newest = sample.published()[-1]
    assert newest["restatement_reason"] == f"bug_replay: recomputed from sessions {day(2)} r3"
    assert json.loads(newest["made_from"])["sessions"] == {f"{day(2)}": "r3"}


def test_a_derived_week_is_made_of_the_weeks_of_its_inputs(sample: DerivedNumbers) -> None:
    sample.publish("revenue", {MONDAY: revenue(north=30)}, Kind.WEEK)
    sample.publish("sessions", {MONDAY: sessions(north=10)}, Kind.WEEK)
    sample.follow(kind=Kind.WEEK)
    assert sample.latest(kind=Kind.WEEK) == {MONDAY: [("north", Decimal("3.000000"), 12)]}
    assert sample.latest() == {}


def test_the_state_is_never_ahead_of_an_input(sample: DerivedNumbers) -> None:
    sample.publish("revenue", {day(1): revenue(north=10)})
    sample.publish("sessions", {day(1): sessions(north=4)})
    sample.follow()
    sample.at(7)
    sample.publish("revenue", {day(1): revenue(north=10)})
    sample.follow()
    assert [row["state"] for row in sample.published()] == ["live"]
    sample.publish("sessions", {day(1): sessions(north=4)}, at_most=State.PRELIMINARY)
    assert [(one.state, one.reason) for one in sample.follow().revisions] == [
        (State.PRELIMINARY, RevisionReason.DAILY_FINALIZATION)
    ]
    sample.publish("sessions", {day(1): sessions(north=4)})
    assert [one.state for one in sample.follow().revisions] == [State.FINAL]
    assert len({row["content"] for row in sample.published()}) == 1


def test_an_emptied_input_leaves_the_rows_of_the_other(sample: DerivedNumbers) -> None:
    sample.publish("revenue", {day(1): revenue(north=10)})
    sample.publish("sessions", {day(1): sessions(north=4)})
    sample.follow()
    sample.publish("sessions", {day(1): []})
    sample.follow()
    assert sample.latest() == {day(1): [("north", None, 2)]}
    sample.publish("revenue", {day(1): []})
    sample.follow()
    assert sample.latest() == {day(1): [(None, None, 0)]}


def test_without_a_grain_the_rows_of_the_inputs_are_added_up(lake: Lake, spark: SparkSession) -> None:
    whole = metric(
        "whole", {"name": "c", "sql": "revenue.sales / sessions.n", "type": "double"}, **{"from": ["revenue", "sessions"]}
    )
    sample = DerivedNumbers(lake, spark, metrics(whole))
    sample.publish("revenue", {day(1): revenue(north=10, south=20)})
    sample.publish("sessions", {day(1): sessions(north=4, east=8)})
    sample.follow("whole")
    assert sample.latest("whole") == {day(1): [(2.5, 16)]}
    sample.publish("sessions", {day(1): []})
    sample.follow("whole")
    assert sample.latest("whole") == {day(1): [(None, 4)]}, "a division by nothing is NULL"


def test_a_derived_metric_may_be_made_of_a_derived_one(lake: Lake, spark: SparkSession) -> None:
    twice = metric(
        "twice",
        {"name": "t", "sql": "2 * conversion.conversion + sessions.n", "type": "decimal(12,2)"},
        grain=["store"],
        **{"from": ["conversion", "sessions"]},
    )
    sample = DerivedNumbers(lake, spark, metrics(twice))
    sample.publish("revenue", {day(1): revenue(north=10)})
    sample.publish("sessions", {day(1): sessions(north=4)})
    sample.follow("twice")
    assert sample.latest("twice") == {}
    sample.follow()
    sample.follow("twice")
    assert sample.latest("twice") == {day(1): [("north", Decimal("9.00"), 10)]}


def test_a_held_number_of_an_input_does_not_count_until_it_is_signed_off(lake: Lake, spark: SparkSession) -> None:
    checked = metric("revenue", SALES, BIGGEST, grain=["store"], checks={"change": [{"measure": "sales", "absolute": 5}]})
    sample = DerivedNumbers(lake, spark, metrics(checked))
    sample.publish("revenue", {day(1): revenue(north=10)})
    sample.publish("sessions", {day(1): sessions(north=4)})
    sample.follow()
    assert sample.publish("revenue", {day(1): revenue(north=100)}).held == [day(1)]
    assert find_pending(lake, sample.series()).starts == frozenset()
    assert sample.follow(starts=[day(1)]).revisions == []
    series = sample.series("revenue")
    held_numbers.sign_off(lake, series, series.period(day(1)), 2, Run("signed", by="anna"), "seen")
    sample.follow()
    assert sample.latest() == {day(1): [("north", Decimal("25.000000"), 6)]}


def test_a_derived_number_that_fails_its_own_checks_is_held(lake: Lake, spark: SparkSession) -> None:
    checks = {"change": [{"measure": "conversion", "absolute": 1}]}
    checked = metric("conversion", RATIO, grain=["store"], checks=checks, **{"from": ["revenue", "sessions"]})
    sample = DerivedNumbers(lake, spark, metrics(checked))
    sample.publish("revenue", {day(1): revenue(north=10)})
    sample.publish("sessions", {day(1): sessions(north=4)})
    sample.follow()
    sample.publish("revenue", {day(1): revenue(north=100)})
    assert sample.follow().held == [day(1)]
    series = sample.series()
    held_numbers.drop(lake, series, series.period(day(1)), 2, "anna", "no")
    assert sample.follow(starts=[day(1)]).held == [], "a number that was dropped is not proposed again"
    assert sample.latest() == {day(1): [("north", Decimal("2.500000"), 6)]}


def test_a_reverted_derived_day_keeps_its_number_until_it_is_released(sample: DerivedNumbers) -> None:
    sample.publish("revenue", {day(1): revenue(north=10)})
    sample.publish("sessions", {day(1): sessions(north=4)})
    sample.follow()
    sample.publish("revenue", {day(1): revenue(north=20)})
    sample.follow()
    series, anna = sample.series(), Run("revert", by="anna")
    revert.revert(sample.lake, contract(), series, series.period(day(1)), parse("r1"), anna, "wrong")
    sample.publish("revenue", {day(1): revenue(north=40)})
    sample.follow()
    assert sample.latest() == {day(1): [("north", Decimal("2.500000"), 6)]}
    revert.release(sample.lake, series, series.period(day(1)), "anna", "right after all")
    assert find_pending(sample.lake, series).starts == {day(1)}
    sample.follow()
    assert sample.latest() == {day(1): [("north", Decimal("10.000000"), 6)]}
    assert "released by anna: right after all" in sample.published()[-1]["restatement_reason"]
    assert find_pending(sample.lake, series).starts == frozenset()


def test_a_longer_derived_period_is_put_back_through_its_inputs(sample: DerivedNumbers) -> None:
    sample.publish("revenue", {MONDAY: revenue(north=30)}, Kind.WEEK)
    sample.publish("sessions", {MONDAY: sessions(north=10)}, Kind.WEEK)
    sample.follow(kind=Kind.WEEK)
    series = sample.series(kind=Kind.WEEK)
    with pytest.raises(revert.RevertError, match="conversion_weekly is made of the same periods of revenue, sessions"):
        revert.revert(sample.lake, contract(), series, series.period(day(1)), parse("r1"), Run("x", by="anna"), "no")


def test_a_start_delay_publishes_the_number_when_it_has_passed(lake: Lake, spark: SparkSession) -> None:
    late = metric("conversion", RATIO, grain=["store"], publication={"start_delay": 2}, **{"from": ["revenue", "sessions"]})
    sample = DerivedNumbers(lake, spark, metrics(late))
    sample.at(1)
    sample.publish("revenue", {day(1): revenue(north=10)})
    sample.publish("sessions", {day(1): sessions(north=4)})
    sample.follow()
    assert sample.latest() == {}
    sample.at(3)
    assert find_due(lake, contract(), sample.series()) == [day(1)]
    sample.follow()
    assert sample.latest().keys() == {day(1)}


@pytest.mark.merge
def test_a_promoted_version_computes_longer_periods_anew_and_so_does_its_rollback(lake: Lake, spark: SparkSession) -> None:
    percent = metric(
        "conversion",
        {**RATIO, "sql": "100 * revenue.sales / sessions.n"},
        grain=["store"],
        dataset_version=2,
        **{"from": ["revenue", "sessions"]},
    )
    sample = DerivedNumbers(lake, spark, metrics(percent))
    catalog = Catalog({"events": contract()}, sample.known)
    for kind, start in ((Kind.DAY, day(1)), (Kind.WEEK, MONDAY)):
        sample.publish("revenue", {start: revenue(north=10)}, kind)
        sample.publish("sessions", {start: sessions(north=4)}, kind)
        sample.follow(kind=kind)
    sample.follow("conversion_v2")
    anna = Run("promote", by="anna")
    promotion.promote(lake, catalog, sample.known["conversion"], 2, anna, "percent")
    assert sample.latest() == {day(1): [("north", Decimal("250.000000"), 6)]}
    served = Series(sample.known["conversion_v2"], Kind.WEEK, "conversion")
    pending = find_pending(lake, served)
    assert pending.starts == {MONDAY}
    derived.restate(lake, served, sample.session, pending.starts, Run("follow"), pending)
    assert sample.latest(kind=Kind.WEEK) == {MONDAY: [("north", Decimal("250.000000"), 6)]}
    promotion.rollback(lake, catalog, sample.known["conversion"], 1, anna, "no")
    assert find_pending(lake, sample.series(kind=Kind.WEEK)).starts == {MONDAY}
    sample.follow(kind=Kind.WEEK)
    assert sample.latest(kind=Kind.WEEK) == {MONDAY: [("north", Decimal("2.500000"), 6)]}
    days = find_pending(lake, Series(sample.known["conversion"])).starts
    assert days <= {day(1)}


def test_another_input_in_the_place_of_one_makes_all_periods_pending(sample: DerivedNumbers) -> None:
    sample.publish("revenue", {day(1): revenue(north=10)})
    sample.publish("sessions", {day(1): sessions(north=4)})
    sample.follow()
    other = metric("visits", VISITS, grain=["store", "channel"])
    ratio = {**RATIO, "sql": "revenue.sales / visits.n"}
    sample.known = metrics(other, metric("conversion", ratio, grain=["store"], **{"from": ["revenue", "visits"]}))
    sample.publish("visits", {day(1): sessions(north=8)})
    assert find_pending(sample.lake, sample.series()).starts == {day(1)}
    sample.follow()
    assert sample.latest() == {day(1): [("north", Decimal("1.250000"), 10)]}
    sample.known = metrics()
    assert find_pending(sample.lake, sample.series()).starts == {day(1)}, "and so does the way back"
    sample.follow()
    assert sample.latest() == {day(1): [("north", Decimal("2.500000"), 6)]}


@pytest.mark.proof
def test_a_run_that_is_stopped_after_any_commit_ends_the_same(tmp_path: Path, spark: SparkSession) -> None:
    ends = []
    for name in ("whole", "stopped"):
        (tmp_path / name).mkdir()
        sample = DerivedNumbers(lake_in(tmp_path / name), spark, metrics(adjusting()))
        for number, (sales, visits) in enumerate([(10, 4), (20, 4), (20, 5)], 1):
            sample.at(2 * number)
            sample.publish("revenue", {day(1): revenue(north=sales), day(2): revenue(north=sales)})
            sample.publish("sessions", {day(1): sessions(north=visits)} | ({day(2): sessions(north=1)} if number > 1 else {}))
            if name == "whole":
                sample.follow()
            else:
                assert stopped_after_each_commit(sample.follow) >= 3
            assert find_pending(sample.lake, sample.series()).starts == frozenset()
        rows = [{key: value for key, value in row.items() if key not in VOLATILE} for row in sample.published()]
        reports = restatement_reports.log(sample.lake).read({"series": ["conversion"]})
        ends.append((rows, len(reports), derived_inputs.followed_versions(sample.lake, sample.series())))
    assert ends[0][0] == ends[1][0]
    assert ends[0][1] == ends[1][1]
    assert ends[0][2] == ends[1][2]
