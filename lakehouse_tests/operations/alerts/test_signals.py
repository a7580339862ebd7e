"""The conditions that alerts are derived from, read from tables. The tables are real and written without Spark."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from lakehouse import locations
from lakehouse.calendar.days import lateness
from lakehouse.calendar.periods import Kind as PeriodKind
from lakehouse.contracts import Catalog
from lakehouse.contracts.series import Series
from lakehouse.delta import row_writer
from lakehouse.gold.numbers import history, published_table
from lakehouse.gold.numbers.version_selector import SelectBy, UnknownVersionError, VersionSelector
from lakehouse.lateness import recent_lags
from lakehouse.ledger import ingestions
from lakehouse.ledger.ingestions import Ingestion
from lakehouse.live import batches as live_batches
from lakehouse.live.batches import LiveBatch
from lakehouse.operations.alerts import signals
from lakehouse.operations.alerts.alert import AlertKind
from lakehouse.serving import pending_changes
from lakehouse_tests.support.arrivals import append_to_bronze, at, bronze_row, rows_every
from lakehouse_tests.support.derived_numbers import DerivedNumbers, metrics, revenue, sessions
from lakehouse_tests.support.derived_numbers import day as numbers_of_day
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.late_lake import LateLake, late
from lakehouse_tests.support.numbers_without_spark import ScriptedNumbers, day, metric, without_spark
from lakehouse_tests.support.windowed_lake import TUMBLING, Event

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.operations.alerts.alert import Alert

TODAY = date(2024, 2, 20)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
LATE: dict[str, Any] = {"lateness": {"watermark": "PT2H", "alert_above": 0.1}, "owner": "anna"}


@pytest.fixture(autouse=True)
def _without_spark() -> Iterator[None]:
    with without_spark():
        yield


def of_source(lake: Lake, source: SourceContract) -> dict[AlertKind, Alert]:
    return {alert.kind: alert for alert in signals.of_source(lake, source)}


def kinds(lake: Lake, source: SourceContract) -> set[AlertKind]:
    return set(of_source(lake, source))


# Arrivals -----------------------------------------------------------------------------------------------------------


def test_an_empty_lake_says_nothing(lake: Lake) -> None:
    assert kinds(lake, contract(**LATE)) == set()


def test_an_hour_of_late_rows(lake: Lake) -> None:
    source = contract(**LATE)
    append_to_bronze(lake, source, rows_every(1, at(TODAY, 8), at(TODAY, 10), HOUR))
    assert kinds(lake, source) == set()
    append_to_bronze(lake, source, rows_every(1, at(TODAY, 10, 1), at(TODAY, 11, 50), 3 * HOUR))
    alert = of_source(lake, source)[AlertKind.LATE_SHARE]
    assert alert.addressed_to == ["anna"]
    assert alert.since == at(TODAY, 10, 7), "7 of 61 rows are over a tenth"
    assert alert.numbers["through"] == at(TODAY, 11, 50)
    append_to_bronze(lake, source, rows_every(1, at(TODAY, 11, 51), at(TODAY, 12, 45), HOUR))
    assert kinds(lake, source) == set()


def test_the_owner_hears_of_a_tier_that_more_rows_miss_than_it_tolerates(lake: Lake) -> None:
    tiers = [{"within": "PT1H", "serves": "live", "tolerated": 0.5}, {"within": "PT6H", "serves": "close", "tolerated": 0.1}]
    source = contract(owner="anna", lateness={"tiers": tiers}, alerts={"lag": None})
    append_to_bronze(lake, source, [bronze_row(at(TODAY, 8), lag) for lag in [7 * HOUR, *[HOUR] * 9]])
    assert kinds(lake, source) == set(), "a tenth is what the tier tolerates"
    append_to_bronze(lake, source, [bronze_row(at(TODAY, 9), lag) for lag in [7 * HOUR, HOUR]])
    (alert,) = signals.of_source(lake, source)
    assert (alert.kind, alert.detail, alert.addressed_to) == (AlertKind.TIER_SHARE, "close", ["anna"])
    assert alert.numbers == {
        "rows": 12,
        "late": 2,
        "share": 0.166667,
        "bound": 0.1,
        "within_seconds": 21_600.0,
        "serves": "close",
        "through": at(TODAY, 9),
    }
    assert "16.67% (2) came later than 6 h, the tier that serves 'close'; the contract tolerates 10.00%" in alert.text
    append_to_bronze(lake, source, [bronze_row(at(TODAY + DAY, 10), HOUR)])
    assert kinds(lake, source) == set(), "it is judged by the newest day of arrivals"


def test_without_a_bound_or_a_watermark_no_share_is_too_large(lake: Lake) -> None:
    late = rows_every(1, at(TODAY, 8), at(TODAY, 12), 3 * HOUR)
    append_to_bronze(lake, contract(), late)
    assert kinds(lake, contract(lateness={"watermark": "PT2H"})) == set()
    assert kinds(lake, contract(lateness={"alert_above": 0.1})) == set()
    assert kinds(lake, contract(lateness={"watermark": "PT2H"}, alerts={"late_share": {"above": 0.1}})) == {AlertKind.LATE_SHARE}
    assert kinds(lake, contract(lateness=LATE["lateness"], alerts={"late_share": None})) == set()


def test_the_watermark_of_its_type_is_what_a_row_is_held_against(lake: Lake) -> None:
    by = {"column": "change_op", "values": {"correct": {"watermark": "P7D"}}}
    source = contract(lateness={**LATE["lateness"], "by": by})
    append_to_bronze(lake, source, rows_every(1, at(TODAY, 8), at(TODAY, 10), 3 * HOUR, change_op="correct"))
    assert kinds(lake, source) == set()
    append_to_bronze(lake, source, rows_every(1, at(TODAY, 8), at(TODAY, 10), 3 * HOUR))
    assert kinds(lake, source) == {AlertKind.LATE_SHARE}


def test_rows_are_held_against_the_watermark_of_the_day_they_arrived_on(lake: Lake) -> None:
    append_to_bronze(lake, contract(), rows_every(1, at(TODAY, 8), at(TODAY, 12), 3 * HOUR))
    moved = {"since": TODAY + DAY, "watermark": "PT4H"}
    bounds = {**LATE["lateness"], "changes": [moved]}
    assert kinds(lake, contract(lateness=bounds)) == {AlertKind.LATE_SHARE}, "the new watermark is for later days"
    assert kinds(lake, contract(lateness={**bounds, "changes": [{**moved, "since": TODAY}]})) == set()


def test_malformed_rows_do_not_count_and_rows_without_event_time_are_not_late(lake: Lake) -> None:
    source = contract(**LATE, alerts={"late_share": {"needs_rows": 100}})
    append_to_bronze(lake, source, rows_every(1, at(TODAY, 8), at(TODAY, 9, 38), 3 * HOUR))  # 99 rows
    append_to_bronze(lake, source, [bronze_row(at(TODAY, 9), 3 * HOUR, malformed_reason="no amount")] * 50)
    assert kinds(lake, source) == set()
    append_to_bronze(lake, source, [bronze_row(at(TODAY, 8, 5), None)])
    assert of_source(lake, source)[AlertKind.LATE_SHARE].numbers["late"] == 99


def test_what_arrives_after_the_clock_has_not_arrived(lake: Lake) -> None:
    """A replay sees what it would have seen then; and a wrong clock of a source does not blind it."""
    source = contract(**LATE)
    append_to_bronze(lake, source, rows_every(1, at(TODAY, 8), at(TODAY, 10), 3 * HOUR))
    append_to_bronze(lake, source, [bronze_row(datetime(2099, 1, 1, tzinfo=timezone.utc), HOUR)])
    append_to_bronze(lake, source, [bronze_row(datetime(2099, 1, 1, tzinfo=timezone.utc), HOUR, arrival_date=TODAY)])
    assert of_source(lake, source)[AlertKind.LATE_SHARE].numbers["through"] == at(TODAY, 10)
    lake.settings.now = at(TODAY, 8, 59)
    assert kinds(lake, source) == set()


def test_arrivals_are_found_by_their_time_and_not_by_the_day_of_their_file(lake: Lake) -> None:
    """Files of old days that are taken in today, without an arrival time of their own, arrive today."""
    source = contract(**LATE)
    append_to_bronze(lake, source, rows_every(1, at(TODAY, 8), at(TODAY, 10), 3 * HOUR, arrival_date=TODAY - 300 * DAY))
    append_to_bronze(lake, source, rows_every(60, at(TODAY - 2 * DAY), at(TODAY - DAY), HOUR))
    assert kinds(lake, source) == {AlertKind.LATE_SHARE}


def test_a_lag_over_twice_the_baseline(lake: Lake) -> None:
    source = contract(owner="anna")
    append_to_bronze(lake, source, rows_every(10, at(TODAY - 7 * DAY), at(TODAY) - MINUTE, HOUR))
    append_to_bronze(lake, source, rows_every(10, at(TODAY), at(TODAY, 23, 50), 2 * HOUR))
    assert kinds(lake, source) == set(), "twice is not over twice"
    append_to_bronze(lake, source, [bronze_row(at(TODAY, 22), 2 * HOUR + timedelta(microseconds=1))])
    assert kinds(lake, source) == set(), "one row of 145 is above the p99"
    append_to_bronze(lake, source, [bronze_row(at(TODAY, 22), 2 * HOUR + timedelta(microseconds=1))])
    alert = of_source(lake, source)[AlertKind.LAG]
    assert alert.numbers == {
        "p99_seconds": 7200.000001,
        "baseline_seconds": 3600.0,
        "rows": 146,
        "baseline_rows": 7 * 144,
        "factor": 2.0,
    }
    assert (alert.since, alert.addressed_to) == (at(TODAY, 23, 50), ["anna"])
    assert kinds(lake, contract(alerts={"lag": None})) == set()
    assert kinds(lake, contract(alerts={"lag": {"factor": 3}})) == set()


def test_the_baseline_is_of_so_many_days_and_no_more(lake: Lake) -> None:
    source = contract()
    append_to_bronze(lake, source, rows_every(10, at(TODAY - 20 * DAY), at(TODAY - 7 * DAY) - MINUTE, 9 * HOUR))
    append_to_bronze(lake, source, rows_every(10, at(TODAY - 7 * DAY), at(TODAY) - MINUTE, HOUR))
    append_to_bronze(lake, source, rows_every(10, at(TODAY), at(TODAY, 23, 59), 3 * HOUR))
    assert AlertKind.LAG in kinds(lake, source)
    assert of_source(lake, source)[AlertKind.LAG].numbers["baseline_rows"] == 7 * 144
    assert kinds(lake, contract(alerts={"lag": {"days": 14}})) == set()


def test_only_the_files_of_the_time_looked_at_are_read(lake: Lake) -> None:
    source = contract(**LATE)
    for back in (100, 40, 5, 0):
        append_to_bronze(lake, source, rows_every(10, at(TODAY - back * DAY, 8), at(TODAY - back * DAY, 12), HOUR))
    old = [*Path(locations.bronze(lake, "events").address).glob("arrival_date=2023-11-12/*"), *_files(lake, TODAY - 40 * DAY)]
    assert len(old) == 2
    for file in old:
        file.write_bytes(b"nobody reads this")
    found = recent_lags.newest(lake, source, 7)
    assert found is not None
    assert len(found.rows) == 50


def _files(lake: Lake, arrival: date) -> list[Path]:
    found = list(Path(locations.bronze(lake, "events").address).glob(f"arrival_date={arrival}/*"))
    assert all(pq.read_metadata(file).num_rows for file in found)
    return found


EVENTS = st.one_of(st.none(), st.timedeltas(-DAY, 20 * DAY))


@pytest.mark.merge
@given(st.lists(st.tuples(st.integers(0, 20 * 24 * 60), EVENTS, st.booleans()), min_size=1, max_size=30))
@examples(max_examples=40)
def test_lags_are_those_of_admission(tmp_path_factory, arrivals: list[tuple[int, timedelta | None, bool]]) -> None:
    """Arrow's arithmetic over all rows is the domain's over one, also of an event day; a skewed row has none."""
    lake = lake_in(tmp_path_factory.mktemp("lags"))
    zone = ZoneInfo("Europe/Berlin")
    source = contract(clocks={"event": "event_time", "arrival": "arrived_at", "timezone": "Europe/Berlin"}, **LATE)
    rows = []
    for minute, lag, by_day in arrivals:
        row = bronze_row(at(TODAY - 21 * DAY) + minute * MINUTE, lag)
        rows.append(row | {"event_ts": None} if by_day else row)
    append_to_bronze(lake, source, rows)
    lags = recent_lags.newest(lake, source, 7)
    assert lags is not None
    newest = max(row["arrival_ts"] for row in rows)
    within = [row for row in rows if row["arrival_ts"] > newest - 8 * DAY]
    expected = [
        None
        if row["event_ts"] and row["event_ts"] > row["arrival_ts"]
        else lateness(row["event_ts"], row["event_date"], row["arrival_ts"], zone)
        for row in within
    ]
    measured = [None if lag is None else timedelta(microseconds=lag) for lag in lags.rows["lag"].to_pylist()]
    assert sorted(map(str, measured)) == sorted(map(str, expected))
    assert sum(lags.rows["late"].to_pylist()) == sum(lag is not None and lag > 2 * HOUR for lag in expected)
    known = sorted(lag for lag in expected if lag is not None)
    p99 = lags.p99(newest - 8 * DAY, newest)
    assert p99.rows == len(known)
    assert p99.lag == (known[-1] if known else None), "of fewer than a hundred the p99 is the greatest"


# Numbers ------------------------------------------------------------------------------------------------------------


def catalog(contracted: MetricContract) -> Catalog:
    return Catalog({"events": contract(owner="anna")}, {contracted.name: contracted})


def of_metric(numbers: ScriptedNumbers, kind: AlertKind) -> list[Alert]:
    found = signals.of_metric(numbers.lake, catalog(numbers.metric), numbers.metric)
    return [alert for alert in found if alert.kind is kind]


def test_nothing_published_is_no_failure(lake: Lake) -> None:
    numbers = ScriptedNumbers(lake, metric(alerts={"values": [{"measure": "total", "below": 1}]}))
    assert list(signals.of_metric(lake, catalog(numbers.metric), numbers.metric)) == []


def test_a_held_number_and_its_end(lake: Lake) -> None:
    numbers = ScriptedNumbers(lake, metric(checks={"change": [{"measure": "total", "absolute": 5}]}, owner="ben"))
    numbers.at(1)
    numbers.set(1, 10)
    numbers.publish()
    assert of_metric(numbers, AlertKind.HELD) == []
    numbers.set(1, 100)
    numbers.publish()
    [alert] = of_metric(numbers, AlertKind.HELD)
    assert (alert.subject, alert.period, alert.since) == ("total", "2024-01-01", lake.now())
    assert alert.addressed_to == ["anna", "ben"], "the source's owner first"
    assert "r2 is held: change: " in alert.text
    numbers.sign_off(1, 2)
    assert of_metric(numbers, AlertKind.HELD) == []


def test_a_number_that_is_not_finalized_in_time(lake: Lake) -> None:
    numbers = ScriptedNumbers(lake, metric(publication={"rollups": ["week"], "timezone": "America/New_York"}))
    numbers.at(1, 12)
    numbers.set(1, 10)
    numbers.publish()
    numbers.roll_up()
    numbers.at(4, 4)
    assert of_metric(numbers, AlertKind.OVERDUE) == [], "in New York it is the 3rd: one day behind the day on which it was due"
    numbers.at(4, 5)
    [alert] = of_metric(numbers, AlertKind.OVERDUE)
    assert (alert.subject, alert.period, alert.numbers["state"]) == ("total", "2024-01-01", "preliminary")
    assert alert.since == datetime(2024, 1, 2, 5, tzinfo=timezone.utc)
    numbers.close()
    assert of_metric(numbers, AlertKind.OVERDUE) == []
    numbers.at(11, 12)
    found = {alert.subject: alert for alert in of_metric(numbers, AlertKind.OVERDUE)}
    assert found["total"].text.startswith("total 2024-01-01 was due on 2024-01-08 and is not final yet")
    assert found["total_weekly"].period == "2024-W01"
    assert found["total_weekly"].numbers == {"due_on": date(2024, 1, 8), "state": "preliminary", "waiting_for": []}
    numbers.close()
    numbers.roll_up()
    assert of_metric(numbers, AlertKind.OVERDUE) == []


def test_an_overdue_number_names_what_it_waits_for(lake: Lake) -> None:
    numbers = ScriptedNumbers(lake, metric())
    numbers.set(1, 10)
    numbers.at(2)
    numbers.publish()
    review = pa.table({"event_date": [day(1)], "quarantine_status": ["open"]})
    row_writer.append(locations.quarantine(lake, "events"), review)
    numbers.at(11)
    [alert] = of_metric(numbers, AlertKind.OVERDUE)
    assert alert.numbers["waiting_for"] == ["1 row waits for a steward"]
    assert "is not final yet, because it waits: 1 row waits for a steward. Resolve this, or close it on your own" in alert.text
    numbers.close()
    assert [again.period for again in of_metric(numbers, AlertKind.OVERDUE)] == ["2024-01-01"]


@pytest.mark.parametrize("close_by", [7, 12])
def test_how_long_a_number_may_wait_is_the_contracts(lake: Lake, close_by: int) -> None:
    numbers = ScriptedNumbers(lake, metric(publication={"close_by": close_by}))
    numbers.set(1, 10)
    numbers.at(2)
    numbers.publish()
    review = pa.table({"event_date": [day(1)], "quarantine_status": ["open"]})
    row_writer.append(locations.quarantine(lake, "events"), review)
    numbers.at(1 + close_by, 23)
    assert of_metric(numbers, AlertKind.OVERDUE) == []
    numbers.at(2 + close_by)
    [alert] = of_metric(numbers, AlertKind.OVERDUE)
    assert "it waits: 1 row waits for a steward" in alert.text
    numbers.metric = metric(publication={"close_by": close_by, "final_needs": {"no_open_review": False}})
    numbers.at(9, 23)
    assert of_metric(numbers, AlertKind.OVERDUE) == [], "it waits for nothing"
    numbers.at(10)
    assert len(of_metric(numbers, AlertKind.OVERDUE)) == 1


def test_how_long_it_may_be_overdue_is_the_contracts(lake: Lake) -> None:
    numbers = ScriptedNumbers(lake, metric(alerts={"overdue_after": 0}))
    numbers.at(1)
    numbers.set(1, 10)
    numbers.publish()
    numbers.at(2, 23)
    assert of_metric(numbers, AlertKind.OVERDUE) == []
    numbers.at(3)
    assert len(of_metric(numbers, AlertKind.OVERDUE)) == 1


@pytest.mark.merge
def test_more_restatements_than_usual(lake: Lake) -> None:
    numbers = ScriptedNumbers(lake, metric(alerts={"restatements": {"needs": 1}}))
    numbers.at(1, 6)
    for number in (1, 2, 3):
        numbers.set(number, 1)
    numbers.publish()
    for number in (3, 10, 17, 24, 31):  # one a week
        numbers.at(number)
        numbers.set(1, number)
        numbers.publish(1)
    numbers.at(36, 7)
    assert of_metric(numbers, AlertKind.RESTATEMENTS) == [], "one a week is what is usual"
    for number in (2, 3):
        numbers.at(36, 7 + number)
        numbers.set(number, 7)
        numbers.publish(number)
    [alert] = of_metric(numbers, AlertKind.RESTATEMENTS)
    assert alert.numbers == {"restatements": 3, "weeks_before": [1, 1, 1, 1], "mean": 1.0, "bound": 1.0}
    assert alert.since == at(day(36), 9), "the second was one too many"
    assert "2024-01-01, 2024-01-02, 2024-01-03" in alert.text
    numbers.at(44)
    assert of_metric(numbers, AlertKind.RESTATEMENTS) == [], "a week later it is over"


def test_one_restatement_is_one_however_many_rows_it_has(lake: Lake) -> None:
    numbers = ScriptedNumbers(lake, metric(grain=["store"], alerts={"restatements": {"needs": 1}}))
    numbers.at(1)
    numbers.set(1, {"a": 1, "b": 1})
    numbers.publish()
    numbers.at(40)
    numbers.set(1, {"a": 2, "b": 2})
    numbers.publish()
    assert of_metric(numbers, AlertKind.RESTATEMENTS)[0].numbers["restatements"] == 1


def test_the_next_state_of_a_restated_number_is_no_second_restatement(lake: Lake) -> None:
    numbers = ScriptedNumbers(lake, metric(alerts={"restatements": {"needs": 1}}))
    numbers.at(1)
    numbers.set(1, 1)
    numbers.publish()
    numbers.at(40)
    for value in (1, 2):
        numbers.set(40, value)
        numbers.publish(40)
    numbers.at(41)
    numbers.close()
    assert numbers.history(40)[-1] == ("r3", 2, "preliminary", True)
    assert of_metric(numbers, AlertKind.RESTATEMENTS)[0].numbers["restatements"] == 1


def test_adjustments_restate_too(lake: Lake) -> None:
    numbers = ScriptedNumbers(lake, metric(publication={"after_close": "adjust"}, alerts={"restatements": {"needs": 1}}))
    numbers.at(1)
    numbers.set(1, 1)
    numbers.publish()
    numbers.at(40)
    numbers.close()
    assert of_metric(numbers, AlertKind.RESTATEMENTS) == [], "a change of state restates nothing"
    numbers.set(1, 2)
    numbers.publish()
    [alert] = of_metric(numbers, AlertKind.RESTATEMENTS)
    assert alert.period is None
    assert alert.numbers["restatements"] == 1


VALUES: dict[str, Any] = {"alerts": {"values": [{"measure": "total", "below": 100}], "restatements": None}}


def test_a_live_value_alerts_when_clearly_below_and_a_final_one_when_below(lake: Lake) -> None:
    numbers = ScriptedNumbers(lake, metric(**VALUES, owner="ben"))
    numbers.at(1, 12)
    numbers.set(1, 90)
    numbers.publish()
    assert of_metric(numbers, AlertKind.VALUE) == []
    numbers.set(1, 89)
    numbers.publish()
    [alert] = of_metric(numbers, AlertKind.VALUE)
    assert alert.addressed_to == ["anna", "ben"]
    assert "The number is live (r2)" in alert.text
    numbers.set(1, 95)
    numbers.publish()
    assert of_metric(numbers, AlertKind.VALUE) == []
    numbers.at(8)
    numbers.close()
    [alert] = of_metric(numbers, AlertKind.VALUE)
    assert alert.text == "total of total 2024-01-01 is 95: below 100. The number is final (r4)."
    numbers.at(16)
    assert of_metric(numbers, AlertKind.VALUE) == [], "a final number is looked at for a week"
    numbers.set(1, 94)
    numbers.publish()
    assert "(r5)" in of_metric(numbers, AlertKind.VALUE)[0].text, "and so is what it is restated to"


def test_values_of_some_rows_of_the_grain(lake: Lake) -> None:
    bound = {"measure": "total", "below": 10, "where": {"store": "b"}}
    numbers = ScriptedNumbers(lake, metric(grain=["store"], alerts={"values": [bound]}))
    numbers.at(1)
    numbers.set(1, {"a": 1, "b": 50})
    numbers.set(2, {"a": 50})
    numbers.publish()
    assert of_metric(numbers, AlertKind.VALUE) == []
    numbers.set(1, {"a": 50, "b": 1})
    numbers.publish()
    [alert] = of_metric(numbers, AlertKind.VALUE)
    assert (alert.period, alert.detail) == ("2024-01-01", "total below 10 store=b")
    assert "is 1 for store b: below 10" in alert.text


def test_the_values_of_a_roll_up_have_bounds_of_their_own(lake: Lake) -> None:
    bounds = [{"measure": "total", "below": 100, "by": "week"}, {"measure": "total", "below": 3}]
    numbers = ScriptedNumbers(lake, metric(publication={"rollups": ["week"]}, alerts={"values": bounds, "restatements": None}))
    numbers.at(2)
    numbers.set(1, 5)
    numbers.set(2, 6)
    numbers.publish()
    numbers.roll_up()
    [alert] = of_metric(numbers, AlertKind.VALUE)
    assert (alert.period, alert.detail) == ("2024-W01", "total below 100 by week")
    assert "is 11: below 100" in alert.text


HOURLY: dict[str, Any] = {"window": {"size": "PT1H"}, "live": True, "publication": {"final_after": 2}}


def test_the_value_of_an_hour_has_the_bound_of_its_metric(lake: Lake) -> None:
    bound = {"measure": "total", "below": 10}
    numbers = ScriptedNumbers(lake, metric("hourly", **HOURLY, alerts={"values": [bound], "restatements": None}))
    numbers.at(1, 12)
    numbers.set_hours(1, {9: 50, 10: 2})
    numbers.publish()
    [alert] = of_metric(numbers, AlertKind.VALUE)
    assert "total of hourly 2024-01-01 is 2 for window_start 2024-01-01T10: below 10" in alert.text


def test_a_number_of_the_stream_has_the_bound_of_its_metric_until_its_day_is_final(lake: Lake) -> None:
    bounds = [{"measure": "total", "below": 10, "above": 100}]
    numbers = ScriptedNumbers(lake, metric("hourly", **HOURLY, alerts={"values": bounds, "restatements": None}))
    numbers.at(1, 11)
    numbers.stream_hours(1, {9: 50, 10: 2}, passed=10)
    assert of_metric(numbers, AlertKind.VALUE) == [], "the hour from 10 on is still open, and grows"
    numbers.stream_hours(1, {10: 111}, batch=1, passed=10)
    [alert] = of_metric(numbers, AlertKind.VALUE)
    assert "is 111 for window_start 2024-01-01T10: above 100, and clearly so: by more than 10%" in alert.text
    assert alert.text.endswith("It is the number of the stream, which is not published.")
    assert (alert.period, alert.detail) == ("2024-01-01", "total below 10 above 100, of the stream")
    assert (alert.numbers["state"], alert.numbers["revision"]) == ("live", None)
    numbers.stream_hours(1, {10: 2}, batch=2, passed=11)
    [alert] = of_metric(numbers, AlertKind.VALUE)
    assert "is 2 for window_start 2024-01-01T10: below 10" in alert.text, "no more rows count in it"
    numbers.set_hours(1, {9: 50, 10: 2})
    numbers.publish()
    [alert] = of_metric(numbers, AlertKind.VALUE)
    assert "The number is live (r1)" in alert.text, "readers see the published number: one alert is enough"
    numbers.set_hours(1, {9: 50, 10: 20})
    numbers.at(4)
    numbers.publish()
    assert of_metric(numbers, AlertKind.VALUE) == [], "the day is final"


def test_a_bound_of_a_period_that_the_metric_does_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match="the metric has no numbers by month"):
        metric(publication={"rollups": ["week"]}, alerts={"values": [{"measure": "total", "below": 1, "by": "month"}]})


@pytest.mark.parametrize("at_close", ["include", "exclude"])
def test_rows_that_come_too_late_to_count_alert_by_their_share(lake: Lake, at_close: str) -> None:
    terms = {"late_dropped": {"above": 0.2, "needs_rows": 5}, "restatements": None}
    sample = LateLake(lake, None, [late({**TUMBLING, "alerts": terms}, "recompute", 0, at_close=at_close)])
    [hourly] = sample.metrics

    def dropped() -> list[Alert]:
        found = signals.of_metric(lake, sample.catalog, hourly)
        return [alert for alert in found if alert.kind is AlertKind.LATE_DROPPED]

    sample.classify_at(0, Event("a", 5), Event("push", 150))
    sample.classify_at(1, Event("beyond", 10))
    assert dropped() == [], "three rows are few"
    sample.classify_at(2, Event("b", 151), Event("c", 152))
    assert dropped() == [], "a fifth is tolerated"
    sample.classify_at(3, Event("beyond too", 11))
    [alert] = dropped()
    assert "2 of the 6 rows of 2024-10-31 came too late to count in hourly: 33.33%, and 20.00% is tolerated" in alert.text
    assert ("They count when their days are final" in alert.text) == (at_close == "include")
    assert "lakehouse lateness admit hourly" in alert.text


# What a tick looks at first -----------------------------------------------------------------------------------------


def test_the_name_of_the_state_changes_with_what_alerts_depend_on(lake: Lake) -> None:
    contracted = metric(publication={"rollups": ["week"]}, checks={"change": [{"measure": "total", "absolute": 5}]})
    numbers = ScriptedNumbers(lake, contracted)
    numbers.at(1)
    seen = [signals.state_of(lake, catalog(contracted))]

    def moved() -> bool:
        seen.append(signals.state_of(lake, catalog(contracted)))
        return seen[-1] not in seen[:-1]

    append_to_bronze(lake, contract(), [bronze_row(at(TODAY), HOUR)])
    assert moved()
    numbers.set(1, 10)
    numbers.publish()
    assert moved()
    numbers.roll_up()
    assert moved()
    numbers.set(1, 100)
    numbers.publish()
    assert moved(), "held"
    numbers.at(1, 1)
    assert moved(), "another hour"
    assert signals.state_of(lake, catalog(metric(**VALUES))) not in seen, "another contract"
    assert not moved()
    assert Series(contracted, PeriodKind.WEEK).name == "total_weekly"


def test_rows_that_the_stream_drops_alert_by_their_share(lake: Lake) -> None:
    """The published number has them; the alert is about the newest arrival day that the stream has read."""
    terms = {"late_dropped": {"above": 0.2, "needs_rows": 4}, "restatements": None}
    hourly, source = metric("hourly", **HOURLY, alerts=terms), contract(owner="anna")
    lags = enumerate([MINUTE] * 3 + [3 * HOUR])
    rows = [bronze_row(at(TODAY, 12), lag, ingestion_id="file", line_number=line) for line, lag in lags]
    append_to_bronze(lake, source, rows)
    entry = Ingestion("events", "file", "hash", TODAY, "one.csv", 1, None, "ingested", "run", at(TODAY, 12), rows=4)
    ingestions.record(lake, entry)

    def alerts() -> list[Alert]:
        found = signals.of_metric(lake, Catalog({"events": source}, {"hourly": hourly}), hourly)
        return [alert for alert in found if alert.kind is AlertKind.LATE_DROPPED]

    assert alerts() == [], "no stream has read them"
    read = LiveBatch("hourly", "q", 1, "file", 0, 3, at(TODAY, 11), None, 1, at(TODAY, 12))
    live_batches.record(lake, [read])
    [alert] = alerts()
    assert (alert.detail, alert.period, alert.numbers["dropped"], alert.numbers["rows"]) == ("the stream", f"{TODAY}", 1, 4)
    assert "1 of the 4 rows of 2024-02-20 came too late for the stream of hourly: 25.00%, and 20.00% is tolerated" in alert.text
    assert "lakehouse lateness rows hourly --live" in alert.text


def test_a_derived_number_that_an_input_without_rows_holds_back_is_overdue_for_a_week(lake: Lake) -> None:
    known = metrics()
    numbers = DerivedNumbers(lake, cast("SparkSession", None), known)
    of_derived = Catalog({"events": contract(owner="anna")}, known)
    series = numbers.series()

    def overdue() -> list[Alert]:
        return [alert for alert in signals.of_metric(lake, of_derived, known["conversion"]) if alert.kind is AlertKind.OVERDUE]

    numbers.at(2)
    for number in (1, 2):
        numbers.publish("revenue", {numbers_of_day(number): revenue(north=10)})
    numbers.publish("sessions", {numbers_of_day(1): sessions(north=2)})
    assert published_table.lacking_inputs(lake, series) == {numbers_of_day(2): ["sessions"]}
    numbers.at(4)
    assert overdue() == []
    numbers.at(5, 0)
    [alert] = overdue()
    assert (alert.subject, alert.period) == ("conversion", "2024-02-06")
    assert alert.text == (
        "conversion 2024-02-06 was due on 2024-02-07 and has not been published at all, because it waits: sessions has no number "
        "of 2024-02-06. An input has none for a period without rows: deliver them, or read the sources in one metric with "
        "'sources'."
    )
    numbers.at(11, 0)
    assert overdue() == [alert]
    numbers.at(12, 0)
    assert overdue() == []
    numbers.at(5, 0)
    numbers.publish("sessions", {numbers_of_day(2): sessions(north=2)})
    assert published_table.lacking_inputs(lake, series) == {}
    assert overdue() == []


def test_where_a_derived_number_would_stand_its_missing_input_is_named(lake: Lake) -> None:
    numbers = DerivedNumbers(lake, cast("SparkSession", None), metrics())
    numbers.at(2)
    numbers.publish("revenue", {numbers_of_day(2): revenue(north=10)})
    series = numbers.series()
    expected = (
        "nothing of conversion has been published for 2024-02-06: sessions has no number of 2024-02-06, and an input has none "
        "for a period without rows"
    )
    with pytest.raises(UnknownVersionError, match=f"^{expected}$"):
        history.version(lake, series, series.period(numbers_of_day(2)), VersionSelector(SelectBy.LATEST, "latest"))
    shown = pending_changes.uncomputed(lake, series, None)
    assert f"nothing of conversion has been published for 2024-02-06: {shown[numbers_of_day(2)]}" == expected
    with pytest.raises(UnknownVersionError, match=r"^nothing of conversion has been published for 2024-02-07$"):
        history.version(lake, series, series.period(numbers_of_day(3)), VersionSelector(SelectBy.LATEST, "latest"))
