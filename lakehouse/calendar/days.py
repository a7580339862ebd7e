"""Sets of event days: how windows extend them, and their written forms for programs and for people."""

from __future__ import annotations

import json
from datetime import date, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator


def reach_back(days: Collection[date], window: int) -> set[date]:
    """The days that the trailing windows ending on ``days`` cover."""
    return {day - timedelta(days=back) for day in days for back in range(window)}


def reach_ahead(days: Collection[date], window: int) -> set[date]:
    """The days whose trailing window covers one of ``days``."""
    return {day + timedelta(days=ahead) for day in days for ahead in range(window)}


def span(first: date, last: date) -> Iterator[date]:
    """Every day from ``first`` through ``last``."""
    for offset in range((last - first).days + 1):
        yield first + timedelta(days=offset)


def rolling(today: date, days: int, delay: int) -> list[date]:
    """The ``days`` days that end ``delay`` days before ``today``, in order."""
    last = today - timedelta(days=delay)
    return list(span(last - timedelta(days=days - 1), last))


def to_json(days: Collection[date]) -> str:
    """Days as sorted ISO text, for a tag or commit metadata."""
    return json.dumps([day.isoformat() for day in sorted(days)])


def from_json(text: str) -> list[date]:
    """The days of :func:`to_json`."""
    return [date.fromisoformat(day) for day in json.loads(text)]
