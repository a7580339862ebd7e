"""The event time is the thing's own time, chosen by meaning; two readings are asked for, two names of one time are not."""

from __future__ import annotations

from lakehouse.project.inference import infer
from lakehouse_tests.support.sample_files import lines


def asked_for(columns: str, *rows: str) -> list[str]:
    """The options of the question which time counts; none if it is not asked."""
    questions = infer([lines(columns, *rows)]).questions
    return [option for question in questions if question.about == "clocks.event" for option in question.options]


def test_two_columns_of_one_time_are_no_two_readings() -> None:
    same = [f"{number},{1730714400 + number * 60}000,2024-11-04 11:{number}:00+01:00" for number in range(10, 40)]
    assert asked_for("id,timestamp,datetime", *same) == []
    assert asked_for("id,timestamp,datetime", *same[:2]) == ["timestamp", "datetime"], "two records may agree by accident"
    days = [f"{number},2024-11-04,2024-11-04T10:{number}:00Z" for number in range(10, 40)]
    assert asked_for("id,order_date,order_time", *days) == []


def test_two_columns_that_differ_in_one_record_are_asked_for() -> None:
    rows = ["1,2024-11-04T10:00:00Z,2024-11-04T10:00:00Z"] * 30 + ["2,2024-11-04T23:59:00Z,2024-11-05T00:01:00Z"]
    assert asked_for("id,start_one,start_two", *rows) == ["start_one", "start_two"]
    days = ["1,2024-11-04,2024-11-04T10:00:00Z"] * 30 + ["2,2024-11-04,2024-11-05T23:00:00Z"]
    assert asked_for("id,order_date,order_time", *days) == ["order_date", "order_time"]


def test_the_last_time_of_a_thing_is_a_state_and_asked_for() -> None:
    assert asked_for("stock_id,last_restocked", "1,2024-11-04", "2,2024-11-05") == ["last_restocked"]
    assert asked_for("stock_id,last_restocked,counted_on_date", "1,2024-11-04,2024-11-06", "2,2024-11-05,2024-11-06") == []


def test_times_in_other_languages_are_called_so() -> None:
    found = infer([lines("id,datum,valuta", "1,2024-11-04,2024-11-05", "2,2024-11-05,2024-11-09")])
    assert (found.event, found.questions) == ("datum", [])


def waits(columns: str, *rows: str) -> tuple[int | None, str]:
    found = infer([lines(columns, *rows)])
    return found.days_to_wait, next(doubt for doubt in found.doubts if "clocks.watermark" in doubt)


def test_the_watermark_waits_for_as_long_as_rows_of_the_samples_came_late() -> None:
    rows = [f"{number},2024-11-04T10:00:00Z,2024-11-0{4 + number % 3}T10:00:00Z" for number in range(30)]
    days, doubt = waits("id,sold_at,received_at", *rows)
    assert days == 3, "two days and the rest of the day"
    assert doubt.endswith("30 of 30 rows in the samples came within this time")
    assert waits("id,sold_at,received_at", "1,2024-01-01T10:00:00Z,2024-11-04T10:00:00Z")[0] == 30, "the most that it waits"
    assert waits("id,sold_at,received_at", "1,2024-11-04T10:00:00Z,2024-11-04T09:00:00Z")[0] == 1


def test_the_watermark_waits_three_days_where_the_samples_do_not_show_it() -> None:
    days, doubt = waits("id,sold_at", "1,2024-11-04T10:00:00Z")
    assert (days, doubt.split(": ")[-1]) == (3, "the samples do not show how late rows come")
    assert infer([lines("id,name", "1,a")]).days_to_wait is None
