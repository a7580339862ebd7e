"""Deliveries that meet a watermark, in a real lake with metrics that have late events, and what is published by a plain model."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from lakehouse.bronze.ingest import Ingest
from lakehouse.contracts.windows import SessionWindow
from lakehouse.late_events import follow, late_rows
from lakehouse_tests.support import windowed_lake
from lakehouse_tests.support.united_lake import metric
from lakehouse_tests.support.windowed_lake import (
    ARRIVES,
    SLIDING,
    TUMBLING,
    ZONE,
    Event,
    WindowedLake,
    Windows,
    all_windows,
    sessions_of,
    windows_of,
)

if TYPE_CHECKING:
    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract

#: The watermark stays so many minutes behind the newest event.
BEHIND = 10
#: When deliveries begin to arrive.
ARRIVAL = datetime(2024, 10, 31, 12, tzinfo=timezone.utc)


def source(**changes: Any) -> SourceContract:
    """The source of the windows, with a watermark."""
    contract = windowed_lake.source().model_dump(mode="json", by_alias=True, exclude_unset=True)
    contract["clocks"]["watermark"] = {"strategy": "bounded", "max_lateness": f"PT{BEHIND}M"}
    return type(windowed_lake.source()).model_validate(contract | changes)


def late(definition: dict[str, Any], action: str, allowed: int = 5, **terms: Any) -> MetricContract:
    """A metric with late events; the allowed lateness is in minutes."""
    return metric({**definition, "late_events": {"allowed_lateness": f"PT{allowed}M", "action": action, **terms}})


@dataclass(frozen=True)
class Delivery:
    """A file; ``arrived`` counts minutes from :data:`ARRIVAL`."""

    arrived: int
    events: tuple[Event, ...]


@dataclass
class LateLake(WindowedLake):
    """Deliveries that may be ingested in another order than they arrived."""

    metrics: list[Any] = field(default_factory=lambda: [late(TUMBLING, "recompute", 30), late(SLIDING, "side_output")])
    sources: dict[str, SourceContract] = field(default_factory=lambda: {"orders": source()})
    deliveries: list[Delivery] = field(default_factory=list)

    def deliver_at(self, arrived: int, *events: Event) -> list[set[Any]]:
        """Deliver a file that arrived at some minute, and publish; per metric the days that got a new number."""
        self.land_at(arrived, *events)
        self.update("orders")
        return self.publish()

    def land_at(self, arrived: int, *events: Event) -> None:
        """Put a file into landing, and tell the model."""
        self.delivered += 1
        self.lake.settings.now = ARRIVAL + timedelta(days=1, minutes=self.delivered)
        moment = ARRIVAL + timedelta(minutes=arrived)
        lines = ["id,amount,at,arrived_at,op,user"]
        lines += [
            f"{event.key},{event.amount},{event.moment.isoformat()},{moment.isoformat()},{event.op},{event.user}"
            for event in events
        ]
        self.deliveries.append(Delivery(arrived, events))
        path = Path(str(self.lake.settings.landing), f"orders.arrival_date={ARRIVES}.{self.delivered}.csv")
        path.write_text("".join(f"{line}\n" for line in lines))

    def classify_at(self, arrived: int, *events: Event) -> None:
        """Deliver a file that arrived at some minute, and classify its rows; needs no Spark."""
        self.land_at(arrived, *events)
        Ingest(self.lake, self.sources["orders"], self.session, "run").day(self.arrives)
        follow.follow(self.lake, self.sources["orders"], self.metrics)

    def judged(self, definition: MetricContract) -> list[tuple[Event, str]]:
        """By the model: every event in the order of arrival, and whether it is on time, accepted or dropped."""
        terms, newest, verdicts = definition.late_events, None, []
        for delivery in sorted(self.deliveries, key=lambda entry: entry.arrived):
            watermark = None if newest is None else newest - timedelta(minutes=BEHIND)
            for event in delivery.events:
                end = _last_end(event, definition)
                if terms is None or watermark is None or watermark < end:
                    verdict = "on_time"
                elif watermark < end + terms.allowed_lateness and terms.action.accepts:
                    verdict = "late_accepted"
                else:
                    verdict = "late_dropped"
                verdicts.append((event, verdict))
            newest = max([event.moment for event in delivery.events] + ([newest] if newest else []))
        return verdicts

    def counting_events(self, definition: MetricContract, *, closed: bool = False) -> list[Event]:
        """By the model: the newest event of each key among those that count; of closed days among all."""
        counting = [event for event, verdict in self.judged(definition) if closed or verdict != "late_dropped"]
        newest = {event.key: event for event in counting}
        return [event for event in newest.values() if event.op != "delete"]

    def expected(self, definition: MetricContract, *, closed: bool = False) -> Windows:
        """By the model: what readers see, of closed days if ``closed``."""
        window, events = definition.event_window, self.counting_events(definition, closed=closed)
        if window is None:
            return _days_of(events)
        if isinstance(window, SessionWindow):
            return _sessions(events, window.gap // timedelta(minutes=1))
        size, every = window.size // timedelta(minutes=1), window.step // timedelta(minutes=1)
        found = windows_of(events, size, every)
        return found if "spread" in {measure.name for measure in definition.measures} else _without_spread(found)

    def by_model(self) -> list[Windows]:
        return [self.expected(definition) for definition in self.metrics]

    def seen(self) -> list[Windows]:
        """What readers see of each metric."""
        return [self.numbers_of(definition) for definition in self.metrics]

    def numbers_of(self, definition: MetricContract) -> Windows:
        from lakehouse.contracts.series import Series  # noqa: PLC0415

        series = Series(definition)
        if definition.event_window:
            return self.windows(series)
        return {day: numbers[None] for day, numbers in self.published(series).items()}  # type: ignore[misc]

    def left_out(self, definition: MetricContract) -> list[tuple[str, str]]:
        """The keys of the late rows that the table holds of a metric, with what became of them."""
        rows = late_rows.read(self.lake, "orders", {"metric": [definition.name]}).to_pylist()
        return sorted((row["record_key"], "late_accepted" if row["counts"] else "late_dropped") for row in rows)

    def late_by_model(self, definition: MetricContract) -> list[tuple[str, str]]:
        return sorted((event.key, verdict) for event, verdict in self.judged(definition) if verdict != "on_time")


def _last_end(event: Event, definition: MetricContract) -> datetime:
    """By the model: the end of the last window that an event lies in."""
    window = definition.event_window
    if isinstance(window, SessionWindow):
        return event.moment + window.gap
    size, every = (1440, 1440) if window is None else (window.size // timedelta(minutes=1), window.step // timedelta(minutes=1))
    ends = [end for start, end in all_windows(size, every) if start <= event.moment < end]
    if window is None:
        midnight = event.moment.astimezone(ZoneInfo(ZONE)).date() + timedelta(days=definition.trailing_days)
        return datetime(midnight.year, midnight.month, midnight.day, tzinfo=ZoneInfo(ZONE)).astimezone(timezone.utc)
    return max(ends)


def _days_of(events: list[Event]) -> Windows:
    found: dict[Any, list[int]] = {}
    for event in events:
        found.setdefault(event.moment.astimezone(ZoneInfo(ZONE)).date(), []).append(event.amount)
    return {day: (sum(amounts), len(amounts)) for day, amounts in found.items()}


def _sessions(events: list[Event], gap: int) -> Windows:
    """By the model: the sessions of one user."""
    sessions = {start: own for (_, start), own in sessions_of(events, gap).items()}
    return {start: (1, sum(e.amount for e in own), own[-1].at - own[0].at, len(own)) for start, own in sessions.items()}


def _without_spread(found: Windows) -> Windows:
    return {start: (total, count) for start, (total, _, count) in found.items()}


#: The third file arrived before the second one, whose first row is late by it; it corrects a row and deletes one, both late. In
#: the last file two rows are beyond every window, one of them a correction; a row moves to the next day, one is late for its
#: session.
CORNERS = [
    (0, [Event("a", 5), Event("b", 30), Event("c", 59), Event("next", 75)]),
    (3, [Event("late by another", 80), Event("far", 24 * 60 + 40)]),
    (2, [Event("a", 20, 10), Event("b", 30, op="delete"), Event("push", 150)]),
    (4, [Event("beyond", 10), Event("c", 58, 7), Event("a", 24 * 60 + 50, 2), Event("session", 1085)]),
]


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[int, list[Event]]]:
    """Deliveries in the order of their ingestion, each with the minute at which it arrived."""
    near = st.integers(0, 6 * 30 - 1).map(lambda number: number * 7)
    event = st.builds(
        Event,
        st.sampled_from("abcd"),
        near | st.sampled_from([59, 60, 24 * 60 - 1, 24 * 60, 50 * 60]),
        st.integers(1, 3),
        st.sampled_from(["insert", "insert", "insert", "delete"]),
    )
    files = draw(st.lists(st.lists(event, min_size=1, max_size=3), min_size=3, max_size=5))
    arrivals = draw(st.permutations(range(len(files))) | st.just(list(range(len(files)))))
    return list(zip(arrivals, files))
