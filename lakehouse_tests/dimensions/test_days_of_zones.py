"""Days join days: a fact that knows its day has the attributes that hold on that day of the dimension's zone."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo, available_timezones

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.calendar.days import start_of_day
from lakehouse.dimensions.fact_index import event_times
from lakehouse_tests.support.laws import law

ZONES = sorted(available_timezones() - {"Factory", "localtime"})
TIME = pa.timestamp("us", "UTC")


def changes_of_clocks(zone: ZoneInfo, year: int) -> list[date]:
    """The days of a year before whose end the clock of a zone is changed; its first day if there is none."""
    days = [datetime(year, 1, 1, tzinfo=timezone.utc) + timedelta(days=number) for number in range(366)]
    offsets = [day.astimezone(zone).utcoffset() for day in days]
    return [day.date() for day, before, after in zip(days, offsets, offsets[1:]) if before != after] or [days[0].date()]


@law(2_000, in_each_run=150)
@given(st.data())
def test_a_day_has_the_attributes_of_the_last_change_on_it_or_before_in_every_zone(data: st.DataObject) -> None:
    zone = ZoneInfo(data.draw(st.sampled_from(ZONES)))
    around = data.draw(st.sampled_from(changes_of_clocks(zone, data.draw(st.integers(1900, 2100)))))
    near = st.integers(-3, 3).map(lambda days: around + timedelta(days=days))
    day, changes = data.draw(near), data.draw(st.lists(near, min_size=1, unique=True))
    facts = pa.table({"event_date": [day], "event_ts": pa.nulls(1, TIME)})
    (at,) = event_times(facts, zone).to_pylist()
    begun = {change for change in changes if start_of_day(change, zone) <= at}
    is_skipped = start_of_day(day, zone) == start_of_day(day + timedelta(days=1), zone)  # such as 30 December 2011 in Samoa
    assert begun == {change for change in changes if change <= day + timedelta(days=is_skipped)}


def test_a_fact_with_a_time_is_joined_as_of_it() -> None:
    moment = datetime(2024, 11, 4, 3, tzinfo=timezone.utc)
    facts = pa.table({"event_date": [date(2024, 11, 3)] * 2, "event_ts": pa.array([moment, None], TIME)})
    day = datetime(2024, 11, 3, 4, tzinfo=timezone.utc)
    assert event_times(facts, ZoneInfo("America/New_York")).to_pylist() == [moment, day]
