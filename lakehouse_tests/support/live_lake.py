"""Events in a real lake whose hourly number is live, and what the stream says of them by a plain model of Spark's rule."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from lakehouse.contracts.source import SourceContract
from lakehouse.live import stream as run
from lakehouse.live import table
from lakehouse_tests.support.united_lake import metric
from lakehouse_tests.support.windowed_lake import SLIDING, TUMBLING, Event, WindowedLake, all_windows, source

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakehouse.contracts.metric import MetricContract

#: Minutes of the watermark of live metrics.
DELAY = 10
#: Rows with such an amount, or a greater one, wait for a steward.
QUARANTINED_FROM = 90
#: A delivery is a batch.
LIVE = {"live": {"watermark": f"PT{DELAY}M", "max_files_per_trigger": 1}}
#: The model's state: by first moment of a window the amounts counted in it.
Amounts = dict[datetime, list[int]]


def windows_of(event: Event, size: int, every: int) -> list[tuple[datetime, datetime]]:
    """The first moments and the ends of the windows that an event lies in; sizes in minutes."""
    return [(start, end) for start, end in all_windows(size, every) if start <= event.moment < end]


@dataclass
class StreamModel:
    """The stream by a plain model: each batch drops what is behind the watermark of the batch before it.

    :param size: of a window, and ``every``: from the start of one to the next, in minutes.
    """

    size: int
    every: int
    watermark: datetime | None = None
    watermark_before: datetime | None = None
    newest: datetime | None = None
    counted: Amounts = field(default_factory=dict)
    dropped: list[tuple[Event, datetime]] = field(default_factory=list)

    def batch(self, events: Iterable[Event]) -> None:
        """A batch of events. After one that moves the watermark Spark runs another without rows, if it has the time."""
        rows = [event for event in events if event.op == "insert"]
        for event in rows:
            for start, end in windows_of(event, self.size, self.every):
                if self.watermark_before is not None and end <= self.watermark_before:
                    self.dropped.append((event, start))
                else:
                    self.counted.setdefault(start, []).append(event.amount)
        self.watermark_before = self.watermark
        times = [event.moment for event in rows] + ([self.newest] if self.newest else [])
        if times:
            self.newest = max(times)
            self.watermark = self.newest - timedelta(minutes=DELAY)

    def windows_of(self, event: Event) -> list[datetime]:
        """The first moments of the windows that an event lies in."""
        return [start for start, _ in windows_of(event, self.size, self.every)]

    def settle(self) -> None:
        """The batch without rows that follows when there is nothing to read."""
        self.watermark_before = self.watermark

    def numbers(self) -> dict[datetime, tuple[int, int]]:
        """By first moment of a window: sum and number of the rows counted in it."""
        return {start: (sum(amounts), len(amounts)) for start, amounts in self.counted.items()}


@dataclass
class LiveLake(WindowedLake):
    """Deliveries that a stream reads, each in a batch of its own."""

    sources: dict[str, SourceContract] = field(default_factory=lambda: {"orders": _guarded()})
    metrics: list[Any] = field(default_factory=lambda: [metric(TUMBLING, **LIVE), metric(SLIDING, **LIVE)])

    @property
    def hourly(self) -> MetricContract:
        """The metric with tumbling windows."""
        return self.metrics[0]

    @property
    def sliding(self) -> MetricContract:
        """The metric with windows that overlap."""
        return self.metrics[1]

    def stream(self, read: MetricContract | None = None) -> None:
        """Have the stream of a metric read what is new in Bronze, and end."""
        run.run(self.session, self.lake, read or self.hourly, self.sources["orders"], ends=True)

    def live_numbers(self, read: MetricContract | None = None) -> dict[datetime, tuple[int, int]]:
        """What the live table says, as the model does."""
        found = table.read(self.lake, read or self.hourly)
        rows = [] if found is None else found.to_pylist()
        assert len({row["window_start"] for row in rows}) == len(rows)
        return {row["window_start"]: (row["total"], row["row_count"]) for row in rows}


def _guarded() -> SourceContract:
    """The source of the lake with a rule for its rows."""
    rule = {"name": "plausible", "sql": f"amount < {QUARANTINED_FROM}", "severity": "quarantine"}
    return SourceContract.model_validate(
        {**source().model_dump(mode="json", exclude_unset=True), "quality": {"row_rules": [rule]}}
    )
