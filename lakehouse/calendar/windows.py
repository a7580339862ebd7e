"""The windows of a day, their first moments, and their names: ``2024-01-15T14``, ``2024-01-15T14:30``.

A name is the local time at which a window starts, to the microsecond for a session (``2024-01-15T14:30:07.25``). On the day on
which the clock goes back two windows may start at the same local time: their names end with the offset, as in
``2024-10-27T02+01:00``. How long windows are belongs to ``contracts.windows``.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING

from lakehouse.calendar.event_day import end_of_day, start_of_day
from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from zoneinfo import ZoneInfo

#: The form of a name: a day, the time of day, and perhaps an offset.
PATTERN = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}(:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?)?([+-][0-9]{2}:[0-9]{2})?"
_NAME = re.compile(PATTERN)
_SHOWN = 3


class UnknownWindowError(LakehouseError):
    """A text that names no window of a metric. The message lists some that do."""


def starts(day: date, step: timedelta, zone: ZoneInfo) -> Iterator[datetime]:
    """The first moments of the windows that start on a day, in UTC; one starts at midnight, and each ``step`` after another."""
    start, ends = (moment.astimezone(timezone.utc) for moment in (start_of_day(day, zone), end_of_day(day, zone)))
    while start < ends:
        yield start
        start += step


def name(start: datetime, zone: ZoneInfo) -> str:
    """The name of the window with a first moment."""
    local = start.astimezone(zone)
    text = f"{local:%Y-%m-%dT%H:%M:%S.%f}".rstrip("0") if local.microsecond else f"{local:%Y-%m-%dT%H:%M:%S}"
    text = text.removesuffix(":00").removesuffix(":00") if not (local.microsecond or local.second) else text
    return text + (local.isoformat()[-6:] if _is_ambiguous(local) else "")


def is_name(text: str) -> bool:
    """Whether a text has the form of a window's name."""
    return _NAME.fullmatch(text.strip()) is not None


def parse(text: str, step: timedelta, zone: ZoneInfo) -> tuple[date, datetime]:
    """The day and the first moment of the window with a name; ``:00`` may stand for a whole hour.

    :raises UnknownWindowError: for a text that names none.
    """
    match = _NAME.fullmatch(text.strip())
    try:
        day = date.fromisoformat(text.strip()[:10]) if match else None
    except ValueError:
        day = None
    if day is None:
        msg = f"{text!r} is no window; windows are named as in 2024-01-15T14 or 2024-01-15T14:30"
        raise UnknownWindowError(msg)
    named = {name(start, zone): start for start in starts(day, step, zone)}
    wanted = re.sub(r"(T\d\d):00", r"\1", text.strip())
    if wanted not in named:
        alike = [known for known in named if known.startswith(wanted[:13])] or list(named)
        more = ", ..." if len(alike) > _SHOWN else ""
        msg = f"no window starts at {text}: there are {', '.join(alike[:_SHOWN])}{more}"
        raise UnknownWindowError(msg)
    return day, named[wanted]


def parse_moment(text: str, zone: ZoneInfo) -> tuple[date, datetime]:
    """The day and the moment that a name stands for, of windows that may start at any time.

    :raises UnknownWindowError: for a text that is no time, and for a local time that comes twice or never.
    """
    match = _NAME.fullmatch(text.strip())
    if match is None:
        msg = f"{text!r} is no window; sessions are named by their first moment, as in 2024-01-15T14:30:07"
        raise UnknownWindowError(msg)
    text = text.strip()
    fraction = (match[3] or "").removeprefix(".")
    try:
        # Python 3.10 reads fractions of three or six digits only.
        moment = datetime.fromisoformat(text.replace(f".{fraction}", f".{fraction:0<6}") if fraction else text)
    except ValueError as problem:
        msg = f"{text!r} is no time: {problem}"
        raise UnknownWindowError(msg) from None
    if moment.tzinfo is None:
        local = moment.replace(tzinfo=zone)
        if _is_ambiguous(local):
            first, second = (local.replace(fold=fold).isoformat() for fold in (0, 1))
            msg = f"on the day of a clock change {text} is not one moment: name it with an offset, {first} or {second}"
            raise UnknownWindowError(msg)
        moment = local
    start = moment.astimezone(timezone.utc)
    return start.astimezone(zone).date(), start


def _is_ambiguous(local: datetime) -> bool:
    """Whether a local time comes twice, or never, because the clock is changed."""
    return local.replace(fold=0).utcoffset() != local.replace(fold=1).utcoffset()
