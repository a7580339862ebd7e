"""The numbers of a period that are not published: those that a person refused since, and all numbers while the period is
reverted.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from lakehouse.gold.numbers.lifecycle import RevisionReason
from lakehouse.gold.publication import rejected_candidates, reverted_periods

if TYPE_CHECKING:
    from collections.abc import Collection, Container
    from datetime import date, datetime

    import pyarrow as pa

    from lakehouse.contracts.series import Series
    from lakehouse.settings import Settings


class _EveryNumber:
    """A container of every digest: a reverted period refuses all numbers."""

    def __contains__(self, content: object) -> bool:
        return True


def find_refused(
    settings: Settings, series: Series, existing: pa.Table | None, starts: Collection[date]
) -> dict[date, Container[str]]:
    """The digests of the numbers of each period that were refused since its content was last published; all for a reverted
    period.

    :param existing: all rows of these periods.
    """
    published: dict[date, datetime] = {}
    names = [series.by, "revision", "is_latest", "adjustment", "published_at", "restated_on", "reason"]
    for row in [] if existing is None else existing.select(names).to_pylist():
        start, content_since = row[series.by], row["restated_on"]
        if RevisionReason(row["reason"]).is_growth or row["adjustment"]:
            content_since = row["published_at"]
        if content_since is not None and (start not in published or content_since > published[start]):
            published[start] = content_since
    refused: dict[date, set[str]] = defaultdict(set)
    for entry in rejected_candidates.of(settings, series.name, starts):
        if entry.period_start not in published or entry.dropped_at >= published[entry.period_start]:
            refused[entry.period_start].add(entry.content)
    return {**refused, **dict.fromkeys(reverted_periods.kept(settings, series.name, starts), _EveryNumber())}
