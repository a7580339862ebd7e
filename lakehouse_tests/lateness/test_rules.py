"""Watermarks proposed from data: what they catch, that they stay within bounds, and that they do not flap."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.contracts.publication import Tuning
from lakehouse.lateness.rules import (
    RecommendationSeverity,
    WatermarkVerdict,
    evidence,
    exceeds,
    is_late,
    late_share,
    percentile,
    propose,
    rounded_up,
    share_within,
)
from lakehouse.text import format_duration

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
SECONDS = st.lists(st.integers(-3600, 40 * 86_400), min_size=1, max_size=80).map(sorted)
TUNINGS = st.builds(
    lambda catch, low, wide, band: Tuning(catch=catch, at_least=low * HOUR, at_most=(low + wide) * HOUR, band=band, rows=1),
    st.sampled_from([0.5, 0.9, 0.99]),
    st.integers(0, 50),
    st.integers(1, 900),
    st.sampled_from([0.0, 0.1, 0.25, 0.5]),
)
CURRENT = st.one_of(st.none(), st.integers(0, 60 * 24 * 40).map(lambda minutes: minutes * MINUTE))


def test_a_row_on_its_bound_is_in_time_and_so_is_one_without_a_bound_or_a_lateness() -> None:
    assert not is_late(HOUR, HOUR)
    assert is_late(HOUR + timedelta(microseconds=1), HOUR)
    assert not is_late(HOUR, None)
    assert not is_late(None, HOUR)


def test_of_no_rows_no_share_is_late() -> None:
    assert late_share(0, 0) == 0
    assert late_share(1, 4) == 0.25
    assert not exceeds(0, 0, 0.0)


@given(rows=st.integers(1, 10**7), data=st.data(), tolerated=st.decimals(0, 1, places=6))
def test_a_tolerated_share_is_exact_as_a_decimal_and_as_a_float(rows: int, data: st.DataObject, tolerated: Decimal) -> None:
    """The alert has its bound as a decimal and the check as a float; both judge alike, also next to the bound."""
    nearest = round(Fraction(tolerated) * rows)
    late = min(max(nearest + data.draw(st.integers(-1, 1)), 0), rows)
    expected = Fraction(late, rows) > Fraction(tolerated)
    assert exceeds(late, rows, tolerated) == exceeds(late, rows, float(tolerated)) == expected


@given(seconds=SECONDS, share=st.sampled_from(["0.5", "0.9", "0.95", "0.99", "0.999"]))
def test_a_percentile_is_the_smallest_lateness_that_catches_the_share(seconds: list[int], share: str) -> None:
    found = percentile(seconds, share)
    assert found in seconds
    assert sum(one <= found for one in seconds) >= float(share) * len(seconds) - 1e-9
    smaller = [one for one in seconds if one < found]
    assert len(smaller) < float(share) * len(seconds)


def test_percentiles_by_hand() -> None:
    seconds = list(range(1, 1001))
    assert [percentile(seconds, share) for share in ("0.5", "0.9", "0.99", "0.999")] == [500, 900, 990, 999]
    assert percentile([], "0.5") is None
    assert share_within([], DAY) == 0


@pytest.mark.parametrize(
    ("seconds", "watermark"),
    [(-5, MINUTE), (0, MINUTE), (61, 2 * MINUTE), (3600, HOUR), (3601, HOUR + 15 * MINUTE), (2 * 86_400 + 1, 49 * HOUR)],
)
def test_watermarks_are_in_units_that_people_use(seconds: int, watermark: timedelta) -> None:
    assert rounded_up(seconds) == watermark


@given(seconds=SECONDS, current=CURRENT, tuning=TUNINGS)
def test_a_proposal(seconds: list[int], current: timedelta | None, tuning: Tuning) -> None:
    proposal = propose(seconds, current, tuning)
    assert proposal.watermark is not None
    assert proposal.needed is not None
    assert share_within(seconds, proposal.needed) >= tuning.catch
    assert tuning.at_least <= proposal.watermark <= tuning.at_most
    assert proposal.moves == (proposal.watermark != current)
    assert {WatermarkVerdict.SET: current is None, WatermarkVerdict.KEEP: proposal.watermark == current}.get(
        proposal.verdict, True
    )
    if proposal.verdict is WatermarkVerdict.RAISE:
        assert current is not None
        assert proposal.watermark > current
    if proposal.verdict is WatermarkVerdict.LOWER:
        assert current is not None
        assert proposal.watermark < current
    shares = [one.share for one in proposal.evidence]
    assert shares == sorted(shares)
    assert {proposal.watermark, proposal.needed} <= {one.watermark for one in proposal.evidence}
    assert propose(seconds, proposal.watermark, tuning).verdict is WatermarkVerdict.KEEP, "what was applied is not proposed anew"


@given(st.data())
def test_what_stays_within_the_band_never_moves_it(data: st.DataObject) -> None:
    band = data.draw(st.sampled_from([0.1, 0.25, 0.5]))
    tuning = Tuning(band=band, rows=1)
    current = data.draw(st.integers(4, 500)) * HOUR
    seconds = current.total_seconds()
    low, high = int(seconds * (1 - band)) + 3600, int(seconds * (1 + band)) - 3600
    for needed in data.draw(st.lists(st.integers(min(low, high), max(low, high)), max_size=8)):
        if (1 - band) * current <= rounded_up(needed) <= (1 + band) * current:
            assert propose([needed] * 100, current, tuning).verdict is WatermarkVerdict.KEEP


@given(hours=st.tuples(st.integers(4, 300), st.integers(4, 300)), band=st.sampled_from([0.1, 0.25, 0.5]))
def test_two_data_in_turn_do_not_move_it_to_and_fro_within_the_band(hours: tuple[int, int], band: float) -> None:
    short, long = sorted(hours)
    tuning = Tuning(band=band, rows=1)
    current, moves = short * HOUR, 0
    for turn in range(10):
        found = propose([(short if turn % 2 else long) * 3600] * 10, current, tuning)
        moves += found.moves
        current = found.watermark or current
    assert moves <= 1 or short < long * (1 - band), "only data that differs by more than the band moves it back"


def test_the_share_is_shown_for_spans_that_people_name() -> None:
    shown = {format_duration(line.watermark): line.share for line in evidence([86_400])}
    spans = ["30 s", "1 min", "5 min", "15 min", "1 h", "6 h", "12 h", "1 d", "2 d", "3 d", "7 d", "14 d", "30 d"]
    assert shown == {span: float(number >= spans.index("1 d")) for number, span in enumerate(spans)}


def test_of_few_rows_nothing_is_proposed() -> None:
    assert propose([], DAY, Tuning()).evidence == (), "a share of no rows says nothing"
    found = propose([60] * 499, DAY, Tuning())
    assert DAY in {line.watermark for line in found.evidence}
    assert (found.verdict, found.watermark, found.moves) == (WatermarkVerdict.TOO_FEW, None, False)
    assert "499 rows are too few" in found.because
    assert propose([60] * 500, DAY, Tuning()).verdict is WatermarkVerdict.LOWER


def test_bounds_of_the_contract_are_named() -> None:
    found = propose([40 * 86_400] * 600, 7 * DAY, Tuning())
    assert (found.verdict, found.watermark, found.needed) == (WatermarkVerdict.RAISE, 30 * DAY, 40 * DAY)
    assert found.because == "99.0% of 600 rows came within 40 d; the contract's bound is 30 d; 7 d catches 0.00%"


@pytest.mark.parametrize("beyond", [200, 1_100])
def test_a_cutoff_that_stays_within_the_band_is_no_warning(beyond: int) -> None:
    """A day catches too little, but the data asks for 25 hours, within the band; the bounds of the contract allow them."""
    rows = [3_600] * (10_000 - beyond) + [25 * 3_600] * beyond
    found = propose(rows, DAY, Tuning())
    assert (found.verdict, found.is_limited, found.severity(0.99)) == (WatermarkVerdict.KEEP, False, RecommendationSeverity.NONE)


@pytest.mark.parametrize("current", [24, 20])
def test_a_cutoff_that_stays_because_of_the_bounds_of_the_contract_is_a_warning(current: int) -> None:
    found = propose([3_600] * 95 + [40 * 86_400] * 5, current * HOUR, Tuning(at_most=DAY, rows=1))
    assert (found.verdict, found.is_limited, found.severity(0.99)) == (WatermarkVerdict.KEEP, True, RecommendationSeverity.WARN)
