"""The windows of a day and their names, on days with 23, 24 and 25 hours."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.calendar import windows
from lakehouse.calendar.windows import UnknownWindowError

BERLIN = ZoneInfo("Europe/Berlin")
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(("day", "hours"), [(date(2024, 3, 31), 23), (date(2024, 5, 1), 24), (date(2024, 10, 27), 25)])
def test_a_day_has_as_many_hours_as_its_zone_gives_it_and_each_has_a_name(day: date, hours: int) -> None:
    starts = list(windows.starts(day, HOUR, BERLIN))
    names = [windows.name(start, BERLIN) for start in starts]
    assert (len(starts), len(set(names))) == (hours, hours)
    assert names[0] == f"{day}T00"
    assert names[-1] == f"{day}T23"


def test_an_hour_that_comes_twice_is_named_with_its_offset() -> None:
    first = datetime(2024, 10, 27, 0, tzinfo=timezone.utc)
    assert windows.name(first, BERLIN) == "2024-10-27T02+02:00"
    assert windows.name(first + HOUR, BERLIN) == "2024-10-27T02+01:00"
    assert windows.name(first + 2 * HOUR, BERLIN) == "2024-10-27T03"


@given(
    day=st.dates(date(2020, 1, 1), date(2030, 1, 1)) | st.sampled_from([date(2024, 3, 31), date(2024, 10, 27)]),
    minutes=st.sampled_from([5, 15, 60, 120, 1440]),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/New_York", "Asia/Kathmandu"]),
)
def test_every_window_is_found_by_its_name(day: date, minutes: int, zone: str) -> None:
    step, local = timedelta(minutes=minutes), ZoneInfo(zone)
    starts = list(windows.starts(day, step, local))
    for start in starts[:: max(1, len(starts) // 24)]:
        name = windows.name(start, local)
        assert windows.is_name(name)
        assert windows.parse(name, step, local) == (day, start)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2024-01-15T14:10", "no window starts at 2024-01-15T14:10: there are 2024-01-15T14, 2024-01-15T14:30"),
        ("2024-03-31T02", "no window starts at 2024-03-31T02: there are 2024-03-31T00, 2024-03-31T00:30, 2024-03-31T01, ..."),
        ("2024-10-27T02", r"no window starts at 2024-10-27T02: there are 2024-10-27T02\+02:00, .*, 2024-10-27T02\+01:00, \.\.\."),
        ("2024-02-30T02", "'2024-02-30T02' is no window; windows are named as in 2024-01-15T14 or 2024-01-15T14:30"),
        ("noon", "'noon' is no window"),
    ],
)
def test_a_name_of_no_window_is_answered_with_those_that_there_are(text: str, message: str) -> None:
    with pytest.raises(UnknownWindowError, match=message):
        windows.parse(text, timedelta(minutes=30), BERLIN)


def test_minutes_may_be_written_for_a_whole_hour() -> None:
    assert windows.parse("2024-01-15T14:00", HOUR, BERLIN) == windows.parse("2024-01-15T14", HOUR, BERLIN)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "2024-01-15T14",
            "2024-01-15t14",
            "2024-01-15 14",
            "2024-01-15-14",
            "2024-01-15_14",
            "2024-01-15T14:00",
            "2024-01-15 14:00",
        ),
        *(
            "2024-01-15-14:00",
            "2024-01-15-14-00",
            "2024-01-15T1400",
            "2024-01-15T14:00:00",
            "2024-01-15T14:00:00.000",
            " 2024-01-15T14 ",
        ),
        *("2024-01-15T13:00Z", "2024-01-15T13:00:00z", "2024-01-15T14+01:00", "2024-01-15 14:00+01:00", "2024-01-15T14:00 01:00"),
        *("2024-01-15T08:00-05:00", "2024-01-15-08-05:00", "2024-01-16T00:00+11:00"),
    ],
)
def test_a_window_as_a_person_writes_it(text: str) -> None:
    assert windows.is_name(text)
    found = (date(2024, 1, 15), datetime(2024, 1, 15, 13, tzinfo=timezone.utc))
    assert windows.parse(text, HOUR, BERLIN) == found
    assert windows.parse_moment(text, BERLIN) == found


def test_an_hour_of_one_digit_and_its_minutes() -> None:
    half_past = (date(2024, 1, 15), datetime(2024, 1, 15, 9, 30, tzinfo=timezone.utc))
    for text in ("2024-01-15 9:30", "2024-01-15-9-30", "2024-01-15T0930", "2024-01-15-09:30"):
        assert windows.parse(text, timedelta(minutes=30), ZoneInfo("UTC")) == half_past


@pytest.mark.parametrize(
    "text", ["2024-01-15", "2024-01-15T", "2024-01-15-", "2024-01-15-14-0", "2024-01-15.14", "2024-01", "2024-01-15-14-05-06"]
)
def test_a_text_that_is_no_window(text: str) -> None:
    assert not windows.is_name(text)


def test_a_window_that_there_is_not_is_named_as_it_was_written() -> None:
    with pytest.raises(
        UnknownWindowError, match=r"^no window starts at 2024-01-15-14-10: there are 2024-01-15T14, 2024-01-15T14:30$"
    ):
        windows.parse("2024-01-15-14-10", timedelta(minutes=30), BERLIN)
    with pytest.raises(UnknownWindowError, match=r"^'2024-01-15 25:00' is no window"):
        windows.parse("2024-01-15 25:00", HOUR, BERLIN)


@given(
    start=st.timedeltas(timedelta(0), timedelta(days=3650)).map(lambda passed: datetime(2020, 1, 1, tzinfo=timezone.utc) + passed)
    | st.integers(0, 9000).map(lambda seconds: datetime(2024, 10, 27, tzinfo=timezone.utc) + timedelta(seconds=seconds)),
    zone=st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/New_York"]),
)
def test_every_moment_is_found_by_its_name(start: datetime, zone: str) -> None:
    name = windows.name(start, ZoneInfo(zone))
    assert windows.is_name(name)
    assert windows.parse_moment(name, ZoneInfo(zone)) == (start.astimezone(ZoneInfo(zone)).date(), start)


def test_the_name_of_a_moment_is_as_short_as_it_can_be() -> None:
    moment = datetime(2024, 1, 15, 14, tzinfo=timezone.utc)
    later = [timedelta(0), timedelta(minutes=30), timedelta(seconds=7), timedelta(milliseconds=250)]
    assert [windows.name(moment + passed, ZoneInfo("UTC")) for passed in later] == [
        "2024-01-15T14",
        "2024-01-15T14:30",
        "2024-01-15T14:00:07",
        "2024-01-15T14:00:00.25",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "2024-10-27T02:10:05",
            r"not one moment: name it with an offset, 2024-10-27T02:10:05\+02:00 or 2024-10-27T02:10:05\+01:00",
        ),
        ("2024-03-31T02:10", "not one moment: name it with an offset"),
        ("2024-02-30T02", "'2024-02-30T02' is no time: day is out of range for month"),
        ("noon", "'noon' is no window; sessions are named by their first moment, as in 2024-01-15T14:30:07"),
    ],
)
def test_a_text_that_is_no_moment_is_refused_in_a_sentence(text: str, message: str) -> None:
    with pytest.raises(UnknownWindowError, match=message):
        windows.parse_moment(text, BERLIN)
