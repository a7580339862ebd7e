"""The window of event time that each number of a metric covers: tumbling or sliding, aligned at the midnights of its zone.

Belongs here: sizes and alignment. The windows of a row are computed in ``gold.rows_read.windows``; their names are defined in
``calendar.windows``.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import ClassVar
from zoneinfo import ZoneInfo

from pydantic import Field, model_validator

from lakehouse.calendar import windows
from lakehouse.contracts.base import Strict
from lakehouse.text import format_duration

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
