"""Decisions about ``max_lateness`` on real tables: the daily step of tuning, and those of people. No Spark."""

from __future__ import annotations

import shutil
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from lakehouse import locations
from lakehouse.lateness import cutoff, event_watermark, tuning
from lakehouse.lateness.recommendation import TuningError, recommend, state_of
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.tuned_source import arrive_daily, tuned_source

if TYPE_CHECKING:
    from pathlib import Path

    from lakehouse.contracts.source import SourceContract

from lakehouse.lake import Lake
from lakehouse.settings import Settings

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
DAYS = [date(2024, 2, day) for day in range(1, 11)]
#: Of a hundred rows three are ten hours late: with the watermark of an hour, 97 % are caught.
LAGS = [*[timedelta(0)] * 7, *[30 * MINUTE] * 90, *[10 * HOUR] * 3]
MORNING = datetime(2024, 2, 11, 1, 30, tzinfo=timezone.utc)


@pytest.fixture(name="lake")
def _lake(tmp_path: Path) -> Lake:
    return Lake(Settings(root=str(tmp_path / "lake"), landing=str(tmp_path), now=MORNING))


def value(lake: Lake, source: SourceContract) -> timedelta:
    return state_of(lake, source).in_force.max_lateness


def on(lake: Lake, moment: datetime) -> Lake:
    return lake.with_settings(now=moment)


@pytest.mark.merge
def test_a_watermark_ten_times_too_short_reaches_its_proposal_by_a_band_a_day(lake: Lake) -> None:
    source = tuned_source("PT1H", auto=True, at_least="PT30M", at_most="P2D")
    arrive_daily(lake, source, DAYS, LAGS)
    advice = recommend(lake, source, HOUR)
    assert advice is not None
    assert (advice.proposal.watermark, advice.proposal.caught) == (10 * HOUR, 0.97)
    values = [HOUR]
    for day in range(20):
        today = on(lake, MORNING + day * DAY)
        tuning.apply_daily(today, source)
        values.append(value(today, source))
        assert abs(values[-1] - values[-2]) <= values[-2] * 0.25
        tuning.apply_daily(on(lake, MORNING + day * DAY + 5 * HOUR), source)  # a second time on the same day
    assert values == sorted(values)
    assert values.index(10 * HOUR) == 11, "1.25 times a day, rounded down to minutes"
    taken = event_watermark.decisions_of(lake, "events")
    assert [entry.number for entry in taken] == list(range(1, 12))
    assert {(entry.kind, entry.by, entry.automatic, entry.contract_seconds) for entry in taken} == {
        ("applied", "tuning", True, 3600)
    }
    assert (taken[0].seconds_before, taken[0].seconds) == (3600, 75 * 60)
    assert (taken[0].evidence["caught"], taken[0].evidence["proposed_seconds"], taken[0].evidence["rows"]) == (0.97, 36_000, 1000)


def test_it_stays_within_the_bounds_of_the_contract(lake: Lake) -> None:
    source = tuned_source("PT1H", auto=True, at_least="PT30M", at_most="PT90M")
    arrive_daily(lake, source, DAYS, LAGS)
    for day in range(6):
        tuning.apply_daily(on(lake, MORNING + day * DAY), source)
    assert value(on(lake, MORNING + 6 * DAY), source) == 90 * MINUTE


def test_what_is_far_too_long_is_lowered_and_what_is_a_little_too_long_stays(lake: Lake) -> None:
    source = tuned_source("P4D", auto=True, band=0.5)
    arrive_daily(lake, source, DAYS, LAGS)
    said = [tuning.apply_daily(on(lake, MORNING + day * DAY), source) for day in range(5)]
    assert [text.split(";")[0] for text in said[:3]] == ["events: 4 d -> 2 d", "events: 2 d -> 1 d", "events: 1 d -> 12 h"]
    assert said[3].startswith("12 h of events stays: 99.0% of 1,000 rows came within 10 h")


def test_without_auto_nothing_is_applied_by_itself(lake: Lake) -> None:
    source = tuned_source("PT1H")
    arrive_daily(lake, source, DAYS, LAGS)
    assert tuning.apply_daily(lake, source) == "the contract of events does not say 'auto: true'"
    assert event_watermark.decisions_of(lake, "events") == []
    applied = tuning.apply_proposal(lake, source, "anna", "the tills send at night")
    assert (applied.seconds, applied.automatic, value(lake, source)) == (36_000, False, 10 * HOUR)
    shown = {key: applied.evidence[key] for key in ("rows", "caught", "proposed_seconds", "needed_seconds")}
    assert shown == {"rows": 1000, "caught": 0.97, "proposed_seconds": 36_000, "needed_seconds": 36_000}
    with pytest.raises(TuningError, match="10 h stays, nothing else is proposed"):
        tuning.apply_proposal(lake, source, "anna", "once more")


def test_a_pinned_watermark_is_left_alone_until_it_is_unpinned(lake: Lake) -> None:
    source = tuned_source("PT1H", auto=True)
    arrive_daily(lake, source, DAYS, LAGS)
    tuning.pin(lake, source, "anna", "as agreed", 2 * HOUR)
    assert tuning.apply_daily(lake, source) == "2 h of events is pinned by anna"
    with pytest.raises(TuningError, match="pinned by anna: 'lakehouse lateness unpin events' first"):
        tuning.apply_proposal(lake, source, "ben", "p99")
    assert value(lake, source) == 2 * HOUR
    tuning.unpin(lake, source, "anna", "the agreement ended")
    assert tuning.apply_daily(lake, source).startswith("events: 2 h -> 2 h 30 min")
    with pytest.raises(TuningError, match="is not pinned"):
        tuning.unpin(lake, source, "anna", "again")


def test_decisions_about_lateness_outlive_their_tables(lake: Lake) -> None:
    source = tuned_source("PT1H")
    tuning.pin(lake, source, "anna", "as agreed", 2 * HOUR)
    moved = cutoff.WatermarkDecision("events", None, None, 3600, DAYS[0], "ben", "p99", "99.0%", "[]", MORNING)
    cutoff.record(lake, moved)
    for table in (locations.event_watermarks(lake), locations.watermarks(lake)):
        shutil.rmtree(table.address)
    assert [(entry.by, entry.seconds) for entry in event_watermark.decisions_of(lake, "events")] == [("anna", 7200)]
    assert cutoff.of(lake, "events") == [moved]


def test_undo_puts_back_what_was_in_force_and_tuning_does_not_take_the_step_again(lake: Lake) -> None:
    source = tuned_source("PT1H", auto=True)
    arrive_daily(lake, source, DAYS, LAGS)
    tuning.apply_daily(lake, source)
    tomorrow = on(lake, MORNING + DAY)
    tuning.apply_daily(tomorrow, source)
    assert value(tomorrow, source) == 93 * MINUTE
    assert tuning.undo(tomorrow, source, "anna", "too slow").seconds == 75 * 60
    assert "pinned by anna" in tuning.apply_daily(on(lake, MORNING + 2 * DAY), source)
    tuning.undo(tomorrow, source, "anna", "the first one, too")
    assert value(tomorrow, source) == HOUR
    with pytest.raises(TuningError, match="1 h of events is the contract's value: there is nothing to undo"):
        tuning.undo(tomorrow, source, "anna", "more")


def test_an_arrival_counts_by_what_was_in_force_then_and_the_watermark_never_goes_back(lake: Lake) -> None:
    source = tuned_source("PT1H")
    arrive_daily(lake, source, DAYS, LAGS)
    then = datetime(2024, 2, 5, 12, tzinfo=timezone.utc)
    tuning.pin(on(lake, then), source, "anna", "the tills send at night", 20 * HOUR)
    state = event_watermark.of_source(lake, source)
    assert state is not None
    eleven = [datetime(2024, 2, day, 23, tzinfo=timezone.utc) for day in range(1, 11)]
    lateness = [HOUR] * 4 + [20 * HOUR] * 6
    assert [step.watermark for step in state.steps] == [arrived - late for arrived, late in zip(eleven, lateness)]
    tuning.pin(on(lake, eleven[-1] + HOUR), source, "anna", "longer", 9 * DAY)
    assert event_watermark.of_source(lake, source) != state
    again = event_watermark.of_source(lake, source)
    assert again is not None
    assert again.watermark == state.watermark, "the next arrival counts by it, and nothing goes back"


def test_the_later_of_two_decisions_on_the_same_state_is_refused(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tuned_source("PT1H", auto=True)
    arrive_daily(lake, source, DAYS, LAGS)
    before = state_of(lake, source)
    tuning.pin(lake, source, "anna", "as agreed")
    monkeypatch.setattr(tuning, "state_of", lambda *_: before)
    assert tuning.apply_daily(lake, source) == "another decision about events was first"
    with pytest.raises(TuningError, match="another decision about events was taken meanwhile"):
        tuning.pin(lake, source, "ben", "x")
    assert [entry.by for entry in event_watermark.decisions_of(lake, "events")] == ["anna"]


def test_only_some_event_types_are_measured_and_skewed_rows_never(lake: Lake) -> None:
    source = tuned_source("PT1H", event_types=["delete"])
    arrive_daily(lake, source, DAYS, [*LAGS, *[-5 * MINUTE] * 9])
    nothing = recommend(lake, source, HOUR)
    assert nothing is not None
    assert (nothing.proposal.rows, nothing.measured.rows, nothing.measured.skewed) == (0, 1000, 90)
    of_all = recommend(lake, tuned_source("PT1H", event_types=["insert"]), HOUR)
    assert of_all is not None
    assert (of_all.proposal.rows, of_all.proposal.watermark) == (1000, 10 * HOUR)


def test_arrivals_of_the_future_and_of_before_the_window_do_not_count(lake: Lake) -> None:
    source = tuned_source("PT1H", days=3)
    arrive_daily(lake, source, [*DAYS, date(2099, 1, 1)], LAGS)
    advice = recommend(lake, source, HOUR)
    assert advice is not None
    assert (advice.measured.first, advice.measured.last, advice.proposal.rows) == (DAYS[-3], DAYS[-1], 300)


def test_what_cannot_be_decided_is_refused_with_what_to_do(lake: Lake) -> None:
    with pytest.raises(TuningError, match=r"clocks\.watermark of events has no max_lateness"):
        state_of(lake, contract())
    source = tuned_source("PT1H", auto=True)
    assert tuning.apply_daily(lake, source) == "1 h of events stays: nothing has arrived"
    with pytest.raises(TuningError, match="--by"):
        tuning.pin(lake, source, " ", "x")
    with pytest.raises(TuningError, match="whole seconds"):
        tuning.pin(lake, source, "anna", "x", timedelta(milliseconds=1500))
    assert event_watermark.decisions_of(lake, "events") == []
