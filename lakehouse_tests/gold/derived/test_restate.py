from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from lakehouse.calendar.periods import Kind
from lakehouse.contracts import Catalog
from lakehouse.contracts.series import Series
from lakehouse.gold.derived import following
from lakehouse.gold.derived import restate as derived
from lakehouse.gold.numbers.lifecycle import RevisionReason, State
from lakehouse.gold.numbers.version_selector import parse
from lakehouse.gold.promotion import promotion
from lakehouse.gold.publication import held_numbers, restatement_reports
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.restatement import revert
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
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.lake_settings import lake_settings
from lakehouse_tests.support.stopped_commits import stopped_after_each_commit

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakehouse.settings import Settings

pytestmark = pytest.mark.spark

#: Columns of a published row that differ from run to run.
VOLATILE = {"run_id", "publication_id", "published_at", "superseded_at", "restated_on"}


@pytest.fixture
def lake(settings: Settings, spark: SparkSession) -> DerivedNumbers:
    one = DerivedNumbers(settings, spark)
    one.at(1)
    return one


def test_a_derived_day_is_published_from_the_newest_numbers_of_its_inputs(lake: DerivedNumbers) -> None:
    lake.publish("revenue", {day(1): revenue(north=10, south=5)})
    lake.publish("sessions", {day(1): sessions(north=4, east=2)})
    done = lake.follow()
    assert lake.latest() == {
        day(1): [("east", None, 2), ("north", Decimal("2.500000"), 6), ("south", None, 2)],
    }
    assert [revision.reason for revision in done.revisions] == [RevisionReason.INITIAL]
    made_from = {"revenue": {f"{day(1)}": "r1"}, "sessions": {f"{day(1)}": "r1"}}
    assert json.loads(lake.published()[0]["made_from"]) == made_from
    assert find_pending(lake.settings, lake.series()).starts == frozenset()


def test_a_period_that_an_input_has_no_number_for_waits_until_it_has(lake: DerivedNumbers) -> None:
    lake.publish("revenue", {day(1): revenue(north=10), day(2): revenue(north=1)})
    assert find_pending(lake.settings, lake.series()).starts == frozenset()
    lake.publish("sessions", {day(2): sessions(north=4)})
    assert find_pending(lake.settings, lake.series()).starts == {day(2)}
    lake.follow(starts=[day(1)])
    assert lake.latest() == {day(2): [("north", Decimal("0.250000"), 6)]}
    lake.publish("sessions", {day(1): sessions(north=5)})
    assert find_pending(lake.settings, lake.series()).starts == {day(1)}
    lake.follow()
    assert lake.latest().keys() == {day(1), day(2)}


def test_a_restated_input_restates_exactly_its_day_with_its_most_serious_reason(lake: DerivedNumbers) -> None:
    days = [day(1), day(2)]
    lake.publish("revenue", dict.fromkeys(days, revenue(north=10)))
    lake.publish("sessions", dict.fromkeys(days, sessions(north=4)))
    lake.follow()
    lake.publish("sessions", {day(2): sessions(north=5)}, run=Run("fix", reason=RevisionReason.BUG_REPLAY))
    lake.publish("sessions", {day(2): sessions(north=8)}, run=Run("late", reason=RevisionReason.LATE_DATA))
    assert find_pending(lake.settings, lake.series()).starts == {day(2)}
    done = lake.follow()
    assert [(one.start, one.reason) for one in done.revisions] == [(day(2), RevisionReason.BUG_REPLAY)]
    assert lake.latest()[day(2)] == [("north", Decimal("1.250000"), 10)]
    newest = lake.published()[-1]
    assert newest["restatement_reason"] == f"bug_replay: recomputed from sessions {day(2)} r3"
    assert json.loads(newest["made_from"])["sessions"] == {f"{day(2)}": "r3"}


def test_a_derived_week_is_made_of_the_weeks_of_its_inputs(lake: DerivedNumbers) -> None:
    lake.publish("revenue", {MONDAY: revenue(north=30)}, Kind.WEEK)
    lake.publish("sessions", {MONDAY: sessions(north=10)}, Kind.WEEK)
    lake.follow(kind=Kind.WEEK)
    assert lake.latest(kind=Kind.WEEK) == {MONDAY: [("north", Decimal("3.000000"), 12)]}
    assert lake.latest() == {}


def test_the_state_is_never_ahead_of_an_input(lake: DerivedNumbers) -> None:
    lake.publish("revenue", {day(1): revenue(north=10)})
    lake.publish("sessions", {day(1): sessions(north=4)})
    lake.follow()
    lake.at(7)
    lake.publish("revenue", {day(1): revenue(north=10)})
    lake.follow()
    assert [row["state"] for row in lake.published()] == ["live"]
    lake.publish("sessions", {day(1): sessions(north=4)}, at_most=State.PRELIMINARY)
    assert [(one.state, one.reason) for one in lake.follow().revisions] == [
        (State.PRELIMINARY, RevisionReason.DAILY_FINALIZATION)
    ]
    lake.publish("sessions", {day(1): sessions(north=4)})
    assert [one.state for one in lake.follow().revisions] == [State.FINAL]
    assert len({row["content"] for row in lake.published()}) == 1


def test_an_emptied_input_leaves_the_rows_of_the_other(lake: DerivedNumbers) -> None:
    lake.publish("revenue", {day(1): revenue(north=10)})
    lake.publish("sessions", {day(1): sessions(north=4)})
    lake.follow()
    lake.publish("sessions", {day(1): []})
    lake.follow()
    assert lake.latest() == {day(1): [("north", None, 2)]}
    lake.publish("revenue", {day(1): []})
    lake.follow()
    assert lake.latest() == {day(1): [(None, None, 0)]}


def test_without_a_grain_the_rows_of_the_inputs_are_added_up(settings: Settings, spark: SparkSession) -> None:
    whole = metric(
        "whole", {"name": "c", "sql": "revenue.sales / sessions.n", "type": "double"}, **{"from": ["revenue", "sessions"]}
    )
    lake = DerivedNumbers(settings, spark, metrics(whole))
    lake.publish("revenue", {day(1): revenue(north=10, south=20)})
    lake.publish("sessions", {day(1): sessions(north=4, east=8)})
    lake.follow("whole")
    assert lake.latest("whole") == {day(1): [(2.5, 16)]}
    lake.publish("sessions", {day(1): []})
    lake.follow("whole")
    assert lake.latest("whole") == {day(1): [(None, 4)]}, "a division by nothing is NULL"


def test_a_derived_metric_may_be_made_of_a_derived_one(settings: Settings, spark: SparkSession) -> None:
    twice = metric(
        "twice",
        {"name": "t", "sql": "2 * conversion.conversion + sessions.n", "type": "decimal(12,2)"},
        grain=["store"],
        **{"from": ["conversion", "sessions"]},
    )
    lake = DerivedNumbers(settings, spark, metrics(twice))
    lake.publish("revenue", {day(1): revenue(north=10)})
    lake.publish("sessions", {day(1): sessions(north=4)})
    lake.follow("twice")
    assert lake.latest("twice") == {}
    lake.follow()
    lake.follow("twice")
    assert lake.latest("twice") == {day(1): [("north", Decimal("9.00"), 10)]}


def test_a_held_number_of_an_input_does_not_count_until_it_is_signed_off(settings: Settings, spark: SparkSession) -> None:
    checked = metric("revenue", SALES, BIGGEST, grain=["store"], checks={"change": [{"measure": "sales", "absolute": 5}]})
    lake = DerivedNumbers(settings, spark, metrics(checked))
    lake.publish("revenue", {day(1): revenue(north=10)})
    lake.publish("sessions", {day(1): sessions(north=4)})
    lake.follow()
    assert lake.publish("revenue", {day(1): revenue(north=100)}).held == [day(1)]
    assert find_pending(settings, lake.series()).starts == frozenset()
    assert lake.follow(starts=[day(1)]).revisions == []
    series = lake.series("revenue")
    held_numbers.sign_off(settings, series, series.period(day(1)), 2, Run("signed", by="anna"), "seen")
    lake.follow()
    assert lake.latest() == {day(1): [("north", Decimal("25.000000"), 6)]}


def test_a_derived_number_that_fails_its_own_checks_is_held(settings: Settings, spark: SparkSession) -> None:
    checks = {"change": [{"measure": "conversion", "absolute": 1}]}
    checked = metric("conversion", RATIO, grain=["store"], checks=checks, **{"from": ["revenue", "sessions"]})
    lake = DerivedNumbers(settings, spark, metrics(checked))
    lake.publish("revenue", {day(1): revenue(north=10)})
    lake.publish("sessions", {day(1): sessions(north=4)})
    lake.follow()
    lake.publish("revenue", {day(1): revenue(north=100)})
    assert lake.follow().held == [day(1)]
    series = lake.series()
    held_numbers.drop(settings, series, series.period(day(1)), 2, "anna", "no")
    assert lake.follow(starts=[day(1)]).held == [], "a number that was dropped is not proposed again"
    assert lake.latest() == {day(1): [("north", Decimal("2.500000"), 6)]}


def test_a_reverted_derived_day_keeps_its_number_until_it_is_released(lake: DerivedNumbers) -> None:
    lake.publish("revenue", {day(1): revenue(north=10)})
    lake.publish("sessions", {day(1): sessions(north=4)})
    lake.follow()
    lake.publish("revenue", {day(1): revenue(north=20)})
    lake.follow()
    series, anna = lake.series(), Run("revert", by="anna")
    revert.revert(lake.settings, contract(), series, series.period(day(1)), parse("r1"), anna, "wrong")
    lake.publish("revenue", {day(1): revenue(north=40)})
    lake.follow()
    assert lake.latest() == {day(1): [("north", Decimal("2.500000"), 6)]}
    revert.release(lake.settings, series, series.period(day(1)), "anna", "right after all")
    assert find_pending(lake.settings, series).starts == {day(1)}
    lake.follow()
    assert lake.latest() == {day(1): [("north", Decimal("10.000000"), 6)]}
    assert "released by anna: right after all" in lake.published()[-1]["restatement_reason"]
    assert find_pending(lake.settings, series).starts == frozenset()


def test_a_longer_derived_period_is_put_back_through_its_inputs(lake: DerivedNumbers) -> None:
    lake.publish("revenue", {MONDAY: revenue(north=30)}, Kind.WEEK)
    lake.publish("sessions", {MONDAY: sessions(north=10)}, Kind.WEEK)
    lake.follow(kind=Kind.WEEK)
    series = lake.series(kind=Kind.WEEK)
    with pytest.raises(revert.RevertError, match="conversion_weekly is made of the same periods of revenue, sessions"):
        revert.revert(lake.settings, contract(), series, series.period(day(1)), parse("r1"), Run("x", by="anna"), "no")


def test_a_start_delay_publishes_the_number_when_it_has_passed(settings: Settings, spark: SparkSession) -> None:
    late = metric("conversion", RATIO, grain=["store"], publication={"start_delay": 2}, **{"from": ["revenue", "sessions"]})
    lake = DerivedNumbers(settings, spark, metrics(late))
    lake.at(1)
    lake.publish("revenue", {day(1): revenue(north=10)})
    lake.publish("sessions", {day(1): sessions(north=4)})
    lake.follow()
    assert lake.latest() == {}
    lake.at(3)
    assert find_due(settings, contract(), lake.series()) == [day(1)]
    lake.follow()
    assert lake.latest().keys() == {day(1)}


@pytest.mark.merge
def test_a_promoted_version_computes_longer_periods_anew_and_so_does_its_rollback(
    settings: Settings, spark: SparkSession
) -> None:
    percent = metric(
        "conversion",
        {**RATIO, "sql": "100 * revenue.sales / sessions.n"},
        grain=["store"],
        dataset_version=2,
        **{"from": ["revenue", "sessions"]},
    )
    lake = DerivedNumbers(settings, spark, metrics(percent))
    catalog = Catalog({"events": contract()}, lake.known)
    for kind, start in ((Kind.DAY, day(1)), (Kind.WEEK, MONDAY)):
        lake.publish("revenue", {start: revenue(north=10)}, kind)
        lake.publish("sessions", {start: sessions(north=4)}, kind)
        lake.follow(kind=kind)
    lake.follow("conversion_v2")
    anna = Run("promote", by="anna")
    promotion.promote(settings, catalog, lake.known["conversion"], 2, anna, "percent")
    assert lake.latest() == {day(1): [("north", Decimal("250.000000"), 6)]}
    served = Series(lake.known["conversion_v2"], Kind.WEEK, "conversion")
    pending = find_pending(settings, served)
    assert pending.starts == {MONDAY}
    derived.restate(settings, served, lake.session, pending.starts, Run("follow"), pending)
    assert lake.latest(kind=Kind.WEEK) == {MONDAY: [("north", Decimal("250.000000"), 6)]}
    promotion.rollback(settings, catalog, lake.known["conversion"], 1, anna, "no")
    assert find_pending(settings, lake.series(kind=Kind.WEEK)).starts == {MONDAY}
    lake.follow(kind=Kind.WEEK)
    assert lake.latest(kind=Kind.WEEK) == {MONDAY: [("north", Decimal("2.500000"), 6)]}
    days = find_pending(settings, Series(lake.known["conversion"])).starts
    assert days <= {day(1)}


def test_another_input_in_the_place_of_one_makes_all_periods_pending(lake: DerivedNumbers) -> None:
    lake.publish("revenue", {day(1): revenue(north=10)})
    lake.publish("sessions", {day(1): sessions(north=4)})
    lake.follow()
    other = metric("visits", VISITS, grain=["store", "channel"])
    ratio = {**RATIO, "sql": "revenue.sales / visits.n"}
    lake.known = metrics(other, metric("conversion", ratio, grain=["store"], **{"from": ["revenue", "visits"]}))
    lake.publish("visits", {day(1): sessions(north=8)})
    assert find_pending(lake.settings, lake.series()).starts == {day(1)}
    lake.follow()
    assert lake.latest() == {day(1): [("north", Decimal("1.250000"), 10)]}
    lake.known = metrics()
    assert find_pending(lake.settings, lake.series()).starts == {day(1)}, "and so does the way back"
    lake.follow()
    assert lake.latest() == {day(1): [("north", Decimal("2.500000"), 6)]}


@pytest.mark.proof
def test_a_run_that_is_stopped_after_any_commit_ends_the_same(tmp_path: Path, spark: SparkSession) -> None:
    ends = []
    for name in ("whole", "stopped"):
        (tmp_path / name).mkdir()
        lake = DerivedNumbers(lake_settings(tmp_path / name), spark, metrics(adjusting()))
        for number, (sales, visits) in enumerate([(10, 4), (20, 4), (20, 5)], 1):
            lake.at(2 * number)
            lake.publish("revenue", {day(1): revenue(north=sales), day(2): revenue(north=sales)})
            lake.publish("sessions", {day(1): sessions(north=visits)} | ({day(2): sessions(north=1)} if number > 1 else {}))
            if name == "whole":
                lake.follow()
            else:
                assert stopped_after_each_commit(lake.follow) >= 3
            assert find_pending(lake.settings, lake.series()).starts == frozenset()
        rows = [{key: value for key, value in row.items() if key not in VOLATILE} for row in lake.published()]
        reports = restatement_reports.log(lake.settings).read({"series": ["conversion"]})
        ends.append((rows, len(reports), following.followed_versions(lake.settings, lake.series())))
    assert ends[0][0] == ends[1][0]
    assert ends[0][1] == ends[1][1]
    assert ends[0][2] == ends[1][2]
