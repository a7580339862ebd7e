"""The revisions of one window of a day: those of the day that changed the window's numbers or its state.

A day is published as a whole, with the rows of all its windows; a window's history is computed from that, and is not stored.
Stored is why a revision changed the number of a window: in the columns ``window_reason`` and ``window_changed_rows``, which,
unlike other published columns, differ between the rows of a version. Which changes concern which window is computed in
``restatement.silver_tables``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from lakehouse.calendar import windows
from lakehouse.contracts.series import WINDOW_COLUMNS
from lakehouse.contracts.windows import WINDOW_START
from lakehouse.gold.numbers import lifecycle
from lakehouse.gold.numbers.lifecycle import REASONS_BY_PRECEDENCE, RevisionReason, State
from lakehouse.gold.numbers.published_table import arrow_schema

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from datetime import datetime

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.gold.numbers.history import PublishedVersion


@dataclass(frozen=True)
class WindowStanding:
    """The present number of a window, with the provenance of the window.

    :param restated: how often a number that readers had was replaced.
    :param update_count: how many revisions have changed its number since the first one.
    """

    start: datetime
    version: PublishedVersion
    restated: int
    update_count: int


def standings(versions: Sequence[PublishedVersion], starts: Collection[datetime] | None = None) -> list[WindowStanding]:
    """The present number of each window of a day that has one, in their order.

    :param versions: all of the day, in the order of publication.
    :param starts: restrict to these windows.
    """
    listed = []
    for start, changes in histories(versions, starts).items():
        revisions = [version for version in changes if version.adjustment is None]
        if revisions:
            reasons = [version.reason for version in revisions]
            restated = sum(version.restates for version in revisions[1:])
            listed.append(WindowStanding(start, revisions[-1], restated, lifecycle.update_count(reasons)))
    return listed


def narrowed(version: PublishedVersion, start: datetime) -> PublishedVersion:
    """A version of a day with the rows of one window only; without rows if nothing happened in the window.

    :param start: the first moment of the window.
    """
    return replace(version, rows=rows_of(version.rows, start))


def rows_of(rows: Iterable[dict[str, Any]], start: datetime) -> list[dict[str, Any]]:
    """The rows of a day that belong to the window that starts at ``start``."""
    return [row for row in rows if row[WINDOW_START] == start]


def named(row: Mapping[str, Any], metric: MetricContract) -> dict[str, Any]:
    """A row of a number for people, with the name of its window if it belongs to one."""
    if metric.event_window is None or row.get(WINDOW_START) is None:
        return dict(row)
    return {**row, WINDOW_START: text(WINDOW_START, row[WINDOW_START], metric)}


def text(column: str, value: Any, metric: MetricContract) -> str:
    """A value of the grain in words: the name of a window, not the time at which it starts."""
    if column == WINDOW_START and metric.event_window is not None and value is not None:
        return windows.name(value, metric.event_window.zone)
    return f"{value}"


def history(versions: Sequence[PublishedVersion], start: datetime) -> list[PublishedVersion]:
    """The versions of a day that changed a window, in their order; adjustments that do not concern it are left out.

    Each has the provenance of the window: when it was restated, why, by how many rows, and until when it was the newest. A
    revision that changed only other windows, and the state of all, is the change of a state. The first number of a window is
    initial, unless its day was final without it. Where the reason of the window was not stored with the revision, it is that of
    the day; how many rows changed, and in which way, is then known only if no other window changed.

    :param versions: all of the day, in the order of publication.
    """
    return histories(versions, {start}).get(start, [])


def histories(
    versions: Sequence[PublishedVersion], starts: Collection[datetime] | None = None
) -> dict[datetime, list[PublishedVersion]]:
    """The history of each window of a day that ever had a number, see :func:`history`, by first moment.

    :param versions: all of the day, in the order of publication.
    :param starts: restrict to these windows.
    """
    changes: dict[datetime, list[PublishedVersion]] = {}
    newest: dict[datetime, PublishedVersion] = {}
    before: dict[datetime | None, list[dict[str, Any]]] = {}
    was_final = False
    for version in versions:
        rows = _by_window(version.rows)
        moved = {start for start in {**before, **rows} if before.get(start, []) != rows.get(start, [])}
        after_close, was_final = was_final, version.state is State.FINAL
        if version.adjustment is None:
            before = rows
        for start in dict.fromkeys([*newest, *rows]):
            if start is None or (starts is not None and start not in starts):
                continue
            of_window, last = replace(version, rows=rows.get(start, [])), newest.get(start)
            if version.adjustment is not None:
                changes.setdefault(start, []).extend([_adjusting(of_window, start)] if of_window.rows else [])
            elif start in moved:
                is_first = last is None and not after_close
                newest[start] = _first(of_window) if is_first else _moved(of_window, last, start, is_alone=moved == {start})
                changes.setdefault(start, []).append(newest[start])
            elif last is not None and last.state is not version.state:
                newest[start] = _left_alone(of_window, last)
                changes.setdefault(start, []).append(newest[start])
    has_newest = any(version.is_latest for version in versions)
    return {start: _succeeding(of_window, has_newest=has_newest) for start, of_window in sorted(changes.items())}


def _by_window(rows: Iterable[dict[str, Any]]) -> dict[datetime | None, list[dict[str, Any]]]:
    """The rows of a day by the first moment of their window; a row without a time belongs to none."""
    by_window: dict[datetime | None, list[dict[str, Any]]] = {}
    for row in rows:
        by_window.setdefault(row[WINDOW_START], []).append(row)
    return by_window


def versions_of(versions: Sequence[PublishedVersion], start: datetime) -> list[PublishedVersion]:
    """Every version of a day as a window sees it; a revision that left the window alone changed nothing.

    :param versions: all of the day, in the order of publication.
    """
    changes = {version.label: version for version in history(versions, start)}
    revisions = [version for version in versions if version.adjustment is None or version.label in changes]
    alone = [changes.get(version.label) or narrowed(version, start) for version in revisions]
    return [one if one.label in changes else _left_alone(one, None) for one in alone]


def shown(versions: Sequence[PublishedVersion], chosen: PublishedVersion, start: datetime) -> PublishedVersion:
    """What a version of a day says of a window: the version that changed the window last until then, see :func:`history`.

    :param versions: all of the day, in the order of publication; ``chosen`` is one of them.
    """
    if chosen.adjustment is not None:
        return _adjusting(narrowed(chosen, start), start)
    until = [one for one in history(versions, start) if one.adjustment is None and one.revision <= chosen.revision]
    return until[-1] if until else _first(narrowed(chosen, start))


def _first(version: PublishedVersion) -> PublishedVersion:
    """The first number of a window."""
    return _with_provenance(version, RevisionReason.INITIAL, None, None, None)


def _moved(version: PublishedVersion, last: PublishedVersion | None, start: datetime, *, is_alone: bool) -> PublishedVersion:
    """A version with other numbers of a window than before.

    :param last: the version of the window before it; None if its day was final without the window.
    :param is_alone: whether the numbers of all other windows stay.
    """
    own = version.windows.get(start)
    reason, changed_rows = (own.reason, own.changed_rows) if own else (version.reason, None)
    why = own.text if own else reason.value
    if own is None and is_alone:
        why, changed_rows = version.restatement_reason or reason.value, version.row.get("changed_rows")
    if version.restates and not reason.is_growth:
        return _with_provenance(version, reason, version.restated_on, why, changed_rows)
    restated_on, restated_for = (last.restated_on, last.restatement_reason) if last else (None, None)
    return _with_provenance(version, reason, restated_on, restated_for, changed_rows)


def _left_alone(version: PublishedVersion, last: PublishedVersion | None) -> PublishedVersion:
    """A version that changed other windows, or only the state.

    :param last: the version of the window before it.
    """
    restated_on, why = (last.restated_on, last.restatement_reason) if last else (None, None)
    return _with_provenance(version, RevisionReason.DAILY_FINALIZATION, restated_on, why, None)


def _adjusting(version: PublishedVersion, start: datetime) -> PublishedVersion:
    """An adjustment of a window."""
    own = version.windows.get(start)
    if own is None:
        return version
    return _with_provenance(version, own.reason, version.restated_on, own.text, own.changed_rows)


def _with_provenance(
    version: PublishedVersion, reason: RevisionReason, restated_on: datetime | None, why: str | None, changed_rows: int | None
) -> PublishedVersion:
    own = {"reason": reason.value, "restated_on": restated_on, "restatement_reason": why, "changed_rows": changed_rows}
    return replace(version, reason=reason, restated_on=restated_on, restatement_reason=why, row={**version.row, **own})


def _succeeding(changes: Sequence[PublishedVersion], *, has_newest: bool) -> list[PublishedVersion]:
    """The versions of a window, each with the time at which the next one took its place.

    :param has_newest: whether the newest version of the day is among those of the window's day.
    """
    ended: list[PublishedVersion] = []
    later: PublishedVersion | None = None
    for version in reversed(changes):
        if version.adjustment is None:
            superseded, is_latest = later.published_at if later else None, later is None and has_newest
            row = {**version.row, "superseded_at": superseded, "is_latest": is_latest}
            ended.append(replace(version, superseded_at=superseded, is_latest=is_latest, row=row))
            later = version
        else:
            ended.append(version)
    return ended[::-1]


def since_first(versions: Sequence[PublishedVersion], start: datetime) -> Sequence[PublishedVersion]:
    """The versions of a day from the first one with a number of the window on; all of them if none has.

    :param versions: of the day, in the order of publication.
    """
    return next((versions[place:] for place, one in enumerate(versions) if rows_of(one.rows, start)), versions)


def last_changes(versions: Sequence[PublishedVersion]) -> dict[datetime, str]:
    """By first moment of a window, the label of the revision or adjustment of its day that last changed its numbers.

    :param versions: all versions of the day, in the order of publication.
    """
    labels: dict[datetime, str] = {}
    before: dict[datetime | None, list[dict[str, Any]]] = {}
    for version in versions:
        rows = _by_window(version.rows)
        changed = [start for start in {**before, **rows} if before.get(start) != rows.get(start)]
        if version.adjustment is not None:
            changed = list(rows)
        else:
            before = rows
        labels |= {start: version.label for start in changed if start is not None}
    return labels


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
