"""A corrected feed is staged, promoted in one step per table, and undone; readers see the old numbers or the new ones."""

from __future__ import annotations

from datetime import date
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakehouse.gold.numbers import history
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.restatement.revert import UndoError
from lakehouse.orchestration.execution.in_process import RunFailedError
from lakehouse.orchestration.plan_runs import BackfillRunningError, backfill_lock
from lakehouse.silver import audit_log
from lakehouse.stages import stage_log, staging
from lakehouse.stages.stage_log import StageError, StageEventKind, StageKind
from lakehouse_tests.support.partner_feed import NOW, WEEK, PartnerFeed, feed_catalog, polled
from lakehouse_tests.support.stopped_commits import Killed, kill_after

if TYPE_CHECKING:
    from collections.abc import Callable

    import dagster as dg
    from pyspark.sql import SparkSession

    from lakehouse.lake import Lake

pytestmark = pytest.mark.spark

BEFORE = [10 * number for number in range(1, 8)]
AFTER = [10 * number + 1 for number in range(1, 8)]
ARRIVED, MEANWHILE = date(2024, 1, 15), date(2024, 1, 16)


@pytest.fixture
def feed(lake: Lake, instance: dg.DagsterInstance, spark: SparkSession) -> PartnerFeed:
    """A published week, and the folder of a corrected feed."""
    lake.settings.now = NOW
    made = PartnerFeed(lake, instance, spark)
    made.deliver(ARRIVED, [f"k{day.day},{amount},{day.day}" for day, amount in zip(WEEK, BEFORE)])
    made.publish(ARRIVED)
    assert made.totals() == BEFORE
    return made


def corrected(feed: PartnerFeed, amounts: list[int] = AFTER, name: str = "feed") -> Path:
    """The feed of the week with other amounts, as a file for each arrival day."""
    folder = Path(f"{feed.lake.root}").parent / name
    for day, amount in zip(WEEK, amounts):
        feed.deliver(date(2024, 1, day.day + 9), [f"k{day.day},{amount},{day.day}"], folder)
    return folder


def undo(feed: PartnerFeed, name: str) -> dict[str, int]:
    stage = stage_log.find(feed.lake, name)
    done = staging.undo_promotion(feed.lake, feed.catalog, stage, Run("undo", by="carla"), "wrong after all")
    return {undone.daily.name: len(undone.result.published) for undone in done}


@pytest.mark.merge
def test_readers_see_the_old_week_or_the_new_one_and_it_can_be_put_back(feed: PartnerFeed) -> None:
    live, rows, weeks = feed.numbers(), feed.silver(), feed.totals(feed.weekly)
    stage = feed.stage("v1.3", corrected(feed))
    report = stage.report
    assert (report.rows_staged, len(report.days), report.rows["changed"]) == (7, 7, 7)
    assert {sample.record_key for sample in report.samples} <= {f"k{day.day}" for day in WEEK}
    [series] = report.series
    assert [(day.day, day.measures["total"]) for day in series.days] == [
        (day, (before, after)) for day, before, after in zip(WEEK, BEFORE, AFTER)
    ]
    assert series.totals["total"] == (sum(BEFORE), sum(AFTER))
    assert series.rollups == {"totals_weekly": ["2024-W02"]}
    assert (series.consumers, series.final_days, report.objections) == (["books"], 6, [])
    assert (feed.numbers(), feed.silver()) == (live, rows), "nothing that readers see has changed"

    with polled(feed.totals) as days, polled(feed.silver) as silver, polled(lambda: feed.totals(feed.weekly)) as weekly:
        done = feed.promote("v1.3")
    assert days == [BEFORE, AFTER]
    assert len(silver) == 2
    assert weekly == [weeks, [sum(AFTER)]]
    assert done.restated == {"totals": WEEK, "totals_weekly": [WEEK[0]]}
    assert done.stage.state is StageEventKind.PROMOTED
    assert {reason for _, reason, _ in feed.numbers().values()} == {"correction"}
    audited = audit_log.read(feed.lake, "events", action="backfill").to_pylist()
    assert len([row for row in audited if "stage v1.3 by ben: approved" in row["reason"]]) == 7
    with pytest.raises(StageError, match=r"v1.3 is promoted: only a stage that waits can be promoted"):
        feed.promote("v1.3")
    with pytest.raises(StageError, match=r"'lakehouse stage undo v1.3' puts the numbers back"):
        staging.drop(feed.lake, "v1.3", "anna", "late")

    assert undo(feed, "v1.3") == {"totals": 7}
    assert feed.totals() == BEFORE
    assert {reason for _, reason, _ in feed.numbers().values()} == {"rollback"}
    known = history.history(feed.lake, feed.weekly.daily, WEEK)
    assert [[version.label for version in known[day]] for day in WEEK] == [["r1", "r2", "r3"]] * 7
    assert undo(feed, "v1.3") == {"totals": 0}, "again it changes nothing"
    assert stage_log.find(feed.lake, "v1.3").state is StageEventKind.UNDONE


@pytest.mark.merge
def test_what_arrives_meanwhile_is_in_the_promoted_state(feed: PartnerFeed) -> None:
    feed.stage("v1.3", corrected(feed))
    feed.deliver(MEANWHILE, ["k8,500,8", "new,5,9"], suffix=".live")  # arrives before the staged correction of the same key
    feed.publish(MEANWHILE)
    assert staging.is_outdated(feed.lake, stage_log.find(feed.lake, "v1.3"))
    feed.promote("v1.3", sign_off="the late row is known")
    assert feed.totals() == [AFTER[0], AFTER[1] + 5, *AFTER[2:]]


@pytest.mark.merge
def test_exceeded_thresholds_wait_for_a_sign_off(feed: PartnerFeed) -> None:
    stage = feed.stage("big", corrected(feed, [20, *AFTER[1:]]), set_threshold=2)
    assert stage.report.objections == [
        "totals 2024-01-08: total goes from 10 to 20 (+100.00 %), more than 50 %",
        "totals, 7 days together: total goes from 280 to 296 (+5.71 %), more than 2 %",
    ]
    with pytest.raises(StageError, match="promote it with --sign-off and why, or drop it:\n  totals 2024-01-08"):
        feed.promote("big")
    assert feed.totals() == BEFORE
    feed.promote("big", sign_off="agreed with the partner")
    assert feed.totals()[0] == 20
    [promoting] = [event for event in stage_log.find(feed.lake, "big").events if event.event is StageEventKind.PROMOTING]
    assert promoting.sign_off == "agreed with the partner"


@pytest.mark.merge
def test_a_promotion_names_the_checks_that_fail_and_the_numbers_that_they_hold(feed: PartnerFeed) -> None:
    feed.catalog = feed_catalog({"quality": {"row_count": {"min": 1, "max": 1}}})
    folder = corrected(feed)
    feed.deliver(date(2024, 1, 17), ["k8,81,8", "k9,91,9"], folder)
    feed.stage("large", folder)
    failed = feed.promote("large", sign_off="agreed").failed_checks
    assert any(line.startswith("bronze/events row_count failed for 2024-01-17: ") for line in failed), failed


@pytest.mark.proof
def test_a_number_that_fails_a_check_is_signed_off_with_the_stage(feed: PartnerFeed) -> None:
    feed.catalog = feed_catalog(checks={"change": [{"measure": "total", "percent": 5}]})
    stage = feed.stage("checked", corrected(feed))
    assert list(stage.report.series[0].held) == [WEEK[0]], "from 10 to 11 is more than 5 %"
    with pytest.raises(StageError, match="totals 2024-01-08: change: "):
        feed.promote("checked")
    with polled(feed.totals) as days:
        feed.promote("checked", sign_off="agreed")
    assert days == [BEFORE, AFTER], "no day stays behind"


@pytest.mark.proof
def test_a_stage_of_other_contracts_is_computed_again(feed: PartnerFeed) -> None:
    feed.stage("v1.3", corrected(feed))
    feed.catalog = feed_catalog(measures=[{"name": "total", "sql": "sum(amount) + 0", "type": "long", "additive": True}])
    with pytest.raises(
        StageError, match=r"contracts have changed since v1.3 was computed: totals .*'lakehouse stage refresh v1.3'"
    ):
        feed.promote("v1.3")
    refreshed = staging.refresh(feed.lake, feed.catalog, lambda: feed.spark, "v1.3", "anna", "run")
    assert refreshed.report.series[0].totals == {"total": (sum(BEFORE), sum(AFTER))}
    assert feed.promote("v1.3").stage.state is StageEventKind.PROMOTED


@pytest.mark.merge
def test_final_numbers_with_approvals_take_two_people(feed: PartnerFeed) -> None:
    feed.catalog = feed_catalog(publication={"rollups": ["week"], "after_close": "restate", "approvals": 2})
    feed.stage("v1.3", corrected(feed))
    with pytest.raises(StageError, match=r"anna created the stage v1.3, and it changes final numbers of totals: another person"):
        feed.promote("v1.3", by="anna")
    assert feed.promote("v1.3", by="ben").stage.state is StageEventKind.PROMOTED


@pytest.mark.merge
def test_one_promotion_at_a_time_and_what_cannot_be_staged(feed: PartnerFeed) -> None:
    folder = corrected(feed)
    feed.stage("v1.3", folder)
    with (
        backfill_lock(feed.lake, "events"),
        pytest.raises(BackfillRunningError, match="another backfill is running on events"),
    ):
        feed.promote("v1.3")
    with pytest.raises(StageError, match=r"the name v1.3 is taken by a stage of events \(created\)"):
        feed.stage("v1.3", folder)
    with pytest.raises(StageError, match=r"'\.\./x' is no name of a stage"):
        feed.stage("../x", folder)
    empty = Path(f"{feed.lake.root}").parent / "empty"
    empty.mkdir()
    with pytest.raises(StageError, match="has no file that matches arrival_date="):
        feed.stage("nothing", empty)
    (empty / "arrival_date=2024-01-18.csv").write_text("no,such,columns\n1,2,3\n")
    with pytest.raises(StageError, match=r"not all files can be staged: .*column .* is missing"):
        feed.stage("broken", empty)
    (empty / "arrival_date=2024-01-18.csv").unlink()
    feed.deliver(ARRIVED, [f"k{day.day},{amount},{day.day}" for day, amount in zip(WEEK, BEFORE)], empty)
    with pytest.raises(StageError, match="nothing of events would change"):
        feed.stage("same", empty)
    with pytest.raises(StageError, match=r"there is no stage lost; known are v1.3"):
        stage_log.find(feed.lake, "lost")
    with pytest.raises(StageError, match=r"v1.3 is created: only a promoted stage can be undone"):
        undo(feed, "v1.3")
    assert Path(feed.lake.stage("v1.3").root).is_dir()
    assert not Path(feed.lake.stage("broken").root).exists()
    staging.drop(feed.lake, "v1.3", "anna", "not needed")
    assert staging.drop(feed.lake, "v1.3", "anna", "not needed").state is StageEventKind.DROPPED
    assert not Path(feed.lake.stage("v1.3").root).exists()
    with pytest.raises(StageError, match=r"v1.3 is dropped: only a stage that waits"):
        feed.promote("v1.3")
    assert feed.totals() == BEFORE


@pytest.mark.proof
def test_a_number_that_changed_since_is_not_put_back(feed: PartnerFeed) -> None:
    feed.stage("v1.3", corrected(feed))
    feed.promote("v1.3")
    feed.deliver(date(2024, 1, 18), ["late,1,8"], suffix=".live")
    feed.publish(date(2024, 1, 18))
    with pytest.raises(UndoError, match=r"stage v1.3 cannot be undone, numbers have changed since: totals_v2024-01-08.r3"):
        undo(feed, "v1.3")
    assert feed.totals() == [AFTER[0] + 1, *AFTER[1:]]


@pytest.mark.merge
def test_bronze_is_read_again_as_a_stage(feed: PartnerFeed) -> None:
    feed.deliver(MEANWHILE, ["broken,none,9"])
    feed.publish(MEANWHILE)
    assert feed.totals() == BEFORE, "a malformed row counts nowhere"
    null_words = feed.catalog.sources["events"].model_copy(deep=True)
    null_words.source.null_values.append("none")
    feed.catalog = feed_catalog({"source": null_words.source.model_dump(mode="json")})
    stage = feed.stage("again", kind=StageKind.REPARSE)
    assert (stage.report.rows_staged, stage.report.days) == (1, [WEEK[1]])
    assert stage.report.series[0].days[0].measures["sales"] == (1, 2)
    assert feed.totals() == BEFORE
    with pytest.raises(StageError, match="sales goes from 1 to 2"):
        feed.promote("again")
    feed.promote("again", sign_off="the row was forgotten")
    assert [row[1] for row in feed.silver() if row[0] == WEEK[1]] == ["broken", "k9"]
    assert feed.totals() == BEFORE, "the row is sound now, and has no amount"
    with pytest.raises(StageError, match=r"no record of events reads otherwise under this contract \(8 read\)"):
        feed.stage("nothing", kind=StageKind.REPARSE)
    assert stopped_anywhere(lambda: undo(feed, "again")) > 0
    assert feed.numbers()[WEEK[1]][1] == "rollback"


@pytest.mark.proof
@pytest.mark.parametrize("name", ["totals", "events"])
def test_a_changed_metric_is_staged_before_it_is_deployed(feed: PartnerFeed, name: str) -> None:
    """Also one with the name of its source."""
    if name == "events":
        feed.catalog = feed_catalog(metric=name)
        feed.publish()
    doubled = feed_catalog(metric=name, measures=[{"name": "total", "sql": "2 * sum(amount)", "type": "long", "additive": True}])
    stage = feed.stage("doubled", kind=StageKind.CONTRACT, contract=doubled.metrics[name])
    assert stage.report.series[0].totals["total"] == (sum(BEFORE), 2 * sum(BEFORE))
    assert stage.report.days == []
    with pytest.raises(StageError, match=rf"the contract of \S*{name} is not the staged one yet .* put the staged file into"):
        feed.promote("doubled", sign_off="new definition")
    feed.catalog = doubled
    with polled(feed.totals) as days:
        feed.promote("doubled", sign_off="new definition")
    assert days == [BEFORE, [2 * amount for amount in BEFORE]]


@pytest.mark.proof
def test_the_numbers_of_an_append_source_follow_the_staged_newest_rows(
    lake: Lake, instance: dg.DagsterInstance, spark: SparkSession
) -> None:
    lake.settings.now = NOW
    append = feed_catalog({"materialization": {"reprocess_policy": "append"}, "changes": {}})
    feed = PartnerFeed(lake, instance, spark, append)
    feed.deliver(ARRIVED, ["a,10,8", "b,20,9"])
    feed.publish(ARRIVED)
    folder = Path(f"{lake.root}").parent / "feed"
    feed.deliver(MEANWHILE, ["a,11,9"], folder)  # a newer row of the key, on another day
    stage = feed.stage("moved", folder)
    assert stage.report.days == [WEEK[1]], "silver has one more row"
    assert {day.day: day.measures["total"] for day in stage.report.series[0].days} == {WEEK[0]: (10, None), WEEK[1]: (20, 31)}
    feed.promote("moved", sign_off="known")
    assert feed.totals() == [None, 31]


@pytest.mark.proof
def test_a_stage_that_is_stopped_anywhere_ends_the_same(feed: PartnerFeed) -> None:
    folder = corrected(feed)
    for commits in (1, 5, 9):
        with pytest.MonkeyPatch.context() as patched:
            kill_after(patched, commits)
            with pytest.raises(Killed):
                feed.stage("v1.3", folder)
        assert stage_log.all_of(feed.lake) == []
    feed.stage("v1.3", folder)
    assert stopped_anywhere(lambda: _promoted(feed)) > 4
    assert (feed.totals(), feed.totals(feed.weekly)) == (AFTER, [sum(AFTER)])
    assert stage_log.find(feed.lake, "v1.3").state is StageEventKind.PROMOTED
    assert stopped_anywhere(lambda: undo(feed, "v1.3")) > 0
    assert feed.totals() == BEFORE


def _promoted(feed: PartnerFeed) -> None:
    """A promotion; Dagster reports a run that is stopped in it as failed."""
    try:
        feed.promote("v1.3")
    except RunFailedError as problem:
        if Killed.__name__ in f"{problem}":
            raise Killed from problem
        raise


def stopped_anywhere(step: Callable[[], object]) -> int:
    """Stop a step after its first commit, repeat it and stop it after its second one, and so on, until it ends.

    :returns: the number of stops.
    """
    for stops in count():
        with pytest.MonkeyPatch.context() as patched:
            kill_after(patched, stops + 1)
            try:
                step()
            except Killed:
                assert stops < 60, "it never comes to its end"
            else:
                return stops
    raise AssertionError
