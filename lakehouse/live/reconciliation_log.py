"""``ops/reconciliations``: the comparisons of live with published numbers, with the causes of each difference.

The reconciliations of a day are numbered. One is written only if its content differs from the previous one.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.ledger.log_table import LogTable
from lakehouse.live.causes import Reconciled, in_order

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from lakehouse.lake import Lake


_ANY_TIME = datetime.min.replace(tzinfo=timezone.utc)


def log(lake: Lake) -> LogTable[Reconciled]:
    """The table."""
    return LogTable(Reconciled, lake, locations.reconciliations(lake), partition_by="metric")


def newest(lake: Lake, metric: str, day: date) -> list[Reconciled]:
    """The last reconciliation of a day, by window, grain and measure; empty if there is none."""
    entries = log(lake).read({"metric": [metric], "day": [day]})
    last = max((entry.number for entry in entries), default=0)
    return sorted((entry for entry in entries if entry.number == last), key=_place)


def newest_beyond_threshold(lake: Lake, metric: str, since: datetime) -> dict[date, list[Reconciled]]:
    """The numbers beyond the threshold in the last reconciliation of each day that had such numbers in a reconciliation since
    ``since``.
    """
    rows = log(lake).select(["day", "reconciled_at"], {"metric": [metric], "exceeds": [True]})
    recent = rows.filter(pc.greater_equal(rows["reconciled_at"], pa.scalar(since, rows["reconciled_at"].type)))
    last = {day: newest(lake, metric, day) for day in sorted(recent["day"].unique().to_pylist())}
    return {day: [entry for entry in entries if entry.exceeds] for day, entries in last.items()}


def record(lake: Lake, before: Sequence[Reconciled], entries: Sequence[Reconciled]) -> bool:
    """Append a reconciliation of a day, unless its content equals the previous one.

    :param before: the newest reconciliation, from :func:`newest`.
    :returns: whether it was written.
    """
    if not entries or [_content(entry) for entry in before] == [_content(entry) for entry in sorted(entries, key=_place)]:
        return False
    first, number = entries[0], (before[0].number if before else 0) + 1
    numbered = [replace(entry, number=number) for entry in entries]
    return log(lake).append(numbered, app_id=f"reconciliation:{first.metric}:{first.day}", app_version=number)


def _content(entry: Reconciled) -> Reconciled:
    """An entry without the fields that differ when only the stream has advanced and the numbers of the day are the same."""
    return replace(entry, number=0, batch=0, reconciled_at=_ANY_TIME, grain=dict(entry.grain), causes=dict(entry.causes))


def _place(entry: Reconciled) -> list[tuple[bool, str]]:
    return in_order(entry.cell)
