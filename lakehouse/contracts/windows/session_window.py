"""Sessions: the rows of a key that follow each other without a pause longer than a gap.

Belongs here: the gap, the key, and how far a session reaches over days. Rows are assigned to sessions in
``gold.rows_read.sessions``.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

from pydantic import Field, field_validator

from lakehouse.calendar import windows
from lakehouse.contracts.base import Name, Strict
from lakehouse.contracts.windows.event_window import WINDOW_START
from lakehouse.text import format_duration

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
