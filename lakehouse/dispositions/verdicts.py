"""What became of each record, and why (rule R4), key by key.

Here is the judgement over the claims about one key, and over rows that may not contend for it. Where claims come from is
told by ``ledger.key_log``; the same choice of a winner over millions of keys is made by Spark in ``silver.merge``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date, datetime

    from lakehouse.ledger.row_ids import RowId


class Disposition(str, Enum):
    """Every row of Bronze has exactly one."""

    APPLIED = "applied"
    SUPERSEDED = "superseded"
    DUPLICATE = "duplicate"
    QUARANTINED = "quarantined"
    REJECTED = "rejected"
    MALFORMED = "malformed"
    DROPPED = "dropped"


@dataclass(frozen=True)
class Claim:
    """What one row says about one key: insert, correct, delete, or (a row of another key) retire."""

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
        """The total order of R2; one greater is newer."""
        return self.sequence, self.arrival_ts, self.ingestion_id, self.line_number

    @property
    def lives(self) -> bool:
        """Whether it puts a row into silver, where it wins."""
        return self.kind in {"insert", "correct"}


@dataclass(frozen=True)
class Verdict:
    """The disposition of a row, and the claim that outranks it; ``lives`` where silver holds the row."""

    disposition: Disposition
    because: str
    outranked_by: Claim | None = None
    lives: bool = False


def winner(claims: Sequence[Claim], *, by_sequence: bool) -> Claim:
    """The claim that counts among all about one key (R2).

    :param by_sequence: whether the source numbers its changes. Where it does not, an insert behind the retirement of its key
        is the original arriving late, and does not count.
    """
    greatest = max(claims, key=lambda claim: claim.order)
    if by_sequence:
        return greatest
    changes = [claim for claim in claims if claim.kind != "insert"]
    newest_change = max(changes, key=lambda claim: claim.order, default=None)
    return newest_change if newest_change is not None and newest_change.kind == "retire" else greatest


#: What a word of a steward that bars a row makes of it.
_BARRED_BY_HAND = {"reject": Disposition.REJECTED, "duplicate": Disposition.DUPLICATE}


def barred(standing: str, detail: str | None, decided: str | None) -> Verdict | None:
    """What became of a row that may not contend for its key; None for one that may.

    :param standing: what the contract says of it (see ``dispositions.admission``), and ``detail`` why.
    :param decided: what a steward decided last, if anything; it outranks the contract.
    """
    if decided == "accept" or (decided is None and standing == "admitted"):
        return None
    if decided is not None:
        return Verdict(_BARRED_BY_HAND[decided], "a steward's decision")
    return Verdict(Disposition(standing), detail or "the contract's rule")


def verdicts(
    claims: Sequence[Claim], content: Mapping[RowId, Any], *, by_sequence: bool, one_event: bool = False
) -> dict[RowId, Verdict]:
    """What became of each row whose own key this is.

    :param claims: every claim of an admitted row about the key.
    :param one_event: whether several inserts of the key tell of one event, as a synthetic key has it.
    :param content: what each row says, without when and where it came from; needed for keys with several rows.
    """
    won = winner(claims, by_sequence=by_sequence)
    own = sorted((claim for claim in claims if claim.kind != "retire"), key=lambda claim: claim.order, reverse=True)
    found: dict[RowId, Verdict] = {}
    for rank, claim in enumerate(own):
        if claim == won:
            what = "lives" if claim.lives else "ended its key"
            found[claim.row] = Verdict(Disposition.APPLIED, what, lives=claim.lives)
            continue
        says = content.get(claim.row)
        same = next((newer for newer in own[:rank] if says is not None and content.get(newer.row) == says), None)
        if same is not None:
            found[claim.row] = Verdict(Disposition.DUPLICATE, "a newer record says the same", same)
        elif one_event and claim.kind == "insert" and won.lives:
            found[claim.row] = Verdict(Disposition.DUPLICATE, "the same event, by its synthetic key", won)
        elif won.kind == "retire":
            found[claim.row] = Verdict(Disposition.SUPERSEDED, "its key was corrected under another one", won)
        else:
            by = "a newer record" if won.lives else "a delete"
            when = "" if won.arrival_ts >= claim.arrival_ts else ", which was here before it"
            found[claim.row] = Verdict(Disposition.SUPERSEDED, f"{by} counts{when}", won)
    return found
