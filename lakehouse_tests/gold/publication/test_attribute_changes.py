"""Changes of dimensions in words: those whose facts a day has, a few of them, and how many more."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from lakehouse.gold.publication.restatement_reports import attribute_words
from lakehouse_tests.support.joined_lake import CUSTOMERS, metric

SPEND = metric().with_contracts({"customers": CUSTOMERS})
FIFTH = date(2024, 11, 5)


def change(key: str = "17", *days: str, **changes: Any) -> dict[str, Any]:
    return {
        "dimension": "customers",
        "key": key,
        "column": "tier",
        "from": "2024-11-04T00:00:00+00:00",
        "to": "2024-11-08T00:00:00+00:00",
        "before": "silver",
        "after": "gold",
        "days": [*days] or ["2024-11-05"],
        **changes,
    }


def in_words(*changes: dict[str, Any], in_all: int = 0, day: date = FIFTH, **of_metric: Any) -> str | None:
    spend = metric(**of_metric).with_contracts({"customers": CUSTOMERS}) if of_metric else SPEND
    return attribute_words({"in_all": in_all or len(changes), "first": [*changes]}, spend, [day])


def test_a_change_names_key_range_and_new_value() -> None:
    assert in_words(change()) == "the tier of customer 17 from 2024-11-04 to 2024-11-08 became gold"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"to": None}, "the tier of customer 17 from 2024-11-04 on became gold"),
        ({"from": "2024-11-04T09:30:00+00:00"}, "the tier of customer 17 from 2024-11-04 09:30 UTC to 2024-11-08 became gold"),
        ({"after": None}, "the tier of customer 17 from 2024-11-04 to 2024-11-08 is no longer known"),
        ({"dimension": "shops"}, "the tier of shops 17 from 2024-11-04 to 2024-11-08 became gold"),
    ],
)
def test_open_ends_times_and_missing_values_are_in_words(changes: dict[str, Any], expected: str) -> None:
    assert in_words(change(**changes)) == expected


def test_only_changes_with_facts_on_the_day_are_in_words() -> None:
    elsewhere = change("18", "2024-11-06")
    assert in_words(change(), elsewhere) == in_words(change())
    assert in_words(elsewhere) is None
    assert attribute_words({}, SPEND, [FIFTH]) is None


def test_a_trailing_window_is_restated_by_the_changes_of_its_days() -> None:
    assert in_words(change("17", "2024-11-03"), window=3) == in_words(change())
    assert in_words(change("17", "2024-11-02"), window=3) is None


def test_few_of_many_changes_are_told_with_the_number_of_the_others() -> None:
    many = in_words(*(change(f"{key}") for key in range(5)))
    assert many is not None
    assert many.count(" became gold") == 3
    assert many.endswith("became gold; and 2 more")
    assert in_words(change(), in_all=57) == f"{in_words(change())} (of 57 changes in the publication)"


def test_two_attributes_of_one_change_are_one_change() -> None:
    both = in_words(change(), change(column="region", after="north"), in_all=1)
    assert both is not None
    assert both.endswith("became gold; the region of customer 17 from 2024-11-04 to 2024-11-08 became north")
