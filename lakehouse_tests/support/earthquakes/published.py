"""What readers of the real history's daily numbers must have seen, worked out from its files by plain Python.

Nothing of the project is used here but the names of the states: a day is published again whenever its numbers or its state
differ from those at the end of the arrival day before.
"""

from __future__ import annotations

import csv
import gzip
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING

from lakehouse_tests.support.earthquakes.history import BATCHES

if TYPE_CHECKING:
    from collections.abc import Iterable

#: As the bundled contracts have them: how far the watermark is behind the newest event, and past a day that becomes final.
MAX_LATENESS, TIER = timedelta(hours=6), timedelta(days=1)
BEGINNING = datetime.min.replace(tzinfo=timezone.utc)
Numbers = tuple[int, int, Decimal, Decimal | None]
EMPTY: Numbers = (0, 0, Decimal(0), None)


@dataclass
class Published:
    """Takes arrival days in order; ``seen`` are the numbers and states of each event day as readers saw them.

    :param newest_keys: the keys of the newest arrival day.
    """

    rows: dict[str, tuple[date, Decimal | None]] = field(default_factory=dict)
    seen: dict[date, list[tuple[Numbers, str]]] = field(default_factory=dict)
    newest_event: datetime = field(default=BEGINNING)
    newest_keys: set[str] = field(default_factory=set)

    @property
    def watermark(self) -> datetime:
        return self.newest_event - MAX_LATENESS

    def arrive(self, arrival: date) -> dict[date, Numbers]:
        """The numbers of each day that has events, after an arrival day."""
        self.newest_keys = set()
        with gzip.open(BATCHES / f"arrival_date={arrival}.csv.gz", "rt") as file:
            for row in csv.DictReader(file):
                self.newest_event = max(self.newest_event, min(moment(row["event_ts"]), moment(row["arrival_ts"])))
                self.newest_keys.add(row["event_id"])
                if row["op"] == "delete":
                    self.rows.pop(row["event_id"], None)
                else:
                    magnitude = Decimal(row["mag"]).quantize(Decimal("0.01")) if row["mag"] else None
                    self.rows[row["event_id"]] = (date.fromisoformat(row["event_ts"][:10]), magnitude)
        now = self.numbers()
        for day in {*now, *self.seen}:
            said = (now.get(day, EMPTY), state(day, arrival, self.watermark))
            seen = self.seen.setdefault(day, [])
            if not seen or seen[-1] != said:
                seen.append(said)
        return now

    def numbers(self) -> dict[date, Numbers]:
        days: dict[date, list[Decimal | None]] = defaultdict(list)
        for day, magnitude in self.rows.values():
            days[day].append(magnitude)
        return {day: totals(magnitudes) for day, magnitudes in days.items()}


def totals(magnitudes: Iterable[Decimal | None]) -> Numbers:
    every = list(magnitudes)
    known = [one for one in every if one is not None]
    return len(every), len(known), sum(known, Decimal(0)), max(known, default=None)


def state(day: date, today: date, watermark: datetime) -> str:
    age, end = (today - day).days, datetime.combine(day + timedelta(days=1), time(), timezone.utc)
    if age >= 7 and watermark >= end + TIER:
        return "final"
    return "preliminary" if age >= 1 and watermark >= end else "live"


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
