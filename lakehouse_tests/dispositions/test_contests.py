"""What became of each record of a key, from its claims alone."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from itertools import count
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.dispositions import winners
from lakehouse.dispositions.reprocess_policy import MergePolicy
from lakehouse.ledger.row_states import Disposition
from lakehouse_tests.support.disposed_claims import claims_table, dispose
from lakehouse_tests.support.reference_model import Record, live_rows
from lakehouse_tests.support.row_by_row import Claim, Outcome, winner

if TYPE_CHECKING:
    from lakehouse.ledger.ids import RowId

NOON = datetime(2024, 2, 1, 12, tzinfo=timezone.utc)
APPLIED, SUPERSEDED, DUPLICATE = Disposition.APPLIED, Disposition.SUPERSEDED, Disposition.DUPLICATE


def claim(line: int, kind: str, hour: int, sequence: int = 0) -> Claim:
    day = date(2024, 1, 1) if kind in {"insert", "correct"} else None
    return Claim(kind, sequence, NOON + timedelta(hours=hour), "file", line, day)


def merged(claims: list[Claim], content: dict[RowId, Any], *, by_sequence: bool) -> dict[RowId, Outcome]:
    """What became of the rows of one key."""
    return dispose(MergePolicy(by_sequence=by_sequence, one_event=False, max_shrink=0.5), {"key": claims}, content)


def judged(claims: list[Claim], content: dict[int, Any] | None = None, *, by_sequence: bool = False) -> dict[int, Disposition]:
    """Disposition by line; lines have different contents unless given otherwise."""
    says = {one.row: (content or {}).get(one.line_number, f"line {one.line_number}") for one in claims}
    return {line: row.disposition for (_, line), row in merged(claims, says, by_sequence=by_sequence).items()}


def test_the_newest_record_is_applied_and_the_older_superseded() -> None:
    assert judged([claim(1, "insert", 1), claim(2, "correct", 2)]) == {1: SUPERSEDED, 2: APPLIED}


def test_a_stale_record_that_comes_later_is_superseded() -> None:
    assert judged([claim(1, "correct", 5), claim(2, "insert", 1)]) == {1: APPLIED, 2: SUPERSEDED}


def test_a_delete_is_applied_and_ends_what_was_before() -> None:
    claims = [claim(1, "insert", 1), claim(2, "delete", 2)]
    assert judged(claims) == {1: SUPERSEDED, 2: APPLIED}
    found = merged(claims, {one.row: one for one in claims}, by_sequence=False)
    assert found["file", 1].because == "a delete counts"
    assert found["file", 2].because == "ended its key"


def test_a_record_sent_again_is_a_duplicate_of_the_newer_one() -> None:
    claims = [claim(1, "insert", 1), claim(2, "insert", 2), claim(3, "insert", 3)]
    assert judged(claims, {1: "same", 2: "same", 3: "same"}) == {1: DUPLICATE, 2: DUPLICATE, 3: APPLIED}
    assert judged(claims, {1: "same", 2: "other", 3: "same"}) == {1: DUPLICATE, 2: SUPERSEDED, 3: APPLIED}


def test_a_key_corrected_under_another_one_has_no_applied_row() -> None:
    claims = [claim(1, "insert", 1), claim(2, "retire", 2), claim(3, "insert", 3)]
    assert judged(claims) == {1: SUPERSEDED, 3: SUPERSEDED}
    assert judged([*claims, claim(4, "correct", 4)]) == {1: SUPERSEDED, 3: SUPERSEDED, 4: APPLIED}
    assert judged(claims, by_sequence=True) == {1: SUPERSEDED, 3: APPLIED}, "the sequence says that the original is newer"


def test_where_the_source_numbers_its_changes_the_number_decides() -> None:
    assert judged([claim(1, "insert", 1, sequence=2), claim(2, "insert", 5, sequence=1)], by_sequence=True) == {
        1: APPLIED,
        2: SUPERSEDED,
    }


DRAWN = st.tuples(st.sampled_from(["insert", "correct", "delete", "retire"]), st.integers(0, 3), st.integers(0, 2))


@given(st.dictionaries(st.sampled_from("abc"), st.lists(DRAWN, min_size=1, max_size=5)), st.booleans())
def test_one_claim_wins_each_key(drawn: dict[str, list[tuple[str, int, int]]], by_sequence: bool) -> None:
    lines = count()
    claims = {
        key: [claim(next(lines), kind, hour, number if by_sequence else 0) for kind, hour, number in of_key]
        for key, of_key in drawn.items()
    }
    won = winners.winners(claims_table(claims), by_sequence=by_sequence).to_pylist()
    assert {row["record_key"]: (row["ingestion_id"], row["line_number"], row["retired"]) for row in won} == {
        key: (*winner(of_key, by_sequence=by_sequence).row, any(one.kind == "retire" for one in of_key))
        for key, of_key in claims.items()
    }
    assert len(won) == len(claims)


@given(st.lists(DRAWN, min_size=1, max_size=7), st.booleans())
def test_every_row_has_one_disposition_and_what_lives_is_what_the_rule_says(
    drawn: list[tuple[str, int, int]], by_sequence: bool
) -> None:
    claims, records = [], []
    for line, (kind, hour, number) in enumerate(drawn):
        sequence = number if by_sequence else 0
        claims.append(claim(line, kind, hour, sequence))
        day, retires = date(2024, 1, 1), kind == "retire"
        records.append(
            Record(
                key=f"other {line}" if retires else "key",
                op="correct" if retires else kind,  # type: ignore[arg-type]
                day=day,
                amount=0,
                arrival=NOON + timedelta(hours=hour),
                corrects="key" if retires else None,
                sequence=sequence,
                file="file",
                line=line,
            )
        )
    found = merged(claims, {one.row: one.line_number for one in claims}, by_sequence=by_sequence)
    assert set(found) == {one.row for one in claims if one.kind != "retire"}
    applied = [row for row, verdict in found.items() if verdict.disposition is APPLIED]
    won = winner(claims, by_sequence=by_sequence)
    assert applied == ([won.row] if won.kind != "retire" else [])
    living = live_rows(records, by_sequence=by_sequence).get("key")
    assert (won.row if won.lives else None) == (("file", living.line) if living else None)
