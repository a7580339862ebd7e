"""Rule R2 in plain Python, written from the rule and not from the code: records in, live rows out."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import date, datetime


@dataclass(frozen=True)
class Record:
    """One line of one file. Only a delete may have no ``day``."""

    key: str
    op: Literal["insert", "correct", "delete"]
    day: date | None
    amount: int
    arrival: datetime
    corrects: str | None = None
    sequence: int = 0
    file: str = ""
    line: int = 0

    @property
    def order(self) -> tuple[int, datetime, str, int]:
        """The total order; never the order of ingestion."""
        return self.sequence, self.arrival, self.file, self.line


def live_rows(records: Iterable[Record], *, by_sequence: bool) -> dict[str, Record]:
    """The record that lives, per key that lives.

    :param by_sequence: whether the source's sequence tells what is newer; else an insert that arrives behind the
        retirement of its key is the late original, and does not count.
    """
    claims: dict[str, list[tuple[str, Record]]] = defaultdict(list)
    for record in records:
        claims[record.key].append((record.op, record))
        if record.corrects not in {None, record.key}:
            claims[str(record.corrects)].append(("retire", record))
    alive: dict[str, Record] = {}
    for key, said in claims.items():
        said.sort(key=lambda claim: claim[1].order)
        changes = [claim for claim in said if claim[0] != "insert"]
        retired = not by_sequence and bool(changes) and changes[-1][0] == "retire"
        kind, record = (changes if retired else said)[-1]
        if kind in {"insert", "correct"}:
            alive[key] = record
    return alive
