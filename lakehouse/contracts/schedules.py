"""The schedules of a source's contract: how fresh arrivals must be, and which days silver rebuilds regularly."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated

from pydantic import AfterValidator, Field

from lakehouse.contracts.base import Strict
from lakehouse.contracts.checks import Severity  # noqa: TC001 (pydantic reads it)

_PART = re.compile(r"(?:\*|(\d+)(?:-(\d+))?)(?:/(\d+))?")
#: Minute, hour, day of the month, month, weekday (Sunday is 0 and 7), as cron has them.
_BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_LONGEST = {2: 29, 4: 30, 6: 30, 9: 30, 11: 30}


def _cron(text: str) -> str:
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
    """The values that a field of a cron expression names."""
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


Cron = Annotated[str, AfterValidator(_cron)]


class Freshness(Strict):
    """How old the newest arrival may be by the deployment's clock."""

    max_age: timedelta = Field(gt=timedelta(0), description="The check arrivals_are_fresh fails beyond this age.")
    severity: Severity = Field("warn", description="How Dagster shows the failure, which holds nothing.")


class RollingBackfill(Strict):
    """The event days that silver rebuilds from Bronze on a schedule: ``days`` of them, the last one ``delay`` days ago."""

    days: int = Field(7, ge=1, le=366, description="How many event days are rebuilt.")
    delay: int = Field(2, ge=0, le=366, description="How many days ago the last of them is: 2 leaves today and yesterday alone.")
    at: Cron = Field("0 3 * * *", description="When, as a cron expression in the time zone of clocks.timezone.")
