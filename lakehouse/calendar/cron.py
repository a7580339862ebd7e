"""Cron expressions with five numeric fields, as contracts and settings have them."""

from __future__ import annotations

import re

_PART = re.compile(r"(?:\*|(\d+)(?:-(\d+))?)(?:/(\d+))?")
#: Minute, hour, day of the month, month, weekday (Sunday is 0 and 7), as in cron.
_BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_LONGEST = {2: 29, 4: 30, 6: 30, 9: 30, 11: 30}


def checked(text: str) -> str:
    """The expression in canonical form.

    :raises ValueError: if it is none, or selects no day.
    """
    fields = text.split()
    if len(fields) != len(_BOUNDS):
        msg = f"{text!r}: five fields are needed (minute, hour, day, month, weekday), as in '0 3 * * *' for 03:00"
        raise ValueError(msg)
    _, _, days, months, _ = (_values(field, *bounds) for field, bounds in zip(fields, _BOUNDS))
    if min(days) > max(_LONGEST.get(month, 31) for month in months):
        msg = f"{text!r}: none of these months has that day"
        raise ValueError(msg)
    return " ".join(fields)


def _values(field: str, lowest: int, highest: int) -> set[int]:
    """The values selected by a field of a cron expression."""
    values: set[int] = set()
    for part in field.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            msg = f"{part!r} is neither *, a number, a range such as 1-5, nor one of these with a step such as */15"
            raise ValueError(msg)
        first = lowest if match[1] is None else int(match[1])
        last = int(match[2]) if match[2] else highest if match[1] is None or match[3] else first
        step = int(match[3] or 1)
        if not lowest <= first <= last <= highest or not step:
            msg = f"{part!r} is out of range; this field goes from {lowest} to {highest}"
            raise ValueError(msg)
        values |= set(range(first, last + 1, step))
    return values
