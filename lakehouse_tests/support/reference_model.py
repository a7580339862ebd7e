"""Rule R2 in plain Python, written from the rule and not from the code: records in, live rows out."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import datetime


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
    delivered: tuple[date, str] | None = None

    @property
    def order(self) -> tuple[Any, ...]:
        """The total order; never the order of ingestion.

        Of records that their source orders alike, that of the later delivery is newer: ``delivered``, the newest arrival day
        and name under which its file came.
        """
        return self.sequence, self.arrival, self.delivered or (date.min, self.file), self.line


def deliver_again(known: list[Record], file: str, lines: Sequence[Record], delivered: tuple[date, str]) -> None:
    """Add the records of a file to those that are known; if they are, they count as of their newest delivery.

    :param file: the name of its content; the lines of records follow a header.
    :param delivered: its arrival day and name. On an arrival day on which it came before, it is found again, and not delivered.
    """
    before = [record for record in known if record.file == file]
    newest = before[0].delivered if before else None
    place = delivered if newest is None or newest[0] < delivered[0] else newest
    known[:] = [record for record in known if record.file != file]
    known += [replace(record, file=file, line=line, delivered=place) for line, record in enumerate(lines, 2)]


def live_rows(records: Iterable[Record], *, by_sequence: bool) -> dict[str, Record]:
    """The record that lives, per key that lives.

    :param by_sequence: whether the source's sequence decides what is newer; else an insert that arrives after the
        retirement of its key is the late original, and does not count.
    """
    claims: dict[str, list[tuple[str, Record]]] = defaultdict(list)
    for record in records:
        claims[record.key].append((record.op, record))
        if record.corrects not in {None, record.key}:
            claims[str(record.corrects)].append(("retire", record))
    alive: dict[str, Record] = {}
    for key, key_claims in claims.items():
        key_claims.sort(key=lambda claim: claim[1].order)
        changes = [claim for claim in key_claims if claim[0] != "insert"]
        retired = not by_sequence and bool(changes) and changes[-1][0] == "retire"
        kind, record = (changes if retired else key_claims)[-1]
        if kind in {"insert", "correct"}:
            alive[key] = record
    return alive


def resent_days(
    records: Iterable[Record],
    max_shrink: float,
    arrivals: Mapping[str, date],
    accepted: Collection[tuple[date, str]] = (),
    barred: Mapping[tuple[date, str], int] | None = None,
) -> tuple[list[Record], set[tuple[date, str]]]:
    """The records that live where a re-sent day replaces the day: of its newest file, the newest record of each key.

    :param records: those that may count.
    :param arrivals: the arrival day of each file: one of its own, so that each is a delivery.
    :param max_shrink: a file that lacks more than this share of the rows of the file before it does not count.
    :param accepted: days of files that a person accepted although they shrink the day.
    :param barred: how many rows a person barred one by one, of a file's day: the file held them all the same.
    :returns: these records, and the days of files that are held.
    """
    days: dict[date, dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        if record.day is not None:
            days[record.day][record.file].append(record)
    alive: list[Record] = []
    held: set[tuple[date, str]] = set()
    for day, files in days.items():
        current: list[Record] = []
        size = 0
        for file, rows in sorted(files.items(), key=lambda item: arrivals[item[0]]):
            held_of_day = len(rows) + (barred or {}).get((day, file), 0)
            if (day, file) in accepted or held_of_day >= size * (1 - max_shrink):
                current, size = rows, held_of_day
            else:
                held.add((day, file))
        newest = {row.key: row for row in sorted(current, key=lambda row: row.order)}
        alive += newest.values()
    return alive, held
