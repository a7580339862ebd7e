"""The strategy ``per_key`` in plain Python: one moment of arrival after the other."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Arrival, event time, key.
Row = tuple[int, int, str]


def least_newest_event(rows: Sequence[Row], idle: int) -> int | None:
    """The least newest event of the active keys after all rows, as it has ever grown; None without rows."""
    newest_events: dict[str, int] = {}
    newest_arrivals: dict[str, int] = {}
    least: int | None = None
    for arrived, together in itertools.groupby(sorted(rows), key=lambda row: row[0]):
        for _, happened, key in together:
            newest_events[key] = max(newest_events.get(key, happened), happened)
            newest_arrivals[key] = arrived
        now = min(newest_events[key] for key in newest_events if newest_arrivals[key] >= arrived - idle)
        least = now if least is None else max(least, now)
    return least
