"""The verdicts that a row of Bronze can get (rule R4): each disposition with its text, once.

The verdict of a row is determined by the contract and the stewards (:func:`barred`), by the policy (``reprocess_policy``), and by
the other claims about its key (``winners``).
"""

from __future__ import annotations

from dataclasses import dataclass

from lakehouse.ledger.row_states import AdmissionStatus, Disposition, StewardVerdict


@dataclass(frozen=True)
class RowVerdict:
    """The disposition of a row, and why; ``lives`` is whether silver holds the row."""

    disposition: Disposition
    because: str
    lives: bool = False


LIVES = RowVerdict(Disposition.APPLIED, "lives", lives=True)
ENDED_ITS_KEY = RowVerdict(Disposition.APPLIED, "ended its key")
SAYS_THE_SAME = RowVerdict(Disposition.DUPLICATE, "a newer record says the same")
SAME_EVENT = RowVerdict(Disposition.DUPLICATE, "the same event, by its synthetic key")
RETIRED = RowVerdict(Disposition.SUPERSEDED, "its key was corrected under another one")
#: A record of the key that lives, or a delete, outranks the row; it arrived after the row, or before.
NEWER_RECORD = RowVerdict(Disposition.SUPERSEDED, "a newer record counts")
NEWER_RECORD_WAS_HERE = RowVerdict(Disposition.SUPERSEDED, "a newer record counts, which was here before it")
#: The source orders both alike.
LATER_DELIVERY = RowVerdict(Disposition.SUPERSEDED, "tie, decided by delivery: the later one counts")
#: The content of the record that counts came before the row, and once more after it.
TAKEN_BACK = RowVerdict(Disposition.SUPERSEDED, "an older record was delivered again, and counts again")
DELETED = RowVerdict(Disposition.SUPERSEDED, "a delete counts")
DELETE_WAS_HERE = RowVerdict(Disposition.SUPERSEDED, "a delete counts, which was here before it")
#: The verdicts of a contest for a key.
CONTEST = (
    *(LIVES, ENDED_ITS_KEY, SAYS_THE_SAME, SAME_EVENT, RETIRED),
    *(NEWER_RECORD, NEWER_RECORD_WAS_HERE, LATER_DELIVERY, TAKEN_BACK, DELETED, DELETE_WAS_HERE),
)


def barred(status: str | None, detail: str | None, decided: str | None) -> RowVerdict | None:
    """The verdict on a row that may not contend for its key; None for a row that may.

    :param status: the contract's judgement (:class:`AdmissionStatus`), and ``detail`` its reason.
    :param decided: a steward's newest verdict (:class:`StewardVerdict`), if there is one; it outranks the contract.
    """
    if decided is not None:
        disposition = StewardVerdict(decided).barred_as
        return None if disposition is None else RowVerdict(disposition, "a steward's decision")
    disposition = AdmissionStatus(status).barred_as
    return None if disposition is None else RowVerdict(disposition, detail or "the contract's rule")
