"""The daily step of tuning, and the trade-off table, against plain models."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.contracts.publication import Tuning, WatermarkTuning
from lakehouse.lateness.max_lateness import step, trade_offs
from lakehouse.lateness.recommendation import proposal_as_json
from lakehouse.lateness.rules import LADDER, RecommendationSeverity, WatermarkVerdict, propose

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
SPANS = st.integers(0, 40 * 86_400).map(lambda seconds: timedelta(seconds=seconds))
SECONDS = st.lists(st.integers(0, 40 * 86_400), min_size=1, max_size=60).map(sorted)
FIRST = datetime(2024, 2, 1, tzinfo=timezone.utc)
#: Hours of the arrivals, in order, and by how many hours the newest event was older.
ARRIVALS = st.lists(st.tuples(st.integers(0, 24 * 8), st.integers(0, 30)), max_size=15).map(sorted)


def test_a_share_is_told_to_a_millionth() -> None:
    told = proposal_as_json(propose([60, 60, 7_200], HOUR, Tuning(rows=1, catch=0.5)), 0.5)
    shares = {line["cutoff_seconds"]: line["share"] for line in told["evidence"]}
    assert {seconds: shares[seconds] for seconds in (30, 60, 3600, 21_600)} == {30: 0, 60: 0.666667, 3600: 0.666667, 21_600: 1}


@given(current=SPANS, wanted=SPANS, band=st.sampled_from([0.01, 0.1, 0.25, 0.9]))
def test_a_step_goes_towards_the_proposal_by_a_band_at_most(current: timedelta, wanted: timedelta, band: float) -> None:
    after = step(current, wanted, band)
    assert min(current, wanted) <= after <= max(current, wanted)
    assert abs(after - current) <= max(current * band, MINUTE)
    assert after == wanted or abs(after - current) >= max(current * band - MINUTE, MINUTE), "it does not go slower than it may"


@given(
    seconds=SECONDS,
    start=st.integers(0, 900).map(lambda hours: hours * HOUR),
    bounds=st.tuples(st.integers(0, 900), st.integers(1, 900)).map(sorted),
    band=st.sampled_from([0.1, 0.25, 0.5]),
)
def test_day_by_day_it_reaches_what_catches_the_share_and_stays_there(
    seconds: list[int], start: timedelta, bounds: list[int], band: float
) -> None:
    terms = WatermarkTuning(at_least=bounds[0] * HOUR, at_most=max(bounds[1], 1) * HOUR, band=band, rows=1)
    current = min(max(start, terms.at_least), terms.at_most)
    passed = []
    for _ in range(1000):
        proposal = propose(seconds, current, terms)
        if not proposal.moves:
            break
        assert proposal.watermark is not None
        current = step(current, proposal.watermark, band)
        passed.append(current)
    assert not proposal.moves, "it comes to rest"
    assert passed in (sorted(passed), sorted(passed, reverse=True)), "it goes one way"
    assert all(terms.at_least <= value <= terms.at_most for value in passed)
    within = sum(second <= current.total_seconds() for second in seconds)
    assert within >= terms.catch * len(seconds) - 1e-9 or current == terms.at_most


@given(seconds=SECONDS, current=SPANS, catch=st.sampled_from([0.5, 0.9, 0.99]))
def test_severity_follows_from_the_share_that_is_missed(seconds: list[int], current: timedelta, catch: float) -> None:
    terms = WatermarkTuning(catch=catch, rows=1, at_most=20 * DAY)
    proposal = propose(seconds, current, terms)
    caught = sum(second <= current.total_seconds() for second in seconds) / len(seconds)
    severity = proposal.severity(catch)
    if caught < catch:
        far = 1 - caught > 10 * (1 - catch)
        assert severity is (RecommendationSeverity.ERROR if far else RecommendationSeverity.WARN) or current > terms.at_most
    else:
        assert severity is (RecommendationSeverity.INFO if proposal.moves else RecommendationSeverity.NONE)
    few = propose(seconds, current, WatermarkTuning(rows=100))
    assert (few.verdict, few.severity(catch)) == (WatermarkVerdict.TOO_FEW, RecommendationSeverity.INFO)


@given(
    seconds=SECONDS,
    arrivals=ARRIVALS,
    days=st.integers(0, 8),
    also=st.none() | SPANS,
    zone=st.sampled_from(["UTC", "Asia/Kolkata"]),
)
def test_the_trade_off_of_each_value_is_that_of_the_rows_and_of_the_arrivals(
    seconds: list[int], arrivals: list[tuple[int, int]], days: int, also: timedelta | None, zone: str
) -> None:
    moves: list[tuple[datetime, datetime]] = []
    for hour, older in arrivals:
        newest = FIRST + (hour - older) * HOUR
        moves.append((FIRST + hour * HOUR, max(newest, moves[-1][1]) if moves else newest))
    event_days = [date(2024, 2, 1) + timedelta(days=number) for number in range(days)]
    place = ZoneInfo(zone)
    lines = trade_offs(seconds, moves, event_days, place, [also, None])
    assert [line.max_lateness for line in lines] == sorted({*LADDER, *([] if also is None else [also])})
    for line in lines:
        assert line.share == sum(second <= line.max_lateness.total_seconds() for second in seconds) / len(seconds)
        waited, still_open = [], 0
        for day in event_days:
            end = datetime(day.year, day.month, day.day, tzinfo=place) + timedelta(days=1)
            passing = [arrived for arrived, watermark in moves if watermark - line.max_lateness >= end]
            waited += [passing[0] - end] if passing and moves[0][0] < end else []
        if moves:
            day = moves[-1][0].astimezone(place).date()
            while datetime(day.year, day.month, day.day, tzinfo=place) + timedelta(days=1) > moves[-1][1] - line.max_lateness:
                still_open += 1
                day -= timedelta(days=1)
        assert line.delay == (sorted(waited)[(len(waited) + 1) // 2 - 1] if waited else None)
        assert line.open_days == still_open
