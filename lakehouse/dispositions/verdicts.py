"""What became of each record, and why (rule R4), key by key.

This module judges the claims about one key, and the rows that may not contend for it. Claims are read from
``ledger.key_log``; Spark chooses the same winners among millions of keys in ``silver.merge``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakehouse.ledger.row_states import Disposition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date, datetime

    from lakehouse.ledger.row_ids import RowId
    from lakehouse.ledger.row_states import AdmissionStatus, StewardVerdict


@dataclass(frozen=True)
class Claim:
    """The claim of one row about one key: insert, correct, delete, or (by a row of another key) retire."""

    kind: str
    sequence: int
    arrival_ts: datetime
    ingestion_id: str
    line_number: int
    event_date: date | None

    @property
    def row(self) -> RowId:
        """The row that makes the claim."""
        return self.ingestion_id, self.line_number

    @property
    def order(self) -> tuple[int, datetime, str, int]:
        """The place in the total order of R2; a greater one is newer."""
        return self.sequence, self.arrival_ts, self.ingestion_id, self.line_number

    @property
    def lives(self) -> bool:
        """Whether it puts a row into silver if it wins."""
        return self.kind in {"insert", "correct"}


@dataclass(frozen=True)
class RowVerdict:
    """The disposition of a row, and the claim that outranks it; ``lives`` is whether silver holds the row."""

    disposition: Disposition
    because: str
    outranked_by: Claim | None = None
    lives: bool = False


def winner(claims: Sequence[Claim], *, by_sequence: bool) -> Claim:
    """The winner among all claims about one key (R2).

    :param by_sequence: whether the source numbers its changes. Where it does not, an insert that arrives after the retirement
        of its key is the original arriving late, and does not count.
    """
    greatest = max(claims, key=lambda claim: claim.order)
    if by_sequence:
        return greatest
    changes = [claim for claim in claims if claim.kind != "insert"]
    newest_change = max(changes, key=lambda claim: claim.order, default=None)
    return newest_change if newest_change is not None and newest_change.kind == "retire" else greatest


def barred(status: AdmissionStatus, detail: str | None, decided: StewardVerdict | None) -> RowVerdict | None:
    """What became of a row that may not contend for its key; None for one that may.

    :param status: the contract's judgement (see ``admission``), and ``detail`` its reason.
    :param decided: a steward's newest verdict, if there is one; it outranks the contract.
    """
    disposition = status.barred_as if decided is None else decided.barred_as
    if disposition is None:
        return None
    return RowVerdict(disposition, "a steward's decision" if decided is not None else detail or "the contract's rule")


def verdicts(
    claims: Sequence[Claim], content: Mapping[RowId, Any], *, by_sequence: bool, one_event: bool = False
) -> dict[RowId, RowVerdict]:
    """The verdict on each row whose own key this is.

    :param claims: every claim of an admitted row about the key.
    :param content: the content of each row without its provenance; needed for keys with several rows.
    :param one_event: whether several inserts of the key are one event, as under a synthetic key.
    """
    winning = winner(claims, by_sequence=by_sequence)
    newest_first = sorted((claim for claim in claims if claim.kind != "retire"), key=lambda claim: claim.order, reverse=True)
    result: dict[RowId, RowVerdict] = {}
    for rank, claim in enumerate(newest_first):
        if claim == winning:
            because = "lives" if claim.lives else "ended its key"
            result[claim.row] = RowVerdict(Disposition.APPLIED, because, lives=claim.lives)
            continue
        equal = _first_with_content(newest_first[:rank], content, content.get(claim.row))
        if equal is not None:
            result[claim.row] = RowVerdict(Disposition.DUPLICATE, "a newer record says the same", equal)
        elif one_event and claim.kind == "insert" and winning.lives:
            result[claim.row] = RowVerdict(Disposition.DUPLICATE, "the same event, by its synthetic key", winning)
        elif winning.kind == "retire":
            result[claim.row] = RowVerdict(Disposition.SUPERSEDED, "its key was corrected under another one", winning)
        else:
            rival = "a newer record" if winning.lives else "a delete"
            timing = "" if winning.arrival_ts >= claim.arrival_ts else ", which was here before it"
            result[claim.row] = RowVerdict(Disposition.SUPERSEDED, f"{rival} counts{timing}", winning)
    return result


def _first_with_content(claims: Sequence[Claim], content: Mapping[RowId, Any], wanted: Any) -> Claim | None:
    """The first claim whose row has the wanted content; None if the content is not known."""
    return next((claim for claim in claims if wanted is not None and content.get(claim.row) == wanted), None)
