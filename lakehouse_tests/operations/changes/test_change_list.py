"""Each log of what people do, as the list of changes shows it; entries are recorded by the functions that the commands call."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from lakehouse.contracts import Catalog
from lakehouse.contracts.series import Series
from lakehouse.gold.promotion import promotion_log
from lakehouse.gold.promotion.promotion_log import PromotionEntry, PromotionKind
from lakehouse.gold.publication import held_numbers
from lakehouse.gold.publication.held_numbers import RejectedCandidate
from lakehouse.lateness import cutoff, event_watermark
from lakehouse.lateness.cutoff import WatermarkDecision
from lakehouse.lateness.max_lateness import MaxLatenessDecision
from lakehouse.ledger import decisions, late_decisions, publications, rebuild_requests, redactions
from lakehouse.ledger.decisions import Decision
from lakehouse.ledger.late_decisions import LateDecision
from lakehouse.ledger.publications import Publication
from lakehouse.ledger.rebuild_requests import RebuildRequest
from lakehouse.ledger.redactions import Redaction
from lakehouse.ledger.row_states import StewardVerdict
from lakehouse.operations.changes import change_list, correction_record
from lakehouse.operations.changes.change import (
    ChangeEntry,
    ChangeKind,
    ChangeState,
    UndoRefusedError,
    require_undoable,
)
from lakehouse.operations.changes.change_list import UnknownChangeError
from lakehouse.operations.changes.correction_record import CorrectionEvent, CorrectionEventKind, Operation
from lakehouse.stages import stage_log
from lakehouse.stages.stage_log import StageEvent, StageEventKind, StageKind
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.numbers_without_spark import metric

if TYPE_CHECKING:
    from pathlib import Path

    from lakehouse.lake import Lake

DAY = date(2024, 2, 1)
AT = datetime(2024, 2, 3, 12, tzinfo=timezone.utc)
WHO = ("anna", "to be sure", AT)


@pytest.fixture(name="lake")
def _lake(tmp_path: Path) -> Lake:
    return lake_in(tmp_path)


@pytest.fixture(name="catalog")
def _catalog() -> Catalog:
    return Catalog({"events": contract()}, {"total": metric()})


def only(lake: Lake, catalog: Catalog, kind: ChangeKind) -> ChangeEntry:
    [change] = change_list.changes(lake, catalog, [kind])
    assert change in change_list.changes(lake, catalog), "also among all kinds"
    return change


def test_a_decision_about_several_rows_is_one_change(lake: Lake, catalog: Catalog) -> None:
    rows = [Decision("i1", line, key, StewardVerdict.ACCEPT, *WHO, touched_days=[DAY]) for line, key in enumerate("ab", 1)]
    name = decisions.record(lake, "events", rows)
    change = only(lake, catalog, ChangeKind.DECISION)
    assert (change.change_id, change.target, change.described) == (name, "events", "accept 2 rows: a, b")
    assert (change.by, change.reason, change.recorded_at, change.days) == (*WHO, (DAY, DAY))
    with pytest.raises(UndoRefusedError, match="is a decision, which is not undone"):
        require_undoable(change)


def test_a_decision_about_late_rows_names_its_metric(lake: Lake, catalog: Catalog) -> None:
    late_decisions.record(lake, "events", [LateDecision("d1", 1, "total", "i1", 1, True, *WHO, touched_days=[DAY])])
    change = only(lake, catalog, ChangeKind.LATE_DECISION)
    assert (change.target, change.described) == ("total", "admit 1 row that came too late")


def test_a_correction_waits_then_counts_or_is_rejected(lake: Lake, catalog: Catalog) -> None:
    proposed = CorrectionEvent(
        "events", "c1", CorrectionEventKind.PROPOSED, "a", Operation.CORRECT, 2, *WHO, {"amount": "12"}, {"amount": "10"}
    )
    correction_record.record(lake, proposed)
    change = only(lake, catalog, ChangeKind.CORRECTION)
    assert (change.described, change.state) == ("correct a: amount 10 -> 12", ChangeState.PENDING)
    with pytest.raises(UndoRefusedError, match="c1 is pending: there is nothing to undo"):
        require_undoable(change)
    correction_record.record(lake, replace(proposed, kind=CorrectionEventKind.REJECTED, by="ben", recorded_at=AT + timedelta(1)))
    assert only(lake, catalog, ChangeKind.CORRECTION).state is ChangeState.CANCELLED
    other = replace(proposed, correction_id="c2")
    for kind in (CorrectionEventKind.PROPOSED, CorrectionEventKind.APPROVED, CorrectionEventKind.ENTERED):
        correction_record.record(lake, replace(other, kind=kind))
    assert change_list.find(lake, catalog, "c2").state is ChangeState.APPLIED


def test_a_correction_shows_no_redacted_value(lake: Lake, catalog: Catalog) -> None:
    values = ({"name": "Ann"}, {"name": "Anne"})
    correction_record.record(
        lake, CorrectionEvent("events", "c1", CorrectionEventKind.PROPOSED, "a", Operation.CORRECT, 1, *WHO, *values)
    )
    redactions.record(lake, "events", Redaction("a", ["name"], *WHO, touched_days=[DAY]))
    assert only(lake, catalog, ChangeKind.CORRECTION).described == "correct a: name [redacted] -> [redacted]"


def test_a_redaction(lake: Lake, catalog: Catalog) -> None:
    redactions.record(lake, "events", Redaction("a", ["name", "mail"], *WHO, touched_days=[DAY]))
    assert only(lake, catalog, ChangeKind.REDACTION).described == "mask name, mail of a"


@pytest.mark.parametrize(
    ("operation", "kind", "described"),
    [
        (rebuild_requests.BUG_REPLAY, ChangeKind.REBUILD, "1 row judged differently"),
        (rebuild_requests.REPARSE, ChangeKind.REPARSE, "1 row read differently"),
    ],
)
def test_rebuilds_and_readings(lake: Lake, catalog: Catalog, operation: str, kind: ChangeKind, described: str) -> None:
    until = DAY + timedelta(days=2)
    request = RebuildRequest("events", operation, DAY, until, "a bug", "anna", "c", "c", "k", "k", AT, rows_judged_otherwise=1)
    rebuild_requests.record(lake, request)
    rebuild_requests.record(lake, replace(request, operation=rebuild_requests.BACKFILL, reason="of a plan"))
    change = only(lake, catalog, kind)
    assert (change.described, change.days, change.by) == (described, (DAY, until), "anna")
    assert len(change_list.changes(lake, catalog)) == 1, "what a plan requests belongs to the plan"


def test_a_stage_can_be_undone_while_it_is_promoted(lake: Lake, catalog: Catalog) -> None:
    created = StageEvent("mended", 1, StageEventKind.CREATED, "events", StageKind.FILES, "2 files", *WHO)
    seen = []
    for number, event in enumerate((StageEventKind.CREATED, StageEventKind.PROMOTED, StageEventKind.UNDONE), 1):
        stage_log.record(lake, replace(created, number=number, event=event))
        change = only(lake, catalog, ChangeKind.STAGE)
        seen.append((change.state, change.undo))
    undo = "lakehouse stage undo mended --by YOU --reason WHY"
    assert seen == [(ChangeState.PENDING, None), (ChangeState.APPLIED, undo), (ChangeState.UNDONE, None)]


def test_a_number_that_a_person_published_or_rejected(lake: Lake, catalog: Catalog) -> None:
    of_nobody = Publication("total", "p1", 1, "run", AT, published={"2024-02-01": "total_v2024-02-01.r1"})
    signed = replace(of_nobody, publication_id="p2", gold_version=2, signed_off_by="anna", sign_off_reason="seen")
    of_a_revert = replace(signed, publication_id="p3", gold_version=3, trigger={"reverted": {"2024-02-01": "r1"}})
    overruled = replace(signed, trigger={"held_since": f"{AT}", "overruled": {"nulls": "1 of 3"}})
    publications.log(lake).append([of_nobody, overruled, of_a_revert])
    change = only(lake, catalog, ChangeKind.SIGN_OFF)
    assert (change.change_id, change.described, change.by, change.reason) == ("p2", "publish 2024-02-01", "anna", "seen")
    held_numbers.record_rejected(lake, RejectedCandidate("total", DAY, 3, "content", *WHO), AT)
    assert only(lake, catalog, ChangeKind.REJECTION).described == "reject revision 3 of 2024-02-01"


def test_a_revert_of_two_days_stands_until_both_are_released(lake: Lake, catalog: Catalog) -> None:
    days = [DAY, DAY + timedelta(days=1)]
    held_numbers.keep_periods(lake, "total", dict.fromkeys(days, "r1"), "anna", "wrong file")
    change = only(lake, catalog, ChangeKind.REVERT)
    assert (change.described, change.periods) == ("keep r1 for 2024-02-01, 2024-02-02", tuple(days))
    held_numbers.release_periods(lake, "total", days[:1], "ben", "mended")
    [released, reverted] = sorted(change_list.changes(lake, catalog, [ChangeKind.REVERT]), key=lambda one: one.by, reverse=True)
    assert (released.described, reverted.periods, reverted.state) == (
        "2024-02-01 follow silver again",
        tuple(days[1:]),
        ChangeState.APPLIED,
    )
    held_numbers.release_periods(lake, "total", days[1:], "ben", "mended, too")
    assert change_list.find(lake, catalog, reverted.change_id).state is ChangeState.UNDONE


def test_what_was_done_to_a_series_is_listed_when_its_contract_is_gone(lake: Lake) -> None:
    held_numbers.keep_periods(lake, "former", {DAY: "r1"}, "anna", "wrong file")
    held_numbers.record_rejected(lake, RejectedCandidate("former", DAY, 3, "content", *WHO), AT)
    closed = {"closed_without": ["3 rows"]}
    entry = Publication("former", "p1", 1, "run", AT, signed_off_by="anna", sign_off_reason="seen", trigger=closed)
    publications.log(lake).append([entry])
    listed = change_list.changes(lake, Catalog())
    assert {(change.kind, change.target) for change in listed} == {
        (kind, "former") for kind in (ChangeKind.REVERT, ChangeKind.REJECTION, ChangeKind.SIGN_OFF)
    }


def test_a_promotion_can_be_undone_until_another_one_follows(lake: Lake, catalog: Catalog) -> None:
    forward = PromotionEntry("total", "m1", PromotionKind.PROMOTE, 1, 2, *WHO, 1, 31)
    promotion_log.log(lake).append([forward])
    change = only(lake, catalog, ChangeKind.PROMOTION)
    assert (change.described, change.undo) == ("promote v1 -> v2, 31 periods", "lakehouse gold rollback total --reason WHY")
    back = replace(forward, move_id="m2", kind=PromotionKind.ROLLBACK, from_version=2, to_version=1, gold_version=2)
    promotion_log.log(lake).append([replace(back, moved_at=AT + timedelta(1))])
    [newest, oldest] = change_list.changes(lake, catalog, [ChangeKind.PROMOTION])
    assert [(one.change_id, one.state, one.undo) for one in (oldest, newest)] == [
        ("m1", ChangeState.UNDONE, None),
        ("m2", ChangeState.APPLIED, None),
    ]


def test_cutoffs_and_watermarks(lake: Lake, catalog: Catalog) -> None:
    cutoff.record(lake, WatermarkDecision("events", None, None, 172_800, DAY, "anna", "p99", "proposal", "{}", AT))
    assert only(lake, catalog, ChangeKind.CUTOFF).described == "cutoff none -> 2 d for arrivals from 2024-02-01"
    event_watermark.record_decision(
        lake, MaxLatenessDecision("events", 1, "applied", 7200, 3600, 7200, "anna", "less", False, AT)
    )
    change = only(lake, catalog, ChangeKind.WATERMARK)
    assert (change.described, change.undo) == (
        "max_lateness applied: 2 h -> 1 h",
        "lakehouse lateness undo events --by YOU --reason WHY",
    )
    event_watermark.record_decision(lake, MaxLatenessDecision("events", 2, "pinned", 3600, 3600, 7200, "ben", "stay", False, AT))
    assert [one.undo for one in change_list.changes(lake, catalog, [ChangeKind.WATERMARK])] == [None, None]


def test_changes_are_listed_newest_first_and_named_by_the_beginning_of_their_id(lake: Lake, catalog: Catalog) -> None:
    for number in range(3):
        at = AT + timedelta(hours=number)
        held_numbers.record_rejected(lake, RejectedCandidate("total", DAY, number, "content", "anna", "no", at), at)
    assert [change.described[7:17] for change in change_list.changes(lake, catalog)] == [f"revision {n}" for n in (2, 1, 0)]
    assert change_list.find(lake, catalog, "total:2024-02-01:r2").recorded_at == AT + timedelta(hours=2)
    with pytest.raises(UnknownChangeError, match="3 changes begin with 'total:'; they are total:2024-02-01:r2, "):
        change_list.find(lake, catalog, "total:")
    with pytest.raises(UnknownChangeError, match="no change is called 'x'; the newest are total:2024-02-01:r2, "):
        change_list.find(lake, catalog, "x")
    assert Series(catalog.metrics["total"]).name == "total"
