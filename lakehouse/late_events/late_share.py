"""The share of late rows in each window of a published number; the action ``update`` patches or recomputes the number by it.

Belongs here: the share and its limit. How a number is patched belongs to ``gold.restatement.from_changes``.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from lakehouse.calendar import windows
from lakehouse.contracts.windows.event_window import WINDOW_START
from lakehouse.late_events import late_rows
from lakehouse.late_events.left_out import terms_of
from lakehouse.lateness.rules import late_share

if TYPE_CHECKING:
    from datetime import date

    import pyarrow as pa

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.settings import Settings


def is_below_limit(settings: Settings, metric: MetricContract, day: date, published: pa.Table) -> bool:
    """Whether in every window of a day the late rows that count are a smaller share of its rows than ``patch.below``.

    :param published: the content of the newest published number of the day.
    """
    late = late_rows_by_window(settings, metric, day)
    rows = _rows_by_window(metric, day, published)
    limit = terms_of(metric).patch.below
    return all(late_share(count, max(rows[window], count)) < limit for window, count in late.items())


def late_rows_by_window(settings: Settings, metric: MetricContract, day: date) -> Counter[str]:
    """The number of late rows of an event day that count, by name of the window."""
    late = late_rows.read(settings, metric.source, {"metric": [metric.name], "event_date": [day], "counts": [True]})
    counts = pc.value_counts(pc.list_flatten(late["windows"].combine_chunks()))
    return Counter(dict(zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist())))


def _rows_by_window(metric: MetricContract, day: date, published: pa.Table) -> Counter[str]:
    """The number of rows that the published number contains, by name of the window."""
    window, rows = metric.event_window, Counter[str]()
    starts = published[WINDOW_START].to_pylist() if window else [None] * len(published)
    for start, count in zip(starts, published["row_count"].to_pylist()):
        rows[windows.name(start, window.zone) if window and start else f"{day}"] += count
    return rows
