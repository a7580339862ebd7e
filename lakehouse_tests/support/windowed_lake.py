"""Events at times of a day, in a real lake with windows over them, and what is published of them by a plain model."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from lakehouse import locations
from lakehouse.contracts.source import SourceContract
from lakehouse_tests.support.united_lake import UnitedLake, metric

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lakehouse.contracts.series import Series

#: In the zone the clock goes back on the third day, which has 25 hours.
ZONE = "Europe/Berlin"
FIRST = date(2024, 10, 25)
DAYS = 4
ARRIVES = date(2024, 10, 31)
#: The first moment of the first day.
BEGINS = datetime(2024, 10, 25, tzinfo=ZoneInfo(ZONE)).astimezone(timezone.utc)
_TOTAL = {"name": "total", "sql": "sum(amount)", "type": "bigint", "additive": True}
_SPREAD = {"name": "spread", "sql": "max(amount) - min(amount)", "type": "bigint"}
_RULES = {"final_after": 90}
TUMBLING = {"metric": "hourly", "source": "orders", "measures": [_TOTAL], "window": {"size": "PT1H"}, "publication": _RULES}
SLIDING = {
    "metric": "sliding",
    "source": "orders",
    "measures": [_TOTAL, _SPREAD],
    "window": {"size": "PT2H", "every": "PT30M"},
    "publication": _RULES,
}
SESSIONS = {
    "metric": "sessions",
    "source": "orders",
    "measures": [
        {"name": "sessions", "sql": "max(1)", "type": "bigint", "additive": True},
        _TOTAL,
        {"name": "minutes", "sql": "(unix_seconds(max(event_ts)) - unix_seconds(min(event_ts))) / 60", "type": "bigint"},
    ],
    "window": {"gap": "PT6H", "key": "user"},
    "publication": _RULES,
}
#: By first moment of a window the measures and the number of rows.
Windows = dict[datetime, tuple[int, ...]]


def source() -> SourceContract:
    fields = [{"name": "id", "type": "string"}, {"name": "amount", "type": "int"}, {"name": "user", "type": "string"}]
    return SourceContract.model_validate(
        {
            "dataset": "orders",
            "primary_key": ["id"],
            "model": {"fields": fields},
            "source": {"landing": "orders.arrival_date={arrival_date}*", "start_date": "2024-01-01"},
            "clocks": {"event": "at", "arrival": "arrived_at", "timezone": ZONE},
            "changes": {"op": "op"},
        }
    )


@dataclass(frozen=True)
class Event:
    """An event of a key; the newest one of a key holds. ``at`` counts minutes from :data:`BEGINS`."""

    key: str
    at: int
    amount: int = 1
    op: str = "insert"
    user: str = "u"

    @property
    def moment(self) -> datetime:
        return BEGINS + timedelta(minutes=self.at)


@dataclass
class WindowedLake(UnitedLake):
    """Deliveries of events, and the same by the model."""

    metrics: list[Any] = field(default_factory=lambda: [metric(TUMBLING), metric(SLIDING)])
    sources: dict[str, SourceContract] = field(default_factory=lambda: {"orders": source()})
    arrives: date = ARRIVES
    events: dict[str, Event] = field(default_factory=dict)

    def send(self, *events: Event) -> list[set[date]]:
        """Deliver a file and publish; per metric the days that got a new number."""
        self.land_events(*events)
        self.update("orders")
        return self.publish()

    def land_events(self, *events: Event) -> None:
        """Put a file into landing, and tell the model."""
        arrived = datetime(2024, 10, 31, 12, tzinfo=timezone.utc) + timedelta(minutes=self.delivered)
        self.lake.settings.now, self.delivered = arrived + timedelta(days=1), self.delivered + 1
        lines = ["id,amount,at,arrived_at,op,user"]
        for event in events:
            lines.append(f"{event.key},{event.amount},{event.moment.isoformat()},{arrived.isoformat()},{event.op},{event.user}")
            self.events[event.key] = event
        path = Path(str(self.lake.settings.landing), f"orders.arrival_date={ARRIVES}.{self.delivered}.csv")
        path.write_text("".join(f"{line}\n" for line in lines))

    def windows(self, series: Series) -> Windows:
        """What readers see; a day without rows is left out."""
        numbers = locations.gold(self.lake, series).read()
        rows = [] if numbers is None else numbers.to_pylist()
        return {
            row["window_start"]: tuple(row[name] for name in series.numbers)
            for row in rows
            if row["is_latest"] and row["row_count"]
        }

    def living(self) -> list[Event]:
        return [event for event in self.events.values() if event.op != "delete"]

    def by_model(self) -> list[Windows]:
        """By the model: the windows of the tumbling and of the sliding metric."""
        hours = {start: (total, count) for start, (total, _, count) in windows_of(self.living(), 60, 60).items()}
        return [hours, windows_of(self.living(), 120, 30)]


#: Two files: minutes around midnight and around the hour that comes twice, a pause as long as the gap, a chain of pauses over two
#: days. Then the chain is closed, an event moves to another day, one comes too early for its session, one comes again as it was,
#: a session is split, and a day loses its only row.
CORNERS = [
    [
        *(Event(f"chain {number}", (18 + 6 * number) * 60, user="v") for number in (0, 1, 2, 4, 5, 6, 7, 8, 9)),
        *(Event("before midnight", 24 * 60 - 1, 2), Event("midnight", 24 * 60), Event("first two", 50 * 60 + 30, 3)),
        *(Event("second two", 51 * 60 + 30), Event("middle", 56 * 60), Event("last", 62 * 60), Event("alone", 90 * 60, user="w")),
    ],
    [
        *(Event("chain 3", 36 * 60, 3, user="v"), Event("midnight", 75 * 60, 2), Event("early", 18 * 60, 2)),
        *(Event("first two", 50 * 60 + 30, 3), Event("middle", 56 * 60, op="delete")),
        Event("alone", 90 * 60, op="delete", user="w"),
    ],
]


@st.composite
def sendings(draw: st.DrawFn) -> list[list[Event]]:
    """Files of events of a few keys and users, many of them at the ends of days and hours, and around the clock change."""
    minutes = DAYS * 24 * 60
    times = st.integers(0, minutes - 1) | st.sampled_from([0, 24 * 60 - 1, 24 * 60, 50 * 60, 50 * 60 + 30, 51 * 60])
    event = st.builds(
        Event,
        st.sampled_from("abcdefgh"),
        times | st.sampled_from(range(0, minutes, 6 * 60)),
        st.integers(1, 3),
        st.sampled_from(["insert", "insert", "insert", "delete"]),
        st.sampled_from("uuv"),
    )
    return draw(st.lists(st.lists(event, min_size=1, max_size=6), min_size=2, max_size=4))


def windows_of(events: Iterable[Event], size: int, every: int) -> Windows:
    """By the model: sum, spread and number of events of each window that has some; sizes in minutes."""
    amounts: dict[datetime, list[int]] = defaultdict(list)
    for event in events:
        for start, end in all_windows(size, every):
            if start <= event.moment < end:
                amounts[start].append(event.amount)
    return {start: (sum(values), max(values) - min(values), len(values)) for start, values in amounts.items()}


def sessions_of(events: Iterable[Event], gap: int) -> dict[tuple[str, datetime], list[Event]]:
    """By the model: the events of each session, by user and first moment; the gap in minutes.

    Events without a longer pause are the first session on the day on which they begin and on the next day; if they go on, each
    later day is a session.
    """
    sessions: dict[tuple[str, datetime], list[Event]] = {}
    last: dict[str, Event] = {}
    began_on: dict[str, date] = {}
    start: dict[str, datetime] = {}
    for event in sorted(events, key=lambda event: event.at):
        user, day = event.user, event.moment.astimezone(ZoneInfo(ZONE)).date()
        before = last.get(user)
        if before is None or event.at - before.at > gap:
            began_on[user], start[user] = day, event.moment
        elif day > began_on[user] + timedelta(days=1) and day > before.moment.astimezone(ZoneInfo(ZONE)).date():
            start[user] = event.moment
        sessions.setdefault((user, start[user]), []).append(event)
        last[user] = event
    return sessions


def all_windows(size: int, every: int) -> Iterator[tuple[datetime, datetime]]:
    """The first moment of each window of some days, and the moment at which it has ended."""
    for number in range(-1, DAYS + 1):
        midnight, ends = (_midnight(FIRST + timedelta(days=number + later)) for later in (0, 1))
        start = midnight
        while start < ends:
            ended = start + timedelta(minutes=size)
            yield start, ended if every < size else min(ended, ends)
            start += timedelta(minutes=every)


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(ZONE)).astimezone(timezone.utc)
