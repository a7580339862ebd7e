"""Numbers of metrics with late events against a plain model, in a real lake."""

from __future__ import annotations

from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse import locations
from lakehouse.contracts.series import Series
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.restatement import days as restatement_days
from lakehouse.gold.restatement import reconciliation
from lakehouse.ledger.row_states import StewardVerdict
from lakehouse.stewardship import quarantine
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.late_lake import CORNERS, LateLake, histories, late, source
from lakehouse_tests.support.laws import law
from lakehouse_tests.support.windowed_lake import BEGINS, FIRST, SESSIONS, SLIDING, TUMBLING, Event

if TYPE_CHECKING:
    from lakehouse.lake import Lake

pytestmark = pytest.mark.spark

DAILY = {key: value for key, value in TUMBLING.items() if key != "window"} | {"metric": "daily"}


@pytest.mark.merge
def test_a_row_beyond_the_allowed_lateness_does_not_count_and_can_be_read(lake: Lake, spark: Any) -> None:
    sample = LateLake(lake, spark, [late(TUMBLING, "recompute", 5), late(DAILY, "recompute", 5)])
    sample.deliver_at(0, Event("a", 5), Event("b", 74))  # the watermark is at 64
    sample.deliver_at(1, Event("within", 20, 10), Event("hour", 61, 100))
    sample.deliver_at(2, Event("next", 81))  # the watermark is at 71
    sample.deliver_at(3, Event("beyond", 30, 1000))
    assert sample.left_out(sample.metrics[0]) == [("beyond", "late_dropped"), ("within", "late_accepted")]
    assert sample.seen() == sample.by_model()
    assert sample.unlike_published() == []


@pytest.mark.merge
def test_a_correction_that_is_left_out_leaves_the_older_version_and_a_delete_leaves_the_row(lake: Lake, spark: Any) -> None:
    sample = LateLake(lake, spark, [late(TUMBLING, "drop"), late(SLIDING, "update", 60)])
    sample.deliver_at(0, Event("a", 5), Event("b", 30), Event("c", 50), Event("far", 24 * 60 + 40))
    sample.deliver_at(1, Event("a", 6, 10), Event("b", 30, 1, "delete"), Event("c", 24 * 60 + 35, 7))
    assert sample.seen() == sample.by_model()
    sample.deliver_at(2, Event("a", 24 * 60 + 32, 20))  # the newer version counts, the left-out one never came
    assert sample.seen() == sample.by_model()
    assert [sample.left_out(definition) for definition in sample.metrics] == [
        sample.late_by_model(definition) for definition in sample.metrics
    ]
    assert sample.unlike_published() == []


@pytest.mark.proof
def test_a_delivery_that_is_ingested_after_later_ones_changes_which_rows_are_late(lake: Lake, spark: Any) -> None:
    sample = LateLake(lake, spark, [late(TUMBLING, "side_output"), late(DAILY, "recompute", 0)])
    sample.deliver_at(0, Event("a", 5))
    sample.deliver_at(10, Event("b", 20, 10), Event("c", 26 * 60))
    assert sample.left_out(sample.metrics[0]) == []
    sample.deliver_at(5, Event("d", 25 * 60))  # it arrived before: b is late
    assert sample.left_out(sample.metrics[0]) == [("b", "late_dropped")]
    assert sample.seen() == sample.by_model()
    assert sample.unlike_published() == []


@pytest.mark.merge
@law(25)
@example(history=CORNERS)
@given(history=histories())
def test_any_history_gives_the_sessions_of_the_model(tmp_path_factory, spark, history) -> None:
    sample = LateLake(lake_in(tmp_path_factory.mktemp("lake")), spark, [late(SESSIONS, "recompute", 60)])
    for arrived, events in history:
        sample.deliver_at(arrived, *events)
        assert sample.seen() == sample.by_model()
        assert sample.left_out(sample.metrics[0]) == sample.late_by_model(sample.metrics[0])
    assert sample.unlike_published() == []


@pytest.mark.proof
@law(25)
@example(history=CORNERS, action="update")
# The correction and the deletion are left out.
@example(history=CORNERS[::2], action="drop")
@given(history=histories(), action=st.sampled_from(["drop", "side_output", "update", "recompute"]))
def test_any_history_gives_the_numbers_of_the_model_under_each_action(tmp_path_factory, spark, history, action) -> None:
    metrics = [late(TUMBLING, action, 30), late(SLIDING, "recompute", 60), late(DAILY, action, 600)]
    sample = LateLake(lake_in(tmp_path_factory.mktemp("lake")), spark, metrics)
    for arrived, events in history:
        sample.deliver_at(arrived, *events)
        assert sample.seen() == sample.by_model()
        assert [sample.left_out(definition) for definition in sample.metrics] == [
            sample.late_by_model(definition) for definition in sample.metrics
        ]
    assert sample.unlike_published() == []


@pytest.mark.merge
def test_a_window_that_was_updated_often_waits_until_the_day_is_final(lake: Lake, spark: Any, caplog: Any) -> None:
    often = late({**TUMBLING, "publication": {"final_after": 90}}, "recompute", 600, max_updates_per_window=2)
    sample = LateLake(lake, spark, [often])
    [definition], [series] = sample.metrics, [Series(sample.metrics[0])]
    sample.deliver_at(0, Event("a", 5), Event("b", 90))
    restated = [sample.deliver_at(number, Event(f"late {number}", 10 + number)) for number in (1, 2, 3)]
    assert restated == [[{FIRST}], [{FIRST}], [set()]]
    assert "waits until it is final" in caplog.text
    assert sample.windows(series)[BEGINS] == (3, 3)
    outcomes = reconciliation.check_published(lake, series, [FIRST])
    assert [outcome.explanation for outcome in outcomes if outcome.explanation] != []
    assert all(outcome.passed for outcome in outcomes)
    assert sample.deliver_at(4, Event("open", 91)) == [{FIRST}], "another window of the day may change"
    assert sample.seen() == sample.by_model(), "the day is published as a whole"
    sample.deliver_at(5, Event("late again", 15))
    assert sample.seen() != sample.by_model()
    lake.settings.now = datetime(2025, 2, 1, tzinfo=timezone.utc)
    restatement_days.restate(lake, sample.sources["orders"], series, sample.session, [FIRST], Run("close"))
    assert sample.seen() == sample.by_model(), "it is right after the close"
    assert sample.unlike_published() == []
    assert definition.late_events is not None


@pytest.mark.proof
def test_a_row_that_a_steward_admits_is_late_by_the_delivery_that_brought_it(lake: Lake, spark: Any) -> None:
    quarantining = source(lateness={"watermark": "P7D", "beyond": "quarantine"})
    sample = LateLake(lake, spark, [late(TUMBLING, "recompute")], {"orders": quarantining})
    sample.deliver_at(0, Event("a", 5), Event("admitted", -900))
    sample.deliver_at(1, Event("left out", -901), Event("b", 6))
    for key in ("admitted", "left out"):
        [waiting] = locations.quarantine(lake, "orders").read(None, {"record_key": [key]}).to_pylist()
        row = (waiting["ingestion_id"], waiting["line_number"])
        quarantine.decide(lake, quarantining, [row], StewardVerdict.ACCEPT, by="anna", reason="it is real")
        sample.update("orders")
        sample.publish()
    assert sample.left_out(sample.metrics[0]) == [("left out", "late_dropped")]
    assert sample.seen() == sample.by_model()
    assert sample.unlike_published() == []


@pytest.mark.proof
def test_roll_ups_that_are_not_additive_leave_late_rows_out(lake: Lake, spark: Any) -> None:
    weekly = {**DAILY, "measures": [*SLIDING["measures"]], "publication": {"final_after": 90, "rollups": ["week"]}}
    sample = LateLake(lake, spark, [late(weekly, "recompute", 0)])
    [definition] = sample.metrics
    [rollup] = Series(definition).rollups
    sample.deliver_at(0, Event("a", 5, 3), Event("b", 26 * 60))
    sample.deliver_at(1, Event("a", 6, 9), Event("c", 10, 50), Event("d", 27 * 60))
    assert sample.published(rollup) == {date(2024, 10, 21): {None: (5, 2, 3)}}
    sample.deliver_at(2, Event("e", 28 * 60, 8))
    assert sample.published(rollup) == {date(2024, 10, 21): {None: (13, 7, 4)}}
    assert sample.unlike_published() == []
