"""The revisions of one window of a day: those of the day that changed the window's numbers or its state.

A day is published as a whole, with the rows of all its windows; a window's history follows from that, and is stored nowhere.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lakehouse.calendar import windows
from lakehouse.contracts.windows.event_window import WINDOW_START

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.gold.numbers.history import PublishedVersion


def narrowed(version: PublishedVersion, start: datetime) -> PublishedVersion:
    """A version of a day with the rows of one window only; none if nothing happened in it.

    :param start: the first moment of the window.
    """
    return replace(version, rows=rows_of(version.rows, start))


def rows_of(rows: Iterable[dict[str, Any]], start: datetime) -> list[dict[str, Any]]:
    """Those of a day's rows that belong to the window with a first moment."""
    return [row for row in rows if row[WINDOW_START] == start]


def named(row: Mapping[str, Any], metric: MetricContract) -> dict[str, Any]:
    """A row of a number for people: with the name of its window, if it belongs to one."""
    if metric.event_window is None or row.get(WINDOW_START) is None:
        return dict(row)
    return {**row, WINDOW_START: text(WINDOW_START, row[WINDOW_START], metric)}


def text(column: str, value: Any, metric: MetricContract) -> str:
    """A value of the grain in words: the name of a window, not the time at which it starts."""
    if column == WINDOW_START and metric.event_window is not None and value is not None:
        return windows.name(value, metric.event_window.zone)
    return f"{value}"


def history(versions: Sequence[PublishedVersion], start: datetime) -> list[PublishedVersion]:
    """The versions of a day that changed a window, in their order; adjustments that leave it alone are not among them.

    :param versions: all of the day, in the order of publication.
    """
    changes: list[PublishedVersion] = []
    for version in versions:
        of_window = narrowed(version, start)
        if version.adjustment is not None:
            is_change = bool(of_window.rows)
        else:
            before = next((earlier for earlier in reversed(changes) if earlier.adjustment is None), None)
            is_change = (before.rows, before.state) != (of_window.rows, of_window.state) if before else bool(of_window.rows)
        changes += [of_window] if is_change else []
    return changes


def since_first(versions: Sequence[PublishedVersion], start: datetime) -> Sequence[PublishedVersion]:
    """The versions of a day from the first one that has a number of a window on; all of them if none has.

    :param versions: of the day, in the order of publication.
    """
    return next((versions[place:] for place, one in enumerate(versions) if rows_of(one.rows, start)), versions)


def last_changes(versions: Sequence[PublishedVersion]) -> dict[datetime, str]:
    """By first moment of a window, the label of the revision or adjustment of its day that changed its numbers last.

    :param versions: all of the day, in the order of publication.
    """
    labels: dict[datetime, str] = {}
    before: dict[datetime, list[dict[str, Any]]] = {}
    for version in versions:
        by_window: dict[datetime, list[dict[str, Any]]] = {}
        for row in version.rows:
            if row[WINDOW_START] is not None:
                by_window.setdefault(row[WINDOW_START], []).append(row)
        if version.adjustment is not None:
            labels |= dict.fromkeys(by_window, version.label)
            continue
        changed = [start for start in {**before, **by_window} if before.get(start) != by_window.get(start)]
        labels |= dict.fromkeys(changed, version.label)
        before = by_window
    return labels
