"""The rules about a source's inputs, at their bounds."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from lakehouse.contracts.alerts import Rhythm
from lakehouse.operations.alerts import input_rules
from lakehouse.operations.alerts.alert import AlertKind, AlertSubject

UTC = ZoneInfo("UTC")
MONDAY = datetime(2024, 1, 1, tzinfo=timezone.utc)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
SALES = AlertSubject("sales", "sales", ["anna"])
TERMS = Rhythm()
Steps = list[tuple[datetime, "datetime | None"]]


def test_a_held_file_says_what_to_do() -> None:
    alert = input_rules.held_file(SALES, "a.csv", date(2024, 1, 5), MONDAY, "the gzip stream breaks off")
    assert alert.title == "a file is held: sales 2024-01-05"
    assert alert.text.startswith("a.csv of sales is held: the gzip stream breaks off. No number contains its rows. Replace it")
    other = input_rules.held_file(SALES, "b.csv", date(2024, 1, 5), MONDAY, None)
    assert alert.key != other.key
    assert "its reason was not recorded" in other.text


def test_files_that_failed_name_the_run_to_look_at() -> None:
    alert = input_rules.failed_ingestion(SALES, date(2024, 1, 5), MONDAY, "3 runs failed to ingest files of 2024-01-05")
    assert "Open the newest failed run of bronze/sales for 2024-01-05 in Dagster" in alert.text
    assert (alert.kind, alert.period, alert.addressed_to) == (AlertKind.FAILED_INGESTION, "2024-01-05", ["anna"])


def test_an_unfinished_day_is_tolerated_for_some_time_after_its_end_and_after_the_last_news() -> None:
    def judged(now: datetime, last_news: datetime = MONDAY) -> bool:
        day = input_rules.unfinished_day(SALES, date(2024, 1, 1), MONDAY + DAY, last_news, "no marker", 6 * HOUR, now)
        return day is not None

    assert not judged(MONDAY + 30 * HOUR)
    assert judged(MONDAY + 30 * HOUR + MINUTE)
    assert not judged(MONDAY + 30 * HOUR + MINUTE, last_news=MONDAY + 26 * HOUR), "files still come"
    assert judged(MONDAY + 32 * HOUR + MINUTE, last_news=MONDAY + 26 * HOUR)


def test_a_silent_source_is_held_against_its_own_rhythm() -> None:
    arrivals = [MONDAY + number * DAY for number in range(19) if (MONDAY + number * DAY).weekday() < 5]
    alert = input_rules.silent_source(SALES, arrivals, MONDAY + 23 * DAY, UTC, TERMS)
    assert alert is not None
    assert alert.since == MONDAY + 18 * DAY
    assert "since 2024-01-19 00:00 UTC, for 3 d: more than 2 times 1 d, its longest pause on a usual day" in alert.text
    assert "Saturdays, Sundays do not count: nothing arrives then." in alert.text
    assert input_rules.silent_source(SALES, arrivals, MONDAY + 22 * DAY, UTC, TERMS) is None


# The event-time watermark -------------------------------------------------------------------------------------------


def steps(*watermarks: float | None, every: timedelta = DAY) -> Steps:
    """A delivery at midnight of each day, and the watermark after it in days since the first of them."""
    return [(MONDAY + number * every, None if days is None else MONDAY + days * DAY) for number, days in enumerate(watermarks)]


def test_a_watermark_that_follows_its_deliveries_is_no_alert() -> None:
    assert input_rules.watermark_stalled(SALES, [], (), UTC, TERMS) is None
    assert input_rules.watermark_stalled(SALES, steps(*(day - 3 for day in range(20))), (), UTC, TERMS) is None


def test_a_watermark_that_deliveries_do_not_move_is_named_with_the_keys_that_hold_it() -> None:
    moving = [day - 3.0 for day in range(10)]
    assert input_rules.watermark_stalled(SALES, steps(*moving, 6, 6), (), UTC, TERMS) is None, "twice as long as usual"
    alert = input_rules.watermark_stalled(SALES, steps(*moving, 6, 6, 6), ["Berlin", "Oslo"], UTC, TERMS)
    assert alert is not None
    assert alert.since == MONDAY + 9 * DAY
    assert "stands at 2024-01-07 00:00 UTC and has not moved since 2024-01-10 00:00 UTC" in alert.text
    assert "It waits for Berlin, Oslo. Numbers after it do not become final." in alert.text
    assert alert.numbers["deliveries_since"] == 3


def test_silence_does_not_stall_it() -> None:
    """Time is that of arrivals: with nothing arriving the source is silent, and the watermark is not to blame."""
    moving = steps(*(day - 3 for day in range(10)))
    assert input_rules.watermark_stalled(SALES, moving, (), UTC, TERMS) is None


def test_many_deliveries_between_two_markers_are_usual() -> None:
    """One in 24 hourly deliveries moves it."""
    hourly = steps(*(hour // 24 for hour in range(24 * 12)), every=HOUR)
    for length in range(24 * 8, len(hourly)):
        assert input_rules.watermark_stalled(SALES, hourly[:length], (), UTC, TERMS) is None


def test_a_watermark_that_falls_further_and_further_back() -> None:
    slow = [day - 1.0 for day in range(10)] + [9 + number / 100 for number in range(1, 4)]
    alert = input_rules.watermark_stalled(SALES, steps(*slow), (), UTC, TERMS)
    assert alert is not None
    assert "is 2 d 23 h behind the newest arrival; usual are at most 1 d" in alert.text
    assert input_rules.watermark_stalled(SALES, steps(*slow[:-2]), (), UTC, TERMS) is None


def test_a_watermark_that_never_moved_alerts_after_some_days_of_arrivals() -> None:
    assert input_rules.watermark_stalled(SALES, steps(*[None] * 5), (), UTC, TERMS) is None
    alert = input_rules.watermark_stalled(SALES, steps(*[None] * 6), (), UTC, TERMS)
    assert alert is not None
    assert "has not moved yet, although 6 deliveries arrived" in alert.text
    assert alert.since == MONDAY
