"""Why a revision changed the number of one window of its day: the columns ``window_reason`` and ``window_changed_rows``.

They are columns of a row; the other published columns are equal in all rows of a version. Belongs here: how they are written and
read. Which changes concern which window is computed in ``restatement.silver_tables``; the history of a window belongs to
``window_history``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from lakehouse.contracts.series import WINDOW_COLUMNS
from lakehouse.gold.numbers.lifecycle import REASONS_BY_PRECEDENCE, RevisionReason
from lakehouse.gold.numbers.published_table import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lakehouse.contracts.metric import MetricContract

_SCHEMA = arrow_schema(WINDOW_COLUMNS)


class WindowReason(NamedTuple):
    """Why the number of a window is another one.

    :param text: the reason and the causes, for people, as in ``late_data: 3 arrived late``.
    :param changed_rows: the number of changes of Silver rows that concern the window.
    """

    text: str
    changed_rows: int

    @property
    def reason(self) -> RevisionReason:
        """The reason alone."""
        return RevisionReason(self.text.partition(":")[0])


def place(values: Iterable[Any]) -> str:
    """The name of a window, or of the sessions of a key, from the values of its columns."""
    return json.dumps([None if value is None else str(value) for value in values])


def stored(rows: pa.Table, metric: MetricContract, reasons: Mapping[str, Sequence[Any]]) -> dict[str, pa.Array]:
    """Both columns for the rows of a number; none for a metric without windows.

    :param reasons: the text and the number of changed rows, by :func:`place`.
    """
    names = _place_columns(rows, metric)
    if not names:
        return {}
    places = zip(*(rows[name].to_pylist() for name in names))
    found = [reasons.get(place(values)) or (None, None) for values in places] if reasons else [(None, None)] * len(rows)
    return {item.name: pa.array([values[at] for values in found], item.type) for at, item in enumerate(_SCHEMA)}


def by_place(rows: pa.Table, metric: MetricContract) -> dict[str, WindowReason]:
    """The reasons in the rows of a candidate, by :func:`place`."""
    names = _place_columns(rows, metric)
    return {place(values): reason for values, reason in read(rows.to_pylist(), names).items()} if names else {}


def _place_columns(rows: pa.Table, metric: MetricContract) -> list[str]:
    """The columns that name the window of a row; none for a metric without windows, and for rows that lack one of them."""
    names = metric.event_window.place if metric.event_window else []
    return names if set(names) <= set(rows.column_names) else []


def read(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[tuple[Any, ...], WindowReason]:
    """The reasons in the stored rows of a version, by the values of the columns ``names``; of several the gravest one."""
    text, changed_rows = _SCHEMA.names
    reasons: dict[tuple[Any, ...], WindowReason] = {}
    for row in rows:
        if row.get(text) is not None:
            at, reason = tuple(row[name] for name in names), WindowReason(row[text], row[changed_rows])
            reasons[at] = _both(reasons[at], reason) if at in reasons else reason
    return reasons


def _both(first: WindowReason, second: WindowReason) -> WindowReason:
    """The reason of two sessions that begin at the same moment, or of the rows of a window, which all have the same one."""
    if first == second:
        return first
    gravest = next((reason for reason in REASONS_BY_PRECEDENCE if reason in (first.reason, second.reason)), first.reason)
    return WindowReason(gravest.value, first.changed_rows + second.changed_rows)
