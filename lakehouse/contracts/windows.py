"""The key ``window`` of a metric: its forms, its grain columns, and its requirements on the source.

A window of event time is tumbling or sliding, aligned at the midnights of its zone. A session has the rows of a key that follow
each other without a pause longer than a gap.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, ClassVar
from zoneinfo import ZoneInfo

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from lakehouse.calendar import windows
from lakehouse.contracts.base import SYSTEM_COLUMNS, Name, Strict
from lakehouse.text import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract


#: The grain column with a window's first moment, in UTC.
WINDOW_START = "window_start"
_MINUTE, _DAY = timedelta(minutes=1), timedelta(days=1)
#: A day with a clock change may have 23 hours: a longer window could begin two days before an event.
_LONGEST_SLIDING = timedelta(hours=23)


class EventWindow(Strict):
    """Windows ``[start, start + size)``, which start at each midnight and then at intervals of ``every``.

    Starts are counted in elapsed time from midnight: a day with a clock change has 23 or 25 windows of an hour. A tumbling window
    ends at the next midnight at the latest.
    """

    #: No row of an earlier day lies in a window that begins on a given day.
    days_before: ClassVar[int] = 0
    size: timedelta = Field(gt=timedelta(0), le=_DAY, description="The length of a window, such as PT1H; at most a day.")
    every: timedelta | None = Field(
        None, gt=timedelta(0), description="A window starts so much after the one before; default: size, so that none overlap."
    )
    timezone: str | None = Field(
        None, description="The zone whose midnights windows are aligned at: that of the source's event days, set on loading."
    )

    @property
    def step(self) -> timedelta:
        """The time between the starts of consecutive windows."""
        return self.every or self.size

    @property
    def zone(self) -> ZoneInfo:
        """The zone whose midnights align the windows."""
        return ZoneInfo(self.timezone or "UTC")

    @property
    def overlaps(self) -> bool:
        """Whether windows overlap, so that a row lies in several, of which the first may have begun on the day before."""
        return self.step < self.size

    @property
    def days_behind(self) -> int:
        """The number of following days with rows in the windows that begin on a day."""
        return int(self.overlaps)

    @property
    def columns(self) -> list[str]:
        """The grain columns that identify a window."""
        return [WINDOW_START]

    @property
    def place(self) -> list[str]:
        """The grain columns by which changed rows are assigned to a number: those of the window."""
        return [WINDOW_START]

    def start_of(self, name: str) -> tuple[date, datetime]:
        """The day and the first moment of the window ``name``.

        :raises UnknownWindowError: if ``name`` names no window.
        """
        return windows.parse(name, self.step, self.zone)

    def __str__(self) -> str:
        each = f", one every {format_duration(self.step)}" if self.overlaps else ""
        return f"windows of {format_duration(self.size)}{each}"

    @model_validator(mode="after")
    def _aligned(self) -> EventWindow:
        if self.size % _MINUTE or self.step % _MINUTE:
            msg = "size and every are whole minutes, such as PT15M or PT1H"
            raise ValueError(msg)
        if _DAY % self.step:
            msg = f"a day is no multiple of {format_duration(self.step)}: windows could not start at midnight; take PT1H or PT15M"
            raise ValueError(msg)
        if self.step > self.size:
            step, size = format_duration(self.step), format_duration(self.size)
            msg = f"every: {step} is longer than the size, {size}: rows between two windows would not count"
            raise ValueError(msg)
        if self.overlaps and self.size > _LONGEST_SLIDING:
            msg = f"size: a window that overlaps others is at most {format_duration(_LONGEST_SLIDING)} long"
            raise ValueError(msg)
        return self


#: The shortest day, when clocks go forward, has 23 hours: a shorter gap cannot span a day.
_LONGEST_GAP = timedelta(hours=23)


class SessionWindow(Strict):
    """Sessions of a key, each from its first row to the last one before a pause of more than ``gap``.

    A session belongs to the day of its first row. A session that continues without a pause through the whole next day ends at
    that day's end. A day's sessions depend on the two days before and the day after, however long a key stays active.
    """

    #: Rows of the following day may lie in a day's sessions; the two preceding days decide which of its rows begin one.
    days_before: ClassVar[int] = 2
    days_behind: ClassVar[int] = 1
    #: Each row lies in one session.
    overlaps: ClassVar[bool] = False
    gap: timedelta = Field(
        gt=timedelta(0), le=_LONGEST_GAP, description="The longest pause within a session, such as PT30M; at most 23 hours."
    )
    key: list[Name] = Field(min_length=1, description="The column, or the columns, that identify the owner of a session.")
    timezone: str | None = Field(
        None, description="The zone of the days that sessions belong to: that of the source's event days, set on loading."
    )

    @property
    def zone(self) -> ZoneInfo:
        """The zone of the days."""
        return ZoneInfo(self.timezone or "UTC")

    @property
    def columns(self) -> list[str]:
        """The grain columns that identify a session."""
        return [WINDOW_START, *self.key]

    @property
    def place(self) -> list[str]:
        """The grain columns by which changed rows are assigned to a number: a row may move the beginning of a session."""
        return list(self.key)

    @field_validator("key", mode="before")
    @classmethod
    def _several(cls, key: Any) -> Any:
        return [key] if isinstance(key, str) else key

    def start_of(self, name: str) -> tuple[date, datetime]:
        """The day and the first moment of the sessions ``name``.

        :raises UnknownWindowError: if ``name`` is not a time.
        """
        return windows.parse_moment(name, self.zone)

    def __str__(self) -> str:
        return f"sessions of {', '.join(self.key)} with pauses of at most {format_duration(self.gap)}"


def _kind(value: Any) -> str:
    if isinstance(value, SessionWindow) or (
        isinstance(value, dict) and not {"gap", "key"}.isdisjoint(value) and "size" not in value
    ):
        return "(sessions)"
    return "(windows)" if isinstance(value, (dict, EventWindow)) else "(days)"


#: A number of days, event-time windows, or sessions; a mistake is reported for the intended form.
Window = Annotated[
    Annotated[int, Field(ge=1, le=366), Tag("(days)")]
    | Annotated[EventWindow, Tag("(windows)")]
    | Annotated[SessionWindow, Tag("(sessions)")],
    Discriminator(_kind),
]


def with_start_in_grain(content: Any) -> Any:
    """Put the columns that identify a window first in the grain of a metric's file, if the metric has windows."""
    window = content.get("window") if isinstance(content, dict) else None
    if not isinstance(window, (dict, EventWindow, SessionWindow)):
        return content
    grain = content.get("grain") or []
    if not isinstance(grain, list) or WINDOW_START in grain:
        return content
    key = window.key if isinstance(window, SessionWindow) else window.get("key") if isinstance(window, dict) else None
    key = [key] if isinstance(key, str) else key
    own = [WINDOW_START, *(key if isinstance(key, list) else [])]
    return {**content, "grain": [*own, *(name for name in grain if name not in own)]}


def unfit(metric: MetricContract) -> list[str]:
    """The keys that a metric with windows cannot have, each as ``field: what to do``."""
    if not metric.publication.rollups:
        return []
    if metric.trailing_days > 1 or metric.windows_overlap:
        return ["publication.rollups: numbers that count rows several times have none; give them to a metric without a window"]
    others = [measure.name for measure in metric.measures if not measure.additive]
    if metric.days_behind and others:
        # A period's sessions are those that begin in it: no set of silver days has exactly their rows.
        text = f"sessions are added up, and {', '.join(others)} is not additive; give the roll-ups to another metric"
        return [f"publication.rollups: {text}"]
    return []


def misfits(metric: MetricContract, sources: Mapping[str, SourceContract]) -> Iterator[tuple[tuple[int | str, ...], str]]:
    """The mistakes between a metric with windows and its source: where in the metric's file, and what to do."""
    if metric.event_window is None:
        return
    zone, own = sources[metric.source].clocks.timezone, metric.event_window.timezone
    if own not in (None, zone):
        text = f"the event days of {metric.source} are those of {zone}; leave the key out, or give the source another zone"
        yield ("window", "timezone"), text
    if isinstance(metric.event_window, SessionWindow):
        brought = {name for join in metric.joins for name in join.names}
        fields = [field.name for field in sources[metric.source].typed_fields]
        unknown = [name for name in metric.event_window.key if name not in {*fields, *SYSTEM_COLUMNS, *brought}]
        if unknown:
            text = f"{', '.join(unknown)} is neither a field of {metric.source} nor brought by a join; it has {', '.join(fields)}"
            yield ("window", "key"), text
