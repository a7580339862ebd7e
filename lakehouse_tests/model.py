"""Rule R2 in plain Python, written from the rule and not from the code: records in, live rows out."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
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


def resent_days(records: Iterable[Record], max_shrink: float, accepted: Collection[tuple[str, int]]) -> list[Record]:
    """The records that live where a re-sent day replaces the day: of its newest file, the newest record of each key.

    :param max_shrink: a file that lacks more than this share of the rows of the file before it does not count.
    :param accepted: rows, as (file, line), that a person accepted: their file counts for their day all the same.
    """
    days: dict[date, dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        if record.day is not None:
            days[record.day][record.file].append(record)
    alive: list[Record] = []
    for files in days.values():
        current: list[Record] = []
        for file in sorted(files.values(), key=lambda rows: max(row.order for row in rows)):
            waved_through = any((row.file, row.line) in accepted for row in file)
            if waved_through or len(file) >= len(current) * (1 - max_shrink):
                current = file
        newest = {row.key: row for row in sorted(current, key=lambda row: row.order)}
        alive += newest.values()
    return alive
