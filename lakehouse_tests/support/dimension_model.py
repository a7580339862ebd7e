"""A plain model of a dimension, written from its definition: what is valid at each time, and the intervals that follow from it.

The product joins neighbours of sorted changes; the model asks for every moment at which something may change what holds then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

#: The delivery of a record where only one file comes.
ONLY = (date.min, "")
START = datetime(2024, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class DimensionRecord:
    """One record about a key at a time. Its place in the total order is its arrival, then that of its file, then its line.

    ``delivered`` is the arrival day and the name of a delivery of its file.
    """

    key: str
    at: datetime
    op: str
    tier: str | None
    region: str | None
    email: str | None
    until: datetime | None
    arrival: datetime
    file: str = ""
    line: int = 0
    delivered: tuple[date, str] = ONLY


class ModelInterval(NamedTuple):
    """An interval of a key; ``tier`` and ``region`` are tracked, ``email`` is not."""

    key: str
    valid_from: datetime
    valid_to: datetime | None
    tier: str | None
    region: str | None
    email: str | None
    file: str
    line: int


def changes(records: Iterable[DimensionRecord]) -> dict[str, list[DimensionRecord]]:
    """By key, in the order of their times, the changes that hold: the greatest record about each time, unless it retracts."""
    records = list(records)
    places = _places(records)
    greatest: dict[tuple[str, datetime], DimensionRecord] = {}
    for record in sorted(records, key=lambda one: (one.arrival, places[one.file], one.file, one.line)):
        greatest[record.key, record.at] = record
    held: dict[str, list[DimensionRecord]] = {}
    for record in sorted((one for one in greatest.values() if one.op != "retract"), key=lambda one: one.at):
        held.setdefault(record.key, []).append(record)
    return held


def _places(records: list[DimensionRecord]) -> dict[str, tuple[date, str]]:
    """Of each file its newest delivery; on an arrival day on which it came before, it is found again, and not delivered."""
    places: dict[str, tuple[date, str]] = {}
    for record in records:
        place = places.get(record.file)
        if place is None or place[0] < record.delivered[0]:
            places[record.file] = record.delivered
    return places


def in_force(of_key: list[DimensionRecord], moment: datetime) -> DimensionRecord | None:
    """The change that says what is valid at a moment; None if nothing is."""
    begun = [change for change in of_key if change.at <= moment]
    if not begun or begun[-1].op == "delete":
        return None
    return None if begun[-1].until is not None and begun[-1].until <= moment else begun[-1]


def intervals(records: Iterable[DimensionRecord]) -> set[ModelInterval]:
    """The intervals of all keys."""
    closed: set[ModelInterval] = set()
    for key, of_key in changes(records).items():
        moments = sorted({change.at for change in of_key} | {change.until for change in of_key if change.until is not None})
        contents = [change for change in of_key if change.op != "delete"]
        open_one: ModelInterval | None = None
        for moment in moments:
            change = in_force(of_key, moment)
            if open_one is not None and (change is None or (change.tier, change.region) != (open_one.tier, open_one.region)):
                closed.add(open_one._replace(valid_to=moment))
                open_one = None
            if change is not None and open_one is None:
                email = contents[-1].email
                open_one = ModelInterval(key, moment, None, change.tier, change.region, email, change.file, change.line)
        if open_one is not None:
            closed.add(open_one)
    return closed


def valid_at(records: Iterable[DimensionRecord], moment: datetime) -> set[ModelInterval]:
    """The intervals in which a moment lies."""
    return {one for one in intervals(records) if one.valid_from <= moment and (one.valid_to is None or moment < one.valid_to)}


def day(number: float) -> datetime:
    """A time, by its distance from the first day."""
    return START + timedelta(days=number)


def arrived(record: DimensionRecord, file: str, line: int, delivered: tuple[date, str] = ONLY) -> DimensionRecord:
    """The record with its place in a file, and the file's delivery."""
    return replace(record, file=file, line=line, delivered=delivered)
