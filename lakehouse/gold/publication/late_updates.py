"""The number of times that late rows have changed a published window, and whether a further change waits until the window is
final.

Belongs here: ``late_events.max_updates_per_window``. The updates are counted from the published revisions, and not stored.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from lakehouse import locations
from lakehouse.contracts.windows import WINDOW_START
from lakehouse.gold.numbers.lifecycle import PublishAction, RevisionReason, State
from lakehouse.late_events import classification, left_out
from lakehouse.snapshots import input_sets

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date, datetime

    import pyarrow as pa

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.series import Series
    from lakehouse.gold.publication.candidates import Draft
    from lakehouse.lake import Lake

#: The rows of each window of a day, by its first moment; None for the day of a metric without windows, and rows without a time.
_Windows = dict["datetime | None", list[dict[str, Any]]]
#: The log message about a number that waits: the series, and the day.
WAITING = "gold/%s: late rows have changed %s as often as late_events.max_updates_per_window allows; it waits until it is final"
#: The reason why the number of such a day differs from silver.
EXHAUSTED = "late rows have changed a window as often as late_events.max_updates_per_window allows: it waits until it is final"
#: The reasons of revisions that follow the data.
_BY_DATA = (RevisionReason.NEW_DATA.value, RevisionReason.LATE_DATA.value, RevisionReason.CORRECTION.value)


def waits(lake: Lake, series: Series, existing: pa.Table | None, draft: Draft) -> bool:
    """Whether every window that a draft changes has been updated as often as the contract allows, and is not final yet.

    :param existing: every published row of the day, possibly with those of others.
    """
    terms = series.metric.late_events
    if terms is None or existing is None or draft.action is not PublishAction.REVISION or draft.reason.value not in _BY_DATA:
        return False
    revisions = _revisions(existing, series, draft.start)
    if len(revisions) <= terms.max_updates_per_window or revisions[-1][0]["state"] != draft.state.value:
        return False
    if draft.state is State.FINAL:
        return False
    changed = _changed(_by_window(revisions[-1], series), _by_window(draft.rows.to_pylist(), series))
    updates = _counted(lake, series, draft.start, revisions)
    return bool(changed) and all(updates[window] >= terms.max_updates_per_window for window in changed)


def is_exhausted(lake: Lake, series: Series, existing: pa.Table | None, day: date) -> bool:
    """Whether a window of a day that is not final has been updated as often as the contract allows: its changes wait."""
    terms = series.metric.late_events
    if terms is None or existing is None:
        return False
    revisions = _revisions(existing, series, day)
    if len(revisions) <= terms.max_updates_per_window or revisions[-1][0]["state"] == State.FINAL.value:
        return False
    return max(_counted(lake, series, day, revisions).values(), default=0) >= terms.max_updates_per_window


def waits_for_close(lake: Lake, series: Series, day: date) -> bool:
    """The same, with what is published of the day."""
    return is_exhausted(lake, series, locations.gold(lake, series).read(None, {series.by: [day]}), day)


def updates_of(lake: Lake, series: Series, existing: pa.Table, day: date) -> Counter[datetime | None]:
    """The number of revisions of a day that changed each of its windows because of late rows.

    :param existing: every published row of the day, possibly with those of others.
    """
    return _counted(lake, series, day, _revisions(existing, series, day))


def _counted(lake: Lake, series: Series, day: date, revisions: Sequence[list[dict[str, Any]]]) -> Counter[datetime | None]:
    """A revision updates a window with late rows if the watermark had passed the window when the previous revision was
    computed.
    """
    updates: Counter[datetime | None] = Counter()
    for before, after in pairwise(revisions):
        if after[0]["reason"] not in _BY_DATA or before[0]["inputs"] is None:
            continue
        passed = _watermark(lake, series.metric, before[0]["inputs"])
        changed = _changed(_by_window(before, series), _by_window(after, series))
        updates.update(window for window in changed if _end(series.metric, day, window) <= passed)
    return updates


def _watermark(lake: Lake, metric: MetricContract, inputs: str) -> int:
    """The watermark after the deliveries among the recorded ``inputs``, in microseconds since 1970."""
    assert metric.late_source is not None  # noqa: S101 (a metric with late events knows its source)
    ids = input_sets.ids_of(lake, metric.source, inputs)
    return left_out.watermark_after(lake, metric.late_source, ids)


def _end(metric: MetricContract, day: date, window: datetime | None) -> int:
    assert metric.late_source is not None  # noqa: S101 (a metric with late events knows its source)
    zone = ZoneInfo(metric.late_source.clocks.timezone)
    return classification.end_of_window(day, window, metric, zone)


def _revisions(existing: pa.Table, series: Series, day: date) -> list[list[dict[str, Any]]]:
    """The rows of each revision of a day, in their order; adjustments are left out."""
    by_number: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in existing.select([*series.content, series.by, "revision", "adjustment", "reason", "state", "inputs"]).to_pylist():
        if row[series.by] == day and row["adjustment"] is None:
            by_number[row["revision"]].append(row)
    return [by_number[number] for number in sorted(by_number)]


def _by_window(rows: Sequence[Mapping[str, Any]], series: Series) -> _Windows:
    windows: _Windows = defaultdict(list)
    for row in rows:
        if row["row_count"]:
            windows[row.get(WINDOW_START)].append({name: row[name] for name in series.content})
    return windows


def _changed(before: _Windows, after: _Windows) -> list[datetime | None]:
    return [window for window in {**before, **after} if before.get(window) != after.get(window)]
