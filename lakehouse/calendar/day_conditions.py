"""Conditions in SQL on a column of days. delta-rs cannot parse a list of 40,000 literals, so long lists become ranges.

delta-rs makes one list of all lists of a condition, unless each of them has a range of its own. Measured: 150,000 days of which
no two are consecutive are parsed in this form in 4 to 6 seconds.
"""

from __future__ import annotations

from datetime import date, timedelta
from typing import TYPE_CHECKING

from lakehouse.calendar.days import span

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

#: So many days are one list. delta-rs makes a chain of comparisons of a list, and one of 40,000 overflows its stack.
LISTED = 5_000
#: So many single days of a longer list share a range.
PART = 500
#: From so many consecutive days on, a range is shorter than a list.
_RUN = 3


def among(column: str, days: Collection[date], literal: str = "DATE'{}'") -> str:
    """The condition that a column holds one of some days; Delta skips the files of other days for it.

    Few days are listed. Of many, consecutive days are written as ranges, and single days as lists, each within a range.

    :param literal: how a day is written.
    """
    in_order = sorted(set(days))
    if len(in_order) <= LISTED:
        return _listed(column, in_order, literal)
    ranges, single = [], list[date]()
    for first, last in _runs(in_order):
        if (last - first).days + 1 < _RUN:
            single += span(first, last)
        else:
            ranges.append(_between(column, [first, last], literal))
    parts = [single[start : start + PART] for start in range(0, len(single), PART)]
    return _any_of([*ranges, *(f"({_between(column, part, literal)} AND {_listed(column, part, literal)})" for part in parts)])


def _between(column: str, days: Sequence[date], literal: str) -> str:
    return f"{column} BETWEEN {literal.format(days[0])} AND {literal.format(days[-1])}"


def _listed(column: str, days: Sequence[date], literal: str) -> str:
    return f"{column} IN ({', '.join(map(literal.format, days))})"


def _runs(days: Sequence[date]) -> list[tuple[date, date]]:
    """The first and the last day of each run of consecutive days."""
    runs = [(days[0], days[0])]
    for day in days[1:]:
        first, last = runs[-1]
        if day - last == timedelta(days=1):
            runs[-1] = first, day
        else:
            runs.append((day, day))
    return runs


def _any_of(conditions: Sequence[str]) -> str:
    """Conditions as a balanced tree: parsers descend once for each level."""
    if len(conditions) == 1:
        return conditions[0]
    middle = len(conditions) // 2
    return f"({_any_of(conditions[:middle])} OR {_any_of(conditions[middle:])})"
