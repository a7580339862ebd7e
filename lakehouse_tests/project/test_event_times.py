"""The event time is the thing's own time, chosen by meaning; two readings are asked for, two names of one time are not."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pytest

from lakehouse.project.inference import infer
from lakehouse.project.questions import InferenceError
from lakehouse_tests.support.inferred_files import infer_file
from lakehouse_tests.support.sample_files import lines

if TYPE_CHECKING:
    from pathlib import Path


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


@pytest.mark.parametrize(
    ("times", "zones"),
    [
        (["2024-11-04T00:00:00+01:00"], ["Europe/Berlin", "Africa/Lagos", "Etc/GMT-1", "UTC"]),
        (["2024-11-04T23:30:00-0500"], ["America/New_York", "America/Bogota", "Etc/GMT+5", "UTC"]),
        (["2024-11-04 23:30:00 -0500"], ["America/New_York", "America/Bogota", "Etc/GMT+5", "UTC"]),
        (["2024-07-04T10:00:00+02:00", "2024-12-04T10:00:00+01:00"], ["Europe/Berlin", "UTC"]),
        (["2024-07-04T10:00:00+01:00", "2024-12-04T10:00:00Z"], ["Europe/London", "UTC"]),
        (["2024-11-04T10:00:00+05:30"], ["Asia/Kolkata", "UTC"]),
        (["2024-11-04T23:00:00Z", "2024-11-05T23:00:00Z", "2024-11-06T23:00:00Z"], ["Europe/Berlin", "Africa/Lagos", "UTC"]),
        (["2024-11-04T23:00:00Z", "2024-11-05T23:00:00Z"], []),
        (["2024-11-04T10:00:00Z", "2024-11-05T10:00:00+00:00"], []),
        (["2024-11-04T10:00:00+09:00", "2024-11-05T10:00:00-05:00"], []),
    ],
)
def test_the_zone_of_the_data_is_asked_for(times: list[str], zones: list[str]) -> None:
    inferred = infer([lines("id,at", *(f"{number},{at}" for number, at in enumerate(times)))])
    assert [option for question in inferred.questions for option in question.options] == zones
    assert inferred.zone == (zones or [""])[0]


def test_a_day_is_that_of_the_zone_of_the_data(tmp_path: Path) -> None:
    content = "id,at\n1,2024-11-04T00:00:00+01:00\n2,2024-11-04T23:59:00+01:00\n"
    read = infer_file(tmp_path, "log.csv", content)
    assert [row["event_date"] for row in read.rows] == [date(2024, 11, 4)] * 2
    answered = infer_file(tmp_path, "log.csv", content, {"clocks.timezone": "Pacific/Auckland"})
    assert ({row["event_date"] for row in answered.rows}, answered.questions) == ({date(2024, 11, 4), date(2024, 11, 5)}, {})
    with pytest.raises(InferenceError, match=r"clocks.timezone=CEST: there is no such zone; write a name such as Europe/Berlin"):
        infer_file(tmp_path, "log.csv", content, {"clocks.timezone": "CEST"})
    naive = infer_file(tmp_path, "log.csv", "id,at\n1,2024-11-04 00:00:30\n", {"clocks.timezone": "Asia/Tokyo"})
    assert (naive.source.clocks.timezone, naive.rows[0]["event_ts"].isoformat()) == ("Asia/Tokyo", "2024-11-03T15:00:30+00:00")
    assert "event times have no zone and are read as Asia/Tokyo (clocks.timezone)" in naive.text


def test_offsets_of_several_zones_and_midnights_of_utc_are_told(tmp_path: Path) -> None:
    several = infer_file(tmp_path, "log.csv", "id,at\n1,2024-11-04T10:00:00+09:00\n2,2024-11-05T10:00:00-05:00\n")
    assert "times of at have several offsets (+09:00, -05:00): days are those of UTC (clocks.timezone)" in several.text
    rows = "".join(f"{day},2024-11-0{day}T00:00:00.000Z\n" for day in (4, 5, 6))
    midnights = infer_file(tmp_path, "log.csv", f"id,at\n{rows}")
    assert not midnights.questions
    assert "these lines read them as days: source: {formats: {at: '%Y-%m-%dT00:00:00.000Z'}}" in midnights.text
