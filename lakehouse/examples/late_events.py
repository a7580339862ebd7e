"""A seeded stream of events, a share of which arrives days late, and the contracts for publishing it.

Only the texts of files and contracts are generated here; the caller writes and ingests them. The demo's stream with corrections
and deletes is in ``sales_stream``.
"""

from __future__ import annotations

import csv
import io
import random
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING

from lakehouse.calendar.periods import Calendar, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

#: A Monday, so that whole weeks of days are whole weeks of the roll-up.
FIRST_DAY = date(2024, 11, 4)
#: A day is due two days after its end; its rows are waited for longer than that.
FINAL_AFTER = 2
MAX_LATENESS, IDLE_TIMEOUT = timedelta(hours=48), timedelta(hours=12)
SOURCE = "simulation_events"
METRIC = "simulation_revenue"
_HEADER = ("event_id", "happened_at", "amount", "received_at")
_HOUR = 3600
#: A file holds the events of this many hours, so that the watermark moves within a day.
_HOURS_OF_FILE = 6
#: An event that is not late arrives within an hour, and on the same day.
_LAST_HOUR = 23

CONTRACTS = {
    f"{SOURCE}.yaml": f"""\
# Written by `lakehouse demo simulate`.
dataset: {SOURCE}
description: Events of a seeded simulation, some of which arrive late.
owner: simulation
primary_key: [event_id]
source:
  landing: "arrival_date={{arrival_date}}*.csv"
  format: csv
  start_date: {FIRST_DAY}
clocks:
  event: happened_at
  arrival: received_at
  watermark: {{strategy: bounded, max_lateness: PT48H, idle_timeout: PT12H}}
model:
  fields:
    - {{name: event_id, type: string, required: true}}
    - {{name: amount, type: "decimal(12,2)", required: true}}
""",
    f"{METRIC}.yaml": f"""\
# Written by `lakehouse demo simulate`.
metric: {METRIC}
description: Revenue of a simulated day.
owner: simulation
source: {SOURCE}
measures:
  - {{name: revenue, sql: sum(amount), type: "decimal(18,2)", additive: true}}
  - {{name: events, sql: count(*), type: long, additive: true}}
publication:
  preliminary_after: 1
  final_after: {FINAL_AFTER}
  after_close: adjust
  rollups: [week]
""",
}


@dataclass(frozen=True)
class Options:
    """The options of a simulation: the same options generate the same events.

    ``late_share`` is the share of late events, rounded to whole events; ``late_hours`` is the smallest and the greatest delay.
    """

    days: int = 14
    events: int = 200
    late_share: float = 0.1
    late_hours: tuple[int, int] = (24, 72)
    seed: int = 7

    def summary(self) -> dict[str, object]:
        """The options as labels and values for people."""
        least, most = self.late_hours
        return {
            "days": self.days,
            "events per day": self.events,
            "late share": f"{100 * self.late_share:g} %",
            "late by": f"{least} to {most} hours",
            "seed": self.seed,
        }


@dataclass(frozen=True)
class Event:
    """One event: when it happened, when it arrived, and its amount."""

    event_id: str
    happened_at: datetime
    amount: Decimal
    received_at: datetime


def events(options: Options) -> list[Event]:
    """All events, by day and number."""
    chance = random.Random(options.seed)  # noqa: S311 (a simulation, no secret)
    count = options.days * options.events
    late = set(chance.sample(range(count), round(count * options.late_share)))
    return [_event(chance, options, number, late=number in late) for number in range(count)]


def files(made: Iterable[Event]) -> dict[str, str]:
    """The files, as file name to text: four files per arrival day, named after their first hour."""
    by_file: dict[tuple[date, int], list[Event]] = {}
    for event in sorted(made, key=lambda one: (one.received_at, one.event_id)):
        first_hour = event.received_at.hour // _HOURS_OF_FILE * _HOURS_OF_FILE
        by_file.setdefault((event.received_at.date(), first_hour), []).append(event)
    return {f"arrival_date={day}.{hour:02}h.csv": _text(arrived) for (day, hour), arrived in by_file.items()}


def clock_days(made: Iterable[Event]) -> list[date]:
    """The days to replay: from the first day until all events have arrived and all days and weeks are final."""
    last_event = max(event.happened_at.date() for event in made)
    last_arrival = max(event.received_at.date() for event in made)
    of_week = Calendar().containing(last_event, Kind.WEEK).last
    # At the end nothing moves the watermark but the clock, which may begin a timeout after the last arrival.
    passed = max(last_arrival, of_week + timedelta(days=1) + MAX_LATENESS) + IDLE_TIMEOUT + timedelta(days=1)
    last = max(passed, of_week + timedelta(days=FINAL_AFTER))
    return [FIRST_DAY + timedelta(days=offset) for offset in range((last - FIRST_DAY).days + 1)]


def _event(chance: random.Random, options: Options, number: int, *, late: bool) -> Event:
    day, of_day = divmod(number, options.events)
    midnight = datetime.combine(FIRST_DAY + timedelta(days=day), time.min, timezone.utc)
    happened = midnight + timedelta(seconds=chance.randrange(_LAST_HOUR * _HOUR))
    least, most = (hours * _HOUR for hours in options.late_hours)
    delay = chance.randint(least, most) if late else chance.randrange(_HOUR)
    amount = Decimal(f"{chance.lognormvariate(3, 0.6):.2f}")
    return Event(f"E{day:04}-{of_day:06}", happened, amount, happened + timedelta(seconds=delay))


def _text(arrived: Iterable[Event]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_HEADER)
    for one in arrived:
        writer.writerow([one.event_id, _moment(one.happened_at), one.amount, _moment(one.received_at)])
    return out.getvalue()


def _moment(when: datetime) -> str:
    return f"{when:%Y-%m-%dT%H:%M:%SZ}"
