"""Which published numbers would come out otherwise if they were computed again, before anything is restated; nothing is written.

The rows are those that silver holds now, so that what differs follows from the code, the contract or a pending change. The rows
that a rebuild would change belong to ``silver.rebuild_preview``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse import locations
from lakehouse.delta.table_cache import with_table_cache
from lakehouse.gold import isolation
from lakehouse.gold.numbers import published_table
from lakehouse.gold.publication import late_at_close, write_audit_publish
from lakehouse.gold.restatement import metric_query

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import date

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.series import Series
    from lakehouse.settings import Settings

#: So many days are computed at a time.
_DAYS = 500


def differing_days(
    settings: Settings, series: Series, session: Callable[[], SparkSession], first: date | None = None, last: date | None = None
) -> list[date]:
    """The published days of a metric whose number differs from what its rows give now; days without rows are left out.

    :param series: the days of a metric that reads rows, as readers see them.
    :param first: the first day; by default all published ones. ``last`` likewise.
    """
    settings = with_table_cache(settings)
    published = published_table.partitions(settings, locations.gold(settings, series), series.by)
    days = sorted(day for day in published if (first is None or day >= first) and (last is None or day <= last))
    every: set[date] = set()

    def compute(metric: MetricContract | None, part: Sequence[date]) -> dict[date, pa.Table]:
        return metric_query.numbers(session(), settings, metric or series.metric, part, with_every_row=every)

    differing = []
    for start in range(0, len(days), _DAYS):
        some = days[start : start + _DAYS]
        before = write_audit_publish.read(settings, series, some, to_publish=False)
        states = before.published_states
        every |= late_at_close.counting_every_row(settings, series, before.existing)
        numbers = isolation.numbers_of(settings, series, some, compute, lambda day: day).numbers
        differing += [
            day
            for day, rows in sorted(numbers.items())
            if (state := states.get(day)) and not published_table.is_content(rows, state.restated or state.content)
        ]
    return differing
