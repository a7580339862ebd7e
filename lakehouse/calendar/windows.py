"""The windows of a day, their first moments, and their names: ``2024-01-15T14``, ``2024-01-15T14:30``.

A name is the local time at which a window starts, to the microsecond for a session (``2024-01-15T14:30:07.25``). On the day on
which the clock goes back, two windows may start at the same local time: their names end with the offset, as in
``2024-10-27T02+01:00``. The length of windows belongs to ``contracts.windows``.

Other spellings that people use are read as well: ``2024-01-15 14:00``, ``2024-01-15-14``, ``2024-01-15T14:00:00Z``.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING

from lakehouse.calendar.days import end_of_day, start_of_day
from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from zoneinfo import ZoneInfo

#: The texts that may be a name: a day, the time of day, and perhaps an offset; for URLs, whose patterns cannot look ahead.
PATTERN = r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt _-][0-9]{1,2}([:-]?[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?)?([Zz]|[+ -][0-9]{2}:[0-9]{2})?"
#: The same in its parts; in a URL the plus sign of an offset may have become a blank.
_NAME = re.compile(
    r"(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})[Tt _-](?P<hour>[0-9]{1,2})"
    r"(?:(?::|-(?![0-9]{2}:)|(?=[0-9]{2}))(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:[.](?P<fraction>[0-9]{1,6}))?)?)?"
    r"(?P<offset>[Zz]|[+ -][0-9]{2}:[0-9]{2})?"
)
_SHOWN = 3


class UnknownWindowError(LakehouseError):
    """A text that names no window of a metric. The message gives examples of valid names."""


def starts(day: date, step: timedelta, zone: ZoneInfo) -> Iterator[datetime]:
    """The first moments of the windows that start on a day, in UTC; one starts at midnight, and each ``step`` after another."""
    start, ends = (moment.astimezone(timezone.utc) for moment in (start_of_day(day, zone), end_of_day(day, zone)))
    while start < ends:
        yield start
        start += step


def name(start: datetime, zone: ZoneInfo) -> str:
    """The name of the window that starts at ``start``."""
    local = start.astimezone(zone)
    text = f"{local:%Y-%m-%dT%H:%M:%S.%f}".rstrip("0") if local.microsecond else f"{local:%Y-%m-%dT%H:%M:%S}"
    text = text.removesuffix(":00").removesuffix(":00") if not (local.microsecond or local.second) else text
    return text + (local.isoformat()[-6:] if _is_ambiguous(local) else "")


def is_name(text: str) -> bool:
    """Whether ``text`` has the form of a window's name, in any spelling that people use."""
    return _NAME.fullmatch(text.strip()) is not None


def parse(text: str, step: timedelta, zone: ZoneInfo) -> tuple[date, datetime]:
    """The day and the first moment of the window named ``text``; with an offset, of the window that starts at exactly that
    moment.

    :raises UnknownWindowError: for a text that names no window. The message quotes the text unchanged.
    """
    try:
        written = _written(text)
    except ValueError:
        written = None
    if written is None:
        msg = f"{text!r} is no window; windows are named as in 2024-01-15T14 or 2024-01-15T14:30"
        raise UnknownWindowError(msg)
    day = written.date() if written.tzinfo is None else written.astimezone(zone).date()
    known, local = list(starts(day, step, zone)), written.replace(tzinfo=None)
    if written.tzinfo is not None:
        named = [start for start in known if start == written]
    else:
        named = [start for start in known if start.astimezone(zone).replace(tzinfo=None) == local]
    if len(named) != 1:
        names = [name(start, zone) for start in known]
        alike = [known_name for known_name in names if known_name.startswith(f"{local:%Y-%m-%dT%H}")] or names
        more = ", ..." if len(alike) > _SHOWN else ""
        msg = f"no window starts at {text}: there are {', '.join(alike[:_SHOWN])}{more}"
        raise UnknownWindowError(msg)
    return day, named[0]


def parse_moment(text: str, zone: ZoneInfo) -> tuple[date, datetime]:
    """The day and the moment that ``text`` names, for windows that may start at any time.

    :raises UnknownWindowError: for a text that is no time, and for a local time that occurs twice or never.
    """
    try:
        moment = _written(text)
    except ValueError as problem:
        msg = f"{text!r} is no time: {problem}"
        raise UnknownWindowError(msg) from None
    if moment is None:
        msg = f"{text!r} is no window; sessions are named by their first moment, as in 2024-01-15T14:30:07"
        raise UnknownWindowError(msg)
    if moment.tzinfo is None:
        local = moment.replace(tzinfo=zone)
        if _is_ambiguous(local):
            first, second = (local.replace(fold=fold).isoformat() for fold in (0, 1))
            msg = f"on the day of a clock change {text.strip()} is not one moment: name it with an offset, {first} or {second}"
            raise UnknownWindowError(msg)
        moment = local
    start = moment.astimezone(timezone.utc)
    return start.astimezone(zone).date(), start


def _written(text: str) -> datetime | None:
    """The time that ``text`` gives, with its offset if it has one; None for another text.

    :raises ValueError: for a time that does not exist.
    """
    match = _NAME.fullmatch(text.strip())
    if match is None:
        return None
    clock = f"{match['hour']:0>2}:{match['minute'] or '00'}:{match['second'] or '00'}.{match['fraction'] or '0':0<6}"
    offset = (match["offset"] or "").replace(" ", "+").upper().replace("Z", "+00:00")
    return datetime.fromisoformat(f"{match['day']}T{clock}{offset}")


def _is_ambiguous(local: datetime) -> bool:
    """Whether a local time occurs twice, or never, because the clock is changed."""
    return local.replace(fold=0).utcoffset() != local.replace(fold=1).utcoffset()
