"""The contents of a notice: the right differences, in a few lines and in figures, and no value of the grain."""

from __future__ import annotations

import json
from datetime import date, datetime, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.contracts.checks import ChangeBounds
from lakehouse.gold.numbers.comparison import MeasureDelta
from lakehouse.gold.numbers.lifecycle import RevisionReason, State, restates
from lakehouse.operations.notices.notice import Notice, RestatedPeriod

D = Decimal
AT = datetime(2024, 11, 8, 6, 30, tzinfo=timezone.utc)
STORES = ("south", "north")


def change(measure: str, before: Any, after: Any, period: str = "2024-11-01", store: str | None = None) -> MeasureDelta:
    return MeasureDelta(
        period=period, grain=() if store is None else (("store", store),), measure=measure, before=before, after=after
    )


def restated(*changes: MeasureDelta, period: str = "2024-11-01", **more: Any) -> RestatedPeriod:
    fields = {"before": f"revenue_v{period}.r2", "after": f"revenue_v{period}.r3", "state": State.PRELIMINARY}
    fields |= {
        "reason": RevisionReason.LATE_DATA,
        "explanation": "late_data: 3 arrived late",
        "changed_rows": 3,
        "booked_on": None,
    }
    return RestatedPeriod(period=period, changes=changes, **{**fields, **more})


def notice(*periods: RestatedPeriod, rows: int | None = 3, additive: frozenset[str] = frozenset({"revenue", "sales"})) -> Notice:
    return Notice("revenue", "revenue", "p1", 4, AT, periods, rows, additive)


def test_a_restated_day_in_words_and_in_figures() -> None:
    message = notice(restated(change("revenue", D("100.00"), D("120.00")), change("sales", 0, 2), change("customers", 7, 7)))
    assert message.subject == "revenue restated for 2024-11-01: late_data"
    assert message.text == (
        "revenue was restated for 2024-11-01, 2024-11-08 06:30 UTC; changed rows of silver: 3.\n"
        "\n"
        "2024-11-01, preliminary, r2 -> r3, late_data: 3 arrived late\n"
        "  revenue 100.00 -> 120.00 (+20.00, +20.00 %)\n"
        "  sales 0 -> 2 (+2)\n"
        "\n"
        "lakehouse gold history revenue 2024-11-01"
    )
    data = message.data
    assert data["window"] == {"first": "2024-11-01", "last": "2024-11-01", "count": 1, "periods": ["2024-11-01"]}
    assert (data["reasons"], data["changed_rows"], data["left_out"]) == (["late_data"], 3, 0)
    (one,) = data["restated"]
    assert (one["before"], one["after"], one["state"]) == ("revenue_v2024-11-01.r2", "revenue_v2024-11-01.r3", "preliminary")
    names = ("measure", "before", "after", "difference", "percent", "grain_rows_changed")
    assert [tuple(measure[name] for name in names) for measure in one["measures"]] == [
        ("revenue", "100.00", "120.00", "20.00", "20.00", 1),
        ("sales", 0, 2, 2, None, 1),
        ("customers", 7, 7, 0, "0.00", 0),
    ]


def test_over_a_grain_what_adds_up_is_added_up_and_of_the_rest_rows_are_counted() -> None:
    both = [(1, 1, 5, 4), (2, 5, 6, 6)]
    changes = [change("sales", old, new, store=name) for name, (old, new, *_) in zip(STORES, both)]
    changes += [change("customers", old, new, store=name) for name, (*_, old, new) in zip(STORES, both)]
    told = notice(restated(*changes))
    assert "  sales 3 -> 6 (+3, +100.00 %)\n  customers changed in 1 of 2 rows of the grain\n" in told.text
    _, customers = told.data["restated"][0]["measures"]
    assert (customers["before"], customers["after"], customers["grain_rows"], customers["grain_rows_changed"]) == (
        None,
        None,
        2,
        1,
    )


def test_no_value_of_the_grain_leaves() -> None:
    told = notice(restated(*(change(name, 1, 2, store=one) for one in STORES for name in ("sales", "customers"))))
    assert not any(one in json.dumps(told.data) + told.text + told.subject for one in STORES)


def test_moves_between_rows_of_the_grain_are_reported_though_the_total_is_unchanged() -> None:
    told = notice(restated(change("sales", 1, 2, store="south"), change("sales", 2, 1, store="north")))
    assert "  sales 3 in all, as before: 2 of 2 rows changed\n" in told.text


def test_a_day_that_lost_its_rows_and_one_whose_measures_stand() -> None:
    gone = restated(change("sales", 2, None))
    same = restated(change("sales", 2, 2), period="2024-11-02")
    told = notice(gone, same)
    assert "  sales 2 -> none\n" in told.text
    assert "2024-11-02, preliminary, r2 -> r3, late_data: 3 arrived late\n  no measure changed" in told.text
    assert told.subject == "revenue restated for 2 periods, 2024-11-01 to 2024-11-02: late_data"


def test_an_adjustment_says_where_it_is_booked_and_that_the_closed_number_stays() -> None:
    booked = {"after": "revenue_v2024-11-01.r3.a1", "before": "revenue_v2024-11-01.r3", "state": State.FINAL}
    told = notice(restated(change("sales", 2, 3), booked_on=date(2024, 11, 20), **booked))
    assert "2024-11-01, final, r3 -> r3.a1, late_data: 3 arrived late\n  the closed number stays" in told.text
    assert told.data["restated"][0]["booked_on"] == "2024-11-20"


def test_a_persons_words_follow_the_reason() -> None:
    told = notice(
        restated(change("sales", 2, 3), reason=RevisionReason.MANUAL, explanation="promoted to v2 by ana: net"), rows=None
    )
    assert "r2 -> r3, manual: promoted to v2 by ana: net" in told.text
    assert "changed rows" not in told.text
    assert notice(restated(change("sales", 2, 3), explanation=None)).text.count("late_data\n") == 1


def test_many_periods_are_summarized_in_a_few_lines() -> None:
    days = [f"2024-{month:02}-{number:02}" for month in range(1, 13) for number in range(1, 29)]
    told = notice(*(restated(change("sales", 1, 2, day), period=day) for day in days))
    assert told.text.count("r2 -> r3") == 5
    assert "and 331 more." in told.text
    assert (len(told.data["restated"]), told.data["left_out"], len(told.data["window"]["periods"])) == (200, 136, 336)


def test_first_numbers_and_changes_of_state_are_no_news() -> None:
    assert {reason for reason in RevisionReason if not restates(reason)} == {
        RevisionReason.INITIAL,
        RevisionReason.NEW_DATA,
        RevisionReason.DAILY_FINALIZATION,
    }


def test_a_message_is_identified_by_its_consumer_and_publication() -> None:
    one, other = notice(restated(change("sales", 1, 2))), Notice("revenue", "revenue_weekly", "p1", 4, AT, [])
    assert one.message_id("board") == notice(restated(change("sales", 5, 9))).message_id("board")
    assert len({one.message_id("board"), one.message_id("shop"), other.message_id("board")}) == 3


numbers = st.none() | st.integers() | st.floats() | st.decimals(allow_nan=False, allow_infinity=False, places=2)


@given(numbers, numbers)
def test_any_numbers_can_be_written(before: Any, after: Any) -> None:
    told = notice(restated(change("sales", before, after)))
    json.dumps(told.data, allow_nan=False)
    assert len(told.text.splitlines()) == 6
    (measure,) = told.data["restated"][0]["measures"]
    if not any(one is None or isinstance(one, float) for one in (before, after)):
        assert Fraction(measure["before"]) + Fraction(measure["difference"]) == Fraction(measure["after"])


def exceeds(*changes: MeasureDelta, additive: frozenset[str] = frozenset({"revenue"}), **bounds: int) -> bool:
    """With these absolute bounds by measure."""
    return restated(*changes).exceeds({name: ChangeBounds(absolute=D(bound)) for name, bound in bounds.items()}, additive)


def test_a_measure_without_bounds_exceeds_them_if_it_changed_at_all() -> None:
    assert exceeds(change("revenue", 10, 12), change("customers", 4, 5), revenue=9)
    assert not exceeds(change("revenue", 10, 12), change("customers", 4, 4), revenue=9)
    assert not exceeds(change("revenue", 10, 10))


def test_a_total_is_compared_where_there_is_one_else_each_row_of_the_grain() -> None:
    rows = [change("revenue", 10, 15, store="south"), change("revenue", 10, 6, store="north")]
    assert not exceeds(*rows, revenue=1)
    assert exceeds(*rows, revenue=4, additive=frozenset())
    assert not exceeds(*rows, revenue=5, additive=frozenset())


def test_a_number_that_is_new_or_gone_counts_with_all_of_it() -> None:
    assert exceeds(change("revenue", None, 10), revenue=9)
    assert not exceeds(change("revenue", 10, None), revenue=10)
    assert restated(change("revenue", None, 1)).exceeds({"revenue": ChangeBounds(percent=D(900))}, frozenset())
    assert restated(change("revenue", 0, 1)).exceeds({"revenue": ChangeBounds(percent=D(900))}, frozenset())


def test_a_double_that_is_no_number_exceeds_any_bound() -> None:
    assert exceeds(change("revenue", 1.0, float("nan")), revenue=10**9)
    assert not exceeds(change("revenue", float("nan"), float("nan")), revenue=0)
