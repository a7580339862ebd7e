"""Sessions against a plain model: any order of events, over midnights and a clock change, joined and split by late ones."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import example, given
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lakehouse import locations
from lakehouse.contracts import derived as derived_contracts
from lakehouse.contracts.series import Series
from lakehouse.contracts.windows import SessionWindow
from lakehouse.gold.numbers.published_table import TIME
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.restatement import derived, silver_rows
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.spark import dataframes
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.laws import law
from lakehouse_tests.support.united_lake import metric
from lakehouse_tests.support.windowed_lake import CORNERS, DAYS, FIRST, SESSIONS, ZONE, Event, WindowedLake, sendings, sessions_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lakehouse.lake import Lake

pytestmark = pytest.mark.spark

_MINUTES = DAYS * 24 * 60
#: By user and first moment of a session, its measures and number of rows.
_Sessions = dict[tuple[str, datetime], tuple[int, ...]]


def day_of(moment: datetime) -> int:
    """The number of the day that a moment lies in."""
    return (moment.astimezone(ZoneInfo(ZONE)).date() - FIRST).days


def published(sample: WindowedLake) -> _Sessions:
    """What readers see."""
    series = Series(sample.metrics[0])
    numbers = locations.gold(sample.lake, series).read()
    rows = [] if numbers is None else numbers.to_pylist()
    return {
        (row["user"], row["window_start"]): tuple(row[name] for name in series.numbers)
        for row in rows
        if row["is_latest"] and row["row_count"]
    }


def by_model(events: list[Event]) -> _Sessions:
    return {
        session: (1, sum(event.amount for event in of_it), of_it[-1].at - of_it[0].at, len(of_it))
        for session, of_it in sessions_of(events, 6 * 60).items()
    }


def frame(spark: Any, events: list[Event]) -> DataFrame:
    columns = {
        "id": [event.key for event in events],
        "user": [event.user for event in events],
        "event_ts": pa.array([event.moment for event in events], TIME),
        "event_date": [event.moment.astimezone(ZoneInfo(ZONE)).date() for event in events],
    }
    return dataframes.local(spark, pa.table(columns))


def many_users(seed: int, gap: int) -> list[Event]:
    """The events of 600 users, some of whom never pause for days."""
    draw = random.Random(seed)
    events = []
    for user in range(600):
        at, pace = draw.randrange(_MINUTES), draw.choice([gap // 2, gap, 2 * gap])
        while at < _MINUTES and draw.random() < 0.97:
            events.append(Event(f"{len(events)}", at, user=f"{user}"))
            at += draw.choice([0, 1, gap, gap + 1, draw.randrange(1, 2 * pace)])
    return draw.sample(events, len(events))


@pytest.mark.merge
@pytest.mark.parametrize("gap", [30, 6 * 60, 23 * 60])
def test_the_sessions_of_many_users_are_those_of_the_model_and_up_to_two_days_those_of_spark(spark: Any, gap: int) -> None:
    events = many_users(gap, gap)
    window = SessionWindow(gap=timedelta(minutes=gap), key=["user"], timezone=ZONE)
    rows = silver_rows.with_windows(frame(spark, events), window).toArrow().to_pylist()
    model = sessions_of(events, gap)
    assert {(row["id"], row["window_start"]) for row in rows} == {
        (event.key, start) for (_, start), of_it in model.items() for event in of_it
    }
    assert all((row["event_date"] - FIRST).days == day_of(row["window_start"]) for row in rows)
    # Spark's own sessions end where a pause is as long as the gap, ours where it is longer.
    just_longer = f"{gap * 60 * 1000 + 1} milliseconds"
    grouped = frame(spark, events).groupBy("user", F.session_window("event_ts", just_longer).alias("session")).count()
    theirs = {(row["user"], row["session"]["start"]): row["count"] for row in grouped.toArrow().to_pylist()}
    cut = {session for session in theirs if len(model[session]) != theirs[session]}
    assert len(cut) < len(theirs) / 2
    assert all(day_of(model[session][-1].moment) == day_of(session[1]) + 1 for session in cut), "they last over a whole day"


def test_the_sessions_of_a_day_need_its_neighbours_only(spark: Any) -> None:
    events, gap = many_users(1, 6 * 60), 6 * 60
    window = SessionWindow(gap=timedelta(minutes=gap), key=["user"], timezone=ZONE)
    wanted = 2
    near = [event for event in events if wanted - window.days_before <= day_of(event.moment) <= wanted + window.days_behind]
    rows = (
        silver_rows.with_windows(frame(spark, near), window)
        .where(F.col("event_date") == FIRST + timedelta(days=wanted))
        .toArrow()
    )
    assert {(row["id"], row["window_start"]) for row in rows.to_pylist()} == {
        (event.key, start) for (_, start), of_it in sessions_of(events, gap).items() for event in of_it if day_of(start) == wanted
    }


def test_a_row_without_a_time_stays_once_and_ends_no_session(spark: Any) -> None:
    columns = {
        "user": ["u", "u", "u"],
        "event_ts": pa.array([Event("a", 0).moment, None, Event("a", 60).moment], TIME),
        "event_date": [FIRST, FIRST, FIRST],
    }
    window = SessionWindow(gap=timedelta(hours=1), key=["user"], timezone=ZONE)
    placed = silver_rows.with_windows(dataframes.local(spark, pa.table(columns)), window).toArrow().to_pylist()
    assert sorted((row["event_date"], f"{row['window_start']}") for row in placed) == [
        (FIRST, "2024-10-24 22:00:00+00:00"),
        (FIRST, "2024-10-24 22:00:00+00:00"),
        (FIRST, "None"),
    ]


def test_rows_of_nobody_are_no_session_and_count_once_on_their_own_day(spark: Any) -> None:
    users, minutes = ["u", None, None, None, "u"], [0, 10, 20, 24 * 60 + 5, 50]
    moments = [Event("a", minute).moment for minute in minutes]
    days = [moment.astimezone(ZoneInfo(ZONE)).date() for moment in moments]
    columns = {"id": list("abcde"), "user": users, "event_ts": pa.array(moments, TIME), "event_date": days}
    window = SessionWindow(gap=timedelta(hours=23), key=["user"], timezone=ZONE)
    placed = silver_rows.with_windows(dataframes.local(spark, pa.table(columns)), window).toArrow().to_pylist()
    assert sorted((row["id"], row["event_date"], row["window_start"]) for row in placed) == [
        ("a", FIRST, moments[0]),
        ("b", FIRST, None),
        ("c", FIRST, None),
        ("d", FIRST + timedelta(days=1), None),
        ("e", FIRST, moments[0]),
    ]


@pytest.mark.merge
def test_a_late_event_joins_two_sessions_over_midnight_and_its_deletion_splits_them(lake: Lake, spark: Any) -> None:
    sample = WindowedLake(lake, spark, [metric(SESSIONS)])
    # From 18:00 to 22:00 on the second day, and from 05:00 on the third.
    sample.send(Event("a", 42 * 60), Event("b", 46 * 60), Event("c", 53 * 60), Event("other", 53 * 60, user="v"))
    apart = published(sample)
    assert sample.send(Event("late", 50 * 60, 10)) == [{FIRST + timedelta(days=1), FIRST + timedelta(days=2)}]
    assert published(sample) == by_model(sample.living())
    assert len(published(sample)) == len(apart) - 1
    assert sample.send(Event("late", 50 * 60, op="delete")) == [{FIRST + timedelta(days=1), FIRST + timedelta(days=2)}]
    assert published(sample) == apart
    assert sample.send(Event("d", 56 * 60)) == [{FIRST + timedelta(days=2)}], "it extends a session of its own day"
    assert sample.unlike_published() == []


@pytest.mark.merge
def test_the_sessions_of_a_day_are_added_up_by_a_derived_metric(lake: Lake, spark: Any) -> None:
    measures = [
        {"name": "visits", "sql": "sessions.sessions", "type": "bigint"},
        {"name": "mean", "sql": "sessions.total / sessions.sessions", "type": "decimal(10,2)"},
    ]
    visits = metric({"metric": "visits", "from": ["sessions"], "measures": measures})
    sample = WindowedLake(lake, spark, [metric(SESSIONS)])
    sample.send(Event("a", 10), Event("b", 20), Event("c", 20 * 60), Event("d", 10, user="v"), Event("next", 25 * 60))
    definitions, unfit = derived_contracts.resolved({"sessions": sample.metrics[0], "visits": visits})
    assert not unfit
    series = Series(definitions["visits"])
    derived.restate(lake, series, sample.session, [FIRST], Run("run"))
    (row,) = locations.gold(lake, series).read().to_pylist()
    assert (row["visits"], f"{row['mean']}") == (3, "1.67"), "the last session of the day goes on over midnight"


@law(25)
@example(files=CORNERS)
@given(files=sendings())
def test_any_history_gives_the_sessions_of_the_model_and_restates_what_changed(tmp_path_factory, spark, files) -> None:
    sample = WindowedLake(lake_in(tmp_path_factory.mktemp("lake")), spark, [metric(SESSIONS)])
    for events in files:
        before = published(sample)
        (restated,) = sample.send(*events)
        after = published(sample)
        assert after == by_model(sample.living())
        changed = {start for user, start in {**before, **after} if before.get((user, start)) != after.get((user, start))}
        assert {start.astimezone(ZoneInfo(ZONE)).date() for start in changed} == restated
    assert find_pending(sample.lake, Series(sample.metrics[0])).starts == set()
    assert sample.unlike_published() == []
