"""The limits of a business day, and the two forms of a row's lateness against each other."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.calendar.days import business_day_of, end_of_day, lateness, replay_clock, same_time_before, start_of_day
from lakehouse.lateness.measurement import lags
from lakehouse_tests.support.lake import contract

#: Zones with clock changes at night, at midnight (Havana, Sao Paulo), and over a whole day (Apia).
ZONES = st.sampled_from(
    ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "America/Havana", "America/Sao_Paulo", "Pacific/Apia"]
)
MOMENTS = st.datetimes(datetime(2000, 1, 2), datetime(2037, 12, 31), timezones=st.just(timezone.utc))  # noqa: DTZ001 (naive, as hypothesis wants them)
DAYS = st.dates(date(2000, 1, 2), date(2037, 12, 31))


def seconds(moment: datetime) -> float:
    """Since 1970, so that moments of one zone are compared as instants and not by their wall clocks."""
    return moment.timestamp()


@given(MOMENTS, ZONES)
def test_a_moment_lies_within_its_business_day(moment: datetime, name: str) -> None:
    zone = ZoneInfo(name)
    day = business_day_of(moment, zone)
    assert seconds(start_of_day(day, zone)) <= seconds(moment) < seconds(end_of_day(day, zone))


@given(DAYS, ZONES)
def test_business_days_follow_each_other_without_a_gap(day: date, name: str) -> None:
    zone = ZoneInfo(name)
    assert end_of_day(day, zone) == start_of_day(day + timedelta(days=1), zone)
    length = seconds(end_of_day(day, zone)) - seconds(start_of_day(day, zone))
    assert length in (0, 23 * 3600, 24 * 3600, 25 * 3600), "Apia left out 30 December 2011"


def test_a_business_day_is_the_calendar_day_of_its_zone() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    assert start_of_day(date(2024, 3, 31), berlin) == datetime(2024, 3, 30, 23, tzinfo=timezone.utc)
    assert end_of_day(date(2024, 3, 31), berlin) == datetime(2024, 3, 31, 22, tzinfo=timezone.utc)
    assert business_day_of(datetime(2024, 3, 31, 22, tzinfo=timezone.utc), berlin) == date(2024, 4, 1)


def test_the_start_of_a_day_is_a_time_of_its_zone() -> None:
    """Alerts show it, and their ids are made of it."""
    assert start_of_day(date(2024, 7, 1), ZoneInfo("Europe/Berlin")).isoformat() == "2024-07-01T00:00:00+02:00"


def test_a_day_beyond_the_calendar_is_an_overflow() -> None:
    with pytest.raises(OverflowError):
        business_day_of(datetime(9999, 12, 31, 23, tzinfo=timezone.utc), ZoneInfo("Europe/Berlin"))


def test_a_replay_lives_in_the_last_second_of_an_arrival_day() -> None:
    assert replay_clock(date(2024, 2, 29)) == datetime(2024, 2, 29, 23, 59, 59, tzinfo=timezone.utc)


ROWS = st.lists(st.tuples(st.none() | MOMENTS, st.none() | DAYS, MOMENTS), min_size=1, max_size=20)


@given(ROWS, ZONES)
def test_the_lateness_of_a_row_is_the_same_in_python_and_in_arrow(rows: list[tuple[Any, Any, datetime]], name: str) -> None:
    schema = pa.schema(
        [("event_ts", pa.timestamp("us", "UTC")), ("event_date", pa.date32()), ("arrival_ts", pa.timestamp("us", "UTC"))]
    )
    table = pa.Table.from_pylist([dict(zip(schema.names, row)) for row in rows], schema=schema)
    source = contract(clocks={"event": "event_time", "arrival": "arrived_at", "timezone": name})
    expected = [lateness(*row, ZoneInfo(name)) for row in rows]
    measured = [None if lag is None else timedelta(microseconds=lag) for lag in lags(table, source).to_pylist()]
    assert measured == expected


@given(moment=MOMENTS, days=st.integers(0, 60), zone=ZONES)
def test_the_same_time_some_days_before_is_that_of_the_wall_clock(moment: datetime, days: int, zone: str) -> None:
    local, before = moment.astimezone(ZoneInfo(zone)), same_time_before(moment, days, ZoneInfo(zone))
    assert (before.date(), before.time()) == (local.date() - timedelta(days=days), local.time())
    assert abs(seconds(moment) - seconds(before) - days * 86_400) <= 26 * 3600, "a zone has changed by a day at most"
