"""The rules of alerts, at their bounds, and against plain implementations of docs/alerts.md."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from statistics import mean, stdev
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.contracts.alerts import Lag, LateShare, Restatements, ValueBound
from lakehouse.gold.numbers.lifecycle import State
from lakehouse.lateness.rules import ArrivalCount, LagPercentile, nearest_rank
from lakehouse.operations.alerts import rules as alert_rules
from lakehouse.operations.alerts.alert import AlertKind, AlertSubject, addressees
from lakehouse.operations.alerts.rules import PeriodRestatement, PublishedValues

T0 = datetime(2024, 11, 5, 10, tzinfo=timezone.utc)
MINUTE, HOUR, DAY, WEEK = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1), timedelta(days=7)
SALES = AlertSubject("sales", "sales", ["anna"])
REVENUE = AlertSubject("revenue", "revenue", ["anna", "ben"])
SHARE = LateShare(needs_rows=10)
BOUND = Decimal("0.1")


def arrivals(*parts: tuple[int, int, int, int]) -> list[ArrivalCount]:
    """Each part is (first minute, last minute, rows, late): rows every minute. The newest come first."""
    return [ArrivalCount(T0 + minute * MINUTE, rows, late) for a, b, rows, late in parts for minute in range(a, b + 1)][::-1]


def test_addressees_are_listed_once_and_in_their_order() -> None:
    assert addressees("source", "metric") == ["source", "metric"]
    assert addressees("team", "team") == ["team"]
    assert addressees(None, "metric") == ["metric"]
    assert addressees(None, None) == []


# Late share ---------------------------------------------------------------------------------------------------------


def test_an_hour_above_the_bound_alerts_and_a_second_less_does_not() -> None:
    whole = arrivals((0, 60, 10, 2))
    alert = alert_rules.late_share(SALES, whole, SHARE, BOUND)
    assert alert is not None
    assert (alert.kind, alert.since, alert.addressed_to) == (AlertKind.LATE_SHARE, T0, ["anna"])
    assert alert.numbers["share"] == 0.2
    assert "20.00% of the 610 rows of sales" in alert.text
    assert "the contract tolerates 10.00%" in alert.text
    cut = [ArrivalCount(T0 + HOUR - timedelta(seconds=1), 10, 2), *whole[1:]]
    assert alert_rules.late_share(SALES, cut, SHARE, BOUND) is None


def test_a_share_on_the_bound_is_within_it() -> None:
    assert alert_rules.late_share(SALES, arrivals((0, 60, 10, 1)), SHARE, BOUND) is None
    assert alert_rules.late_share(SALES, arrivals((0, 60, 100, 29)), SHARE, Decimal("0.29")) is None, "no rounding"
    assert alert_rules.late_share(SALES, arrivals((0, 60, 100, 30)), SHARE, Decimal("0.29")) is not None


def test_one_arrival_within_the_bound_restarts_the_hour() -> None:
    burst = (30, 30, 10_000, 0)  # whose rows stay in the window for an hour
    assert alert_rules.late_share(SALES, arrivals((0, 29, 10, 2), burst, (31, 90, 10, 2)), SHARE, BOUND) is None
    later = alert_rules.late_share(SALES, arrivals((0, 29, 10, 2), burst, (31, 151, 10, 2)), SHARE, BOUND)
    assert later is not None
    assert later.since == T0 + 91 * MINUTE, "the first time at which the burst is out of the window"


def test_what_was_late_before_does_not_matter_once_arrivals_are_on_time() -> None:
    assert alert_rules.late_share(SALES, arrivals((0, 200, 10, 10), (201, 261, 10, 0)), SHARE, BOUND) is None


def test_silence_says_nothing() -> None:
    """Two deliveries a day apart, both above the bound: as far as known, it has been so for a day."""
    daily = [ArrivalCount(T0 + DAY, 50, 20), ArrivalCount(T0, 50, 20)]
    alert = alert_rules.late_share(SALES, daily, SHARE, BOUND)
    assert alert is not None
    assert alert.since == T0
    assert alert_rules.late_share(SALES, daily[:1], SHARE, BOUND) is None, "one delivery is a moment, and no hour"
    by_delivery = LateShare(lasting=timedelta(0), needs_rows=10)
    assert alert_rules.late_share(SALES, daily[:1], by_delivery, BOUND) is not None, "unless deliveries are judged one by one"


def test_of_too_few_rows_and_of_none_nothing_is_judged() -> None:
    assert alert_rules.late_share(SALES, [], SHARE, BOUND) is None
    few = [ArrivalCount(T0 + HOUR, 4, 4), ArrivalCount(T0, 5, 5)]
    assert alert_rules.late_share(SALES, few, SHARE, BOUND) is None
    assert alert_rules.late_share(SALES, [ArrivalCount(T0 + HOUR, 5, 5), *few[1:]], SHARE, BOUND) is not None


counts = st.tuples(st.integers(0, 40), st.integers(0, 6), st.integers(0, 6))


@given(
    st.lists(counts, max_size=30), st.sampled_from([0, 1, 3, 10]), st.sampled_from(["0", "0.2", "0.5", "1"]), st.integers(1, 20)
)
def test_late_share_follows_its_definition(counted: list[tuple[int, int, int]], lasting: int, bound: str, needs: int) -> None:
    by_time = {minute: ArrivalCount(T0 + minute * MINUTE, rows + late, late) for minute, rows, late in counted if rows + late}
    given_ = [by_time[minute] for minute in sorted(by_time, reverse=True)]
    alert = alert_rules.late_share(SALES, given_, LateShare(lasting=lasting * MINUTE, needs_rows=needs), Decimal(bound))
    above = {}
    for minute in by_time:
        window = [count for other, count in by_time.items() if minute - lasting <= other <= minute]
        above[minute] = Fraction(sum(count.late for count in window), sum(count.rows for count in window)) > Fraction(bound)
    starts = [minute for minute in by_time if all(above[other] for other in by_time if other >= minute)]
    expected = None
    if starts and max(by_time) - min(starts) >= lasting:
        rows = sum(count.rows for minute, count in by_time.items() if minute >= min(starts))
        expected = T0 + min(starts) * MINUTE if rows >= needs else None
    assert (alert.since if alert else None) == expected


# Lag ----------------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=300))
def test_the_percentile_is_the_nearest_rank(values: list[int]) -> None:
    value = sorted(values)[nearest_rank(len(values), "0.99")]
    not_above = sum(one <= value for one in values)
    assert 100 * not_above >= 99 * len(values)
    below = sum(one < value for one in values)
    assert 100 * below < 99 * len(values), "and it is the smallest such value"


def test_nearest_rank_at_its_steps() -> None:
    assert [nearest_rank(count, "0.99") for count in (1, 99, 100, 101, 200)] == [0, 98, 98, 99, 197]


@pytest.mark.parametrize(
    ("newest", "baseline", "alerts"),
    [
        ((100, 2 * HOUR), (100, HOUR), False),
        ((100, 2 * HOUR + timedelta(microseconds=1)), (100, HOUR), True),
        ((99, 9 * HOUR), (100, HOUR), False),
        ((100, 9 * HOUR), (99, HOUR), False),
        ((100, 9 * HOUR), (100, timedelta(0)), False),
        ((100, 9 * HOUR), (100, -HOUR), False),
        ((0, None), (0, None), False),
    ],
)
def test_lag(newest: tuple[int, Any], baseline: tuple[int, Any], alerts: bool) -> None:
    alert = alert_rules.lag(SALES, LagPercentile(*newest), LagPercentile(*baseline), T0, Lag())
    assert (alert is not None) == alerts
    if alert:
        assert alert.since == T0
        assert "The p99 lag of sales is 2 h" in alert.text
        assert "more than 2 times the 1 h of the 7 days before" in alert.text


# Restatements -------------------------------------------------------------------------------------------------------


def restated(*weeks: int) -> list[PeriodRestatement]:
    """So many in the newest week, in the one before, and so on."""
    return [
        PeriodRestatement(T0 - week * WEEK - (n + 1) * MINUTE, f"day {n}")
        for week, count in enumerate(weeks)
        for n in range(count)
    ]


OLD = T0 - 40 * DAY


def test_restatements_above_mean_and_two_sigma() -> None:
    # mean 3, sample deviation sqrt(4/3): the bound is 5.309
    assert alert_rules.restatements(REVENUE, restated(5, 2, 4, 2, 4), OLD, T0, Restatements()) is None
    alert = alert_rules.restatements(REVENUE, restated(6, 2, 4, 2, 4), OLD, T0, Restatements())
    assert alert is not None
    assert alert.since == T0 - MINUTE, "the sixth is the newest"
    assert alert.numbers["weeks_before"] == [2, 4, 2, 4]
    assert "restated 6 times" in alert.text
    assert "Usual are 3.0, and up to 5.3" in alert.text


def test_a_count_on_the_bound_is_within_it() -> None:
    # mean 5 and deviation 2 (of 3, 3, 7, 7 it is sqrt(16/3)); of 4, 4, 4, 8: mean 5, deviation 2 exactly
    assert alert_rules.restatements(REVENUE, restated(9, 4, 4, 4, 8), OLD, T0, Restatements()) is None
    assert alert_rules.restatements(REVENUE, restated(10, 4, 4, 4, 8), OLD, T0, Restatements()) is not None


def test_steady_and_quiet_weeks_have_no_spread() -> None:
    assert alert_rules.restatements(REVENUE, restated(4, 4, 4, 4, 4), OLD, T0, Restatements()) is None
    assert alert_rules.restatements(REVENUE, restated(5, 4, 4, 4, 4), OLD, T0, Restatements()) is not None
    assert alert_rules.restatements(REVENUE, restated(2, 0, 0, 0, 0), OLD, T0, Restatements()) is None, "two are no wave"
    assert alert_rules.restatements(REVENUE, restated(3, 0, 0, 0, 0), OLD, T0, Restatements()) is not None


def test_a_young_metric_has_no_usual() -> None:
    many = restated(50, 1, 1, 1, 1)
    assert alert_rules.restatements(REVENUE, many, None, T0, Restatements()) is None
    assert alert_rules.restatements(REVENUE, many, T0 - 35 * DAY + MINUTE, T0, Restatements()) is None
    assert alert_rules.restatements(REVENUE, many, T0 - 35 * DAY, T0, Restatements()) is not None


@given(st.lists(st.integers(0, 12), min_size=5, max_size=5), st.sampled_from([0, 1, 2, 3]))
def test_restatements_follow_the_definition(weeks: list[int], sigma: int) -> None:
    alert = alert_rules.restatements(REVENUE, restated(*weeks), OLD, T0, Restatements(sigma=Decimal(sigma), needs=1))
    bound = mean(weeks[1:]) + sigma * stdev(weeks[1:])
    if abs(weeks[0] - bound) > 1e-9:  # on the bound the float does not know
        assert (alert is not None) == (weeks[0] > bound)
    if alert:
        by_then = sum(one.at <= alert.since for one in restated(weeks[0]))
        assert by_then > bound - 1e-9
        assert by_then - 1 <= bound + 1e-9, "it was within before"


# Numbers ------------------------------------------------------------------------------------------------------------


def test_a_held_number() -> None:
    alert = alert_rules.held(REVENUE, "2024-11-02", 3, T0, {"change": "moved by 50 %"}, T0)
    assert alert is not None
    assert (alert.kind, alert.period, alert.since) == (AlertKind.HELD, "2024-11-02", T0)
    assert "revenue 2024-11-02 r3 is held: change: moved by 50 %" in alert.text
    assert "lakehouse gold publish revenue 2024-11-02 --revision r3" in alert.text


def test_a_number_that_is_being_checked_is_not_held_until_its_run_must_have_stopped() -> None:
    assert alert_rules.held(REVENUE, "2024-11-02", 3, T0, {}, T0 + HOUR) is None
    stopped = alert_rules.held(REVENUE, "2024-11-02", 3, T0, {}, T0 + HOUR + MINUTE)
    assert stopped is not None
    assert "stopped before its checks had ended" in stopped.text


def test_an_overdue_number() -> None:
    alert = alert_rules.overdue(REVENUE, "2024-11-02", date(2024, 11, 9), T0, State.FINAL)
    assert "was due on 2024-11-09 and is not final yet" in alert.text
    never = alert_rules.overdue(REVENUE, "2024-11-02", date(2024, 11, 9), T0, None)
    assert "has not been published at all" in never.text


def number(*values: Any, state: State = State.FINAL, at: datetime = T0) -> PublishedValues:
    grains = [""] if len(values) == 1 else [f"store {place}" for place, _ in enumerate(values)]
    return PublishedValues("2024-11-02", 2, state, at, list(zip(grains, values)))


def judged(values: PublishedValues, now: datetime = T0, tolerance: str = "0.1", **bound: Any) -> Any:
    return alert_rules.value(REVENUE, values, ValueBound(measure="total", **bound), Decimal(tolerance), now)


def test_a_final_value_below_its_bound_alerts_and_one_on_it_does_not() -> None:
    alert = judged(number(Decimal("99.99")), below=100)
    assert alert.text == "total of revenue 2024-11-02 is 99.99: below 100. The number is final (r2)."
    assert alert.title == "a final value beyond its bound: revenue 2024-11-02"
    assert alert.addressed_to == ["anna", "ben"]
    assert judged(number(Decimal("100.00")), below=100) is None


@pytest.mark.parametrize("state", [State.LIVE, State.PRELIMINARY])
def test_any_other_value_alerts_only_when_it_is_clearly_beyond_and_says_so(state: State) -> None:
    assert judged(number(99, state=state), below=100) is None
    assert judged(number(90, state=state), below=100) is None, "on the tenth is not beyond it"
    alert = judged(number(Decimal("89.99"), state=state), below=100)
    assert f"The number is {state.value} (r2)." in alert.text
    assert "below 100, and clearly so: by more than 10%" in alert.text
    assert alert.title == f"a {state.value} value beyond its bound: revenue 2024-11-02"


def test_bounds_above_and_negative_bounds() -> None:
    assert judged(number(101), above=100) is not None
    assert judged(number(110, state=State.LIVE), above=100) is None
    assert judged(number(111, state=State.LIVE), above=100) is not None
    assert judged(number(-105, state=State.LIVE), below=-100) is None
    assert judged(number(-111, state=State.LIVE), below=-100) is not None
    assert judged(number(-1, state=State.LIVE), below=0) is not None, "a tenth of nothing is nothing"


def test_of_many_rows_the_furthest_is_reported() -> None:
    alert = judged(number(5, 3, 200, None, float("nan"), 50), below=10, above=100)
    assert "is 3 for store 1: below 10" in alert.text
    assert "2 more rows of its grain" in alert.text
    alert = judged(number(101, 300, 50), below=10, above=100)
    assert "is 300 for store 1: above 100" in alert.text


def test_nan_is_not_judged_and_infinity_is() -> None:
    assert judged(number(None), below=1) is None
    assert judged(number(float("nan")), below=1, above=2) is None
    assert judged(number(float("-inf")), below=1) is not None


def test_a_final_number_is_looked_at_for_a_week() -> None:
    assert judged(number(1), T0 + WEEK, below=2) is not None
    assert judged(number(1), T0 + WEEK + MINUTE, below=2) is None
    assert judged(number(1, state=State.LIVE), T0 + 9 * WEEK, below=2) is not None


@given(st.decimals("-1e20", "1e20", places=2), st.decimals("-1e20", "1e20", places=2))
def test_live_is_never_stricter_than_final(value: Decimal, bound: Decimal) -> None:
    live, final = (judged(number(value, state=state), below=bound) for state in (State.LIVE, State.FINAL))
    assert live is None or final is not None
    assert (final is not None) == (value < bound)
    assert (live is not None) == (Fraction(value) < Fraction(bound) - abs(Fraction(bound)) / 10)
