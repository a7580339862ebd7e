"""The vocabularies of a row's state agree with each other, and ids of inputs name their kind."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

import pytest

from lakehouse.dispositions.account_tables import is_overdue
from lakehouse.ledger.ids import InputKind, format_row_id, is_manual_input, parse_row_id
from lakehouse.ledger.row_states import AdmissionStatus, Disposition, QuarantineStatus, StewardVerdict
from lakehouse.stewardship.quarantine import StatusFilter

NOON = datetime(2024, 2, 1, 12, tzinfo=timezone.utc)


@pytest.mark.parametrize("state", [AdmissionStatus.DROPPED, QuarantineStatus.OPEN, StewardVerdict.ACCEPT, Disposition.APPLIED])
def test_a_state_is_written_as_its_value(state: AdmissionStatus) -> None:
    assert f"{state}" == str(state) == json.loads(json.dumps(state)) == state.value


def test_only_admitted_and_accepted_rows_may_contend() -> None:
    assert [status for status in AdmissionStatus if status.barred_as is None] == [AdmissionStatus.ADMITTED]
    assert [verdict for verdict in StewardVerdict if verdict.barred_as is None] == [StewardVerdict.ACCEPT]


def test_a_verdict_closes_the_review_and_has_its_participle() -> None:
    closed = {verdict.value: (verdict.status.value, verdict.participle) for verdict in StewardVerdict}
    assert closed == {
        "accept": ("accepted", "accepted"),
        "reject": ("rejected", "rejected"),
        "duplicate": ("duplicate", "called a duplicate"),
    }


def test_the_filter_knows_every_status_and_any() -> None:
    assert [word.status for word in StatusFilter] == [*QuarantineStatus, None]


@pytest.mark.parametrize(("status", "hours", "overdue"), [("open", 1, True), ("open", 0, False), ("accepted", 1, False)])
def test_a_review_is_overdue_while_it_is_open_past_its_deadline(status: str, hours: int, overdue: bool) -> None:
    entry = {"quarantine_status": status, "quarantine_review_by": NOON}
    assert is_overdue(entry, NOON + timedelta(hours=hours)) == overdue


def test_ids_of_inputs_name_their_kind_and_are_the_same_for_the_same_content() -> None:
    ids = {kind: kind.id_of("content") for kind in InputKind}
    assert [input_id.partition(":")[0] for input_id in ids.values()] == ["decision", "redaction", "operation", "late"]
    assert ids == {kind: kind.id_of("content") for kind in InputKind}
    assert all(is_manual_input(input_id) for input_id in ids.values())
    assert not is_manual_input("3f1c0b9a7d2e4f60")
    assert InputKind.DECISION.is_kind_of(ids[InputKind.DECISION])
    assert not InputKind.DECISION.is_kind_of(ids[InputKind.REDACTION])


def test_a_row_id_is_parsed_as_it_was_formatted() -> None:
    assert parse_row_id(format_row_id(("3f1c", 17))) == ("3f1c", 17)
    for text in ("", "3f1c", "3f1c:", ":17", "3f1c:x", "3f1c:\u0661"):
        with pytest.raises(ValueError, match="is no row"):
            parse_row_id(text)
