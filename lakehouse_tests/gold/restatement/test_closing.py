"""Final means complete (rule R13): what a period waits for, and that nothing is frozen before it has come."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse import locations
from lakehouse.calendar.periods import Kind
from lakehouse.delta import row_writer
from lakehouse.gold.numbers.lifecycle import State, state_on, today
from lakehouse.gold.restatement import closing
from lakehouse.gold.restatement.pending import find_due
from lakehouse.lake import Lake
from lakehouse.lateness import missing_inputs
from lakehouse.ledger import ingestions
from lakehouse.ledger.ingestions import Ingestion, UnreadRows
from lakehouse.settings import Settings
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.laws import law
from lakehouse_tests.support.numbers_without_spark import ScriptedNumbers, day, lawful_versions, metric, without_spark

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
WATCHED = {"event": "event_time", "arrival": "arrived_at", "watermark": {"strategy": "bounded", "max_lateness": "PT6H"}}
TIERS = {"tiers": [{"within": "P1D", "serves": "daily numbers"}, {"within": "P3D", "serves": "weekly numbers"}]}


@pytest.fixture(autouse=True)
def _without_spark() -> Iterator[None]:
    with without_spark():
        yield


def numbers_of(lake: Lake, terms: dict[str, Any] | None = None, **source: Any) -> ScriptedNumbers:
    """A metric of a watched source that is final two days after each day, if nothing is missing."""
    publication = {"final_after": 2} | (terms or {})
    return ScriptedNumbers(lake, metric(publication=publication), source=contract(**{"clocks": WATCHED} | source))


def midnight(number: int) -> datetime:
    return datetime.fromisoformat(f"{day(number)}T00:00:00+00:00")


def deliver(numbers: ScriptedNumbers, number: int, happened: datetime | None, status: str = "ingested", name: str = "") -> None:
    """A file that arrives at 23:00 of a day, and its newest event."""
    arrived, name = midnight(number + 1) - HOUR, name or f"{number}.csv"
    entry = Ingestion(
        *("events", f"{name} {number}", f"{name} {number}", day(number), name, 1, None, status, "run", arrived),  # type: ignore[arg-type]
        newest_arrival=arrived if happened else None,
        newest_event=min(happened, arrived) if happened else None,
    )
    ingestions.record(numbers.lake, entry)


def wait(numbers: ScriptedNumbers, *days: int, status: str = "open") -> None:
    """Rows of days that are with a steward."""
    table = locations.quarantine(numbers.lake, "events")
    rows = pa.table({"event_date": [day(number) for number in days], "quarantine_status": [status] * len(days)})
    row_writer.append(table, rows)


def cannot_read(numbers: ScriptedNumbers, number: int, *days: int) -> None:
    """A file that arrives on a day with a row of each of some days, and a row of each that is malformed."""
    name, arrived = f"unread {number}", midnight(number + 1) - HOUR
    entry = Ingestion(
        *("events", name, name, day(number), f"{name}.csv", 1, None, "ingested", "run", arrived),  # type: ignore[arg-type]
        rows=2 * len(days),
        malformed=len(days),
        touched_days=[day(other) for other in days],
        touched_rows=[1] * len(days),
    )
    ingestions.record(numbers.lake, entry)
    unread = UnreadRows(
        *("events", name, day(number)),
        malformed=len(days),
        days=[day(other) for other in days],
        rows=[1] * len(days),
        line_number=3,
        reason="amount: 'x' is not an integer",
        recorded_at=arrived,
    )
    ingestions.record_unread(numbers.lake, [unread])


def waits_for(numbers: ScriptedNumbers, number: int, kind: Kind = Kind.DAY) -> list[str]:
    series = replace(numbers.series, kind=kind)
    period = series.period(day(number))
    limit = closing.limits(numbers.lake, numbers.source, series, [period]).get(period.start)
    return list(limit.waits_for) if limit else []


def state_of(numbers: ScriptedNumbers, number: int) -> str:
    return numbers.history(number)[-1][2]


def test_a_silent_source_keeps_its_numbers_open_and_the_watermark_closes_them(lake: Lake) -> None:
    numbers = numbers_of(lake, {"closes_with": {"day": "daily numbers"}}, lateness=TIERS)
    numbers.set(1, 5)
    deliver(numbers, 1, midnight(2) - HOUR)  # the watermark stands at 17:00
    for number, state in ((1, "live"), (2, "live"), (9, "live")):
        numbers.at(number, 23)
        numbers.publish()
        assert state_of(numbers, 1) == state
    [reason] = waits_for(numbers, 1)
    assert reason == (
        "the watermark of events stands at 2024-01-01 17:00 UTC and has to pass 2024-01-03 00:00 UTC; "
        "nothing newer than 2024-01-01 23:00 UTC has arrived"
    )
    assert find_due(lake, numbers.source, numbers.series) == []
    deliver(numbers, 10, midnight(2) + 7 * HOUR)  # past the day, not past its tier
    numbers.at(11)
    assert find_due(lake, numbers.source, numbers.series) == [day(1)]
    numbers.close()
    assert state_of(numbers, 1) == "preliminary"
    assert find_due(lake, numbers.source, numbers.series) == []
    deliver(numbers, 11, midnight(3) + 6 * HOUR)
    numbers.at(12)
    assert waits_for(numbers, 1) == []
    numbers.close()
    assert state_of(numbers, 1) == "final"


def test_the_calendar_is_the_earliest_moment(lake: Lake) -> None:
    numbers = numbers_of(lake)
    numbers.set(1, 5)
    deliver(numbers, 2, midnight(2) + 9 * HOUR)
    for number, state in ((1, "live"), (2, "preliminary"), (3, "final")):
        numbers.at(number, 23)
        numbers.publish()
        assert state_of(numbers, 1) == state


@pytest.mark.parametrize(
    ("window", "ends"),
    [(1, 2), (7, 2), ({"size": "PT1H"}, 2), ({"size": "PT6H", "every": "PT3H"}, 3), ({"gap": "PT3H", "key": "id"}, 3)],
)
def test_a_day_waits_for_the_windows_that_begin_in_it(lake: Lake, window: Any, ends: int) -> None:
    numbers = ScriptedNumbers(lake, metric(window=window), source=contract(clocks=WATCHED))
    period = numbers.series.period(day(1))
    assert closing.end_of(numbers.series, numbers.source, period, None, []).at == midnight(ends)
    assert closing.completeness(lake, numbers.source, numbers.series, [period]).end_of(period) == midnight(ends)


@pytest.mark.parametrize(
    "need", ["watermark", "no_held_file", "no_open_review", "no_unfinished_day", "no_failed_ingestion", "no_unread_row"]
)
def test_each_need_holds_a_number_open_and_can_be_switched_off(lake: Lake, need: str) -> None:
    numbers = numbers_of(lake)
    numbers.set(1, 5)
    if need != "watermark":
        deliver(numbers, 2, midnight(3))
    if need == "no_held_file":
        deliver(numbers, 3, None, "held", "broken.csv")
    if need == "no_open_review":
        wait(numbers, 1, 1)
    if need in ("no_unfinished_day", "no_failed_ingestion"):
        missing_inputs.record(lake, "events", need.removeprefix("no_"), {day(2): f"{need}, said the sensor"})  # type: ignore[arg-type]
    if need == "no_unread_row":
        cannot_read(numbers, 2, 1)
    numbers.at(5)
    [reason] = waits_for(numbers, 1)
    told = {"watermark": "has not moved yet", "no_held_file": "held: broken.csv", "no_open_review": "2 rows wait"}
    told["no_unread_row"] = (
        "1 row could not be read: amount: 'x' is not an integer (unread 2.csv:3); 'lakehouse rows events --malformed' lists them"
    )
    assert told.get(need, f"{need}, said the sensor") in reason
    numbers.publish()
    assert state_of(numbers, 1) == ("live" if need == "watermark" else "preliminary")
    numbers.metric = metric(publication={"final_after": 2, "final_needs": {need: False}})
    assert find_due(lake, numbers.source, numbers.series) == [day(1)]
    numbers.close()
    assert state_of(numbers, 1) == "final"


def test_what_cannot_concern_a_period_does_not_hold_it(lake: Lake) -> None:
    numbers = numbers_of(lake)
    deliver(numbers, 9, midnight(10))
    deliver(numbers, 3, None, "held", "broken.csv")
    wait(numbers, 5)
    wait(numbers, 6, status="accepted")
    assert [bool(waits_for(numbers, number)) for number in (3, 4, 5, 6)] == [True, False, True, False]


def test_as_many_unread_rows_as_the_source_tolerates_hold_nothing(lake: Lake) -> None:
    numbers = numbers_of(lake, quality={"malformed": {"tolerated": 0.5}})
    deliver(numbers, 4, midnight(5))
    cannot_read(numbers, 2, 1)
    assert waits_for(numbers, 1) == []
    cannot_read(numbers, 3, 1, 2)
    assert [waits_for(numbers, number) for number in (1, 2)] == [[], []]
    numbers.source = numbers_of(lake, quality={"malformed": {"tolerated": 0.49}}).source
    assert [text[:5] for number in (1, 2, 3) for text in waits_for(numbers, number)] == ["2 row", "1 row"]


def test_what_has_been_mended_no_longer_holds_a_period(lake: Lake) -> None:
    numbers = numbers_of(lake)
    deliver(numbers, 3, None, "held", "broken.csv")
    deliver(numbers, 4, midnight(5))
    assert waits_for(numbers, 1) == ["held: broken.csv"]
    numbers.at(5)
    ingestions.record(
        lake,
        Ingestion("events", "mended", "mended", day(3), "broken.csv", 2, None, "ingested", "run", midnight(6)),
    )
    assert waits_for(numbers, 1) == []


def test_a_longer_period_is_never_final_before_its_days(lake: Lake) -> None:
    numbers = numbers_of(lake, {"rollups": ["week"], "closes_with": {"week": "weekly numbers"}}, lateness=TIERS)
    for number in range(1, 8):
        numbers.set(number, number)
    deliver(numbers, 14, midnight(15))
    wait(numbers, 3)
    numbers.at(15)
    numbers.publish()
    numbers.roll_up()
    week = replace(numbers.series, kind=Kind.WEEK)
    assert waits_for(numbers, 3, Kind.WEEK) == ["1 row waits for a steward", "not final yet: 2024-01-03"]
    assert numbers.history(3, week)[-1][2] == "preliminary"
    row_writer.upsert(
        locations.quarantine(lake, "events"),
        pa.table({"event_date": [day(3)], "quarantine_status": ["rejected"]}),
        ["event_date"],
    )
    assert waits_for(numbers, 3, Kind.WEEK) == ["not final yet: 2024-01-03"]
    numbers.close()
    numbers.roll_up()
    assert numbers.history(3, week)[-1][2] == "final"


#: What happens on a day of a source: the hour up to which its events arrive that day (None: silence), a held file, a review.
HISTORIES = st.lists(
    st.tuples(st.none() | st.integers(-30, 23), st.booleans(), st.booleans(), st.booleans()), min_size=4, max_size=9
)


@law(100, in_each_run=2)
@given(history=HISTORIES, adjusts=st.booleans())
def test_a_number_is_final_when_nothing_is_missing_and_stays_final(
    tmp_path_factory: pytest.TempPathFactory, history: list[tuple[int | None, bool, bool, bool]], adjusts: bool
) -> None:
    root: Path = tmp_path_factory.mktemp("lake")
    terms = {"after_close": "adjust" if adjusts else "restate"}
    numbers = numbers_of(Lake(Settings(root=str(root))), terms)
    watermark, held, reviews = None, False, set()
    states: dict[int, State] = {}
    for number, (hour, is_held, is_mended, waits) in enumerate(history, 1):
        numbers.set(number, number)
        if hour is not None:
            happened = midnight(number) + hour * HOUR
            deliver(numbers, number, happened)
            watermark = max(filter(None, [watermark, happened - 6 * HOUR]))
        if is_held and not held:
            deliver(numbers, number, None, "held", "broken.csv")
            held, held_on = True, number
        elif held and is_mended:
            entry = Ingestion(
                "events", f"m{number}", f"m{number}", day(number), "broken.csv", 2, None, "ingested", "run", midnight(number + 1)
            )
            ingestions.record(numbers.lake, entry)
            held = False
        if waits:
            wait(numbers, number)
            reviews.add(number)
        numbers.at(number, 23)
        numbers.publish()
        published = {line[0]: line[3] for line in lawful_versions(numbers.lake, numbers.series)}
        waiting = closing.limits(
            numbers.lake, numbers.source, numbers.series, [numbers.series.period(start) for start in published]
        )
        for early in range(1, number + 1):
            by_calendar = state_on(day(early), today(numbers.lake.now(), numbers.metric.publication), numbers.metric.publication)
            passed = watermark is not None and watermark >= midnight(early + 1)
            missing = not passed or (held and early <= held_on) or early in reviews
            at_most = State.LIVE if not passed else State.PRELIMINARY if missing else State.FINAL
            expected = min(by_calendar, at_most, key=lambda state: state.rank)
            states[early] = max(states.get(early, State.LIVE), expected, key=lambda state: state.rank)
            assert published[day(early)] == states[early].value, (number, early)
            assert (states[early] is State.FINAL) or by_calendar is not State.FINAL or waiting[day(early)].waits_for
