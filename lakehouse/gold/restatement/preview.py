"""Which published numbers would come out otherwise if they were computed again, before anything is restated; nothing is written.

The rows are those that silver holds now, so that what differs follows from the code, the contract or a pending change. The rows
that a rebuild would change belong to ``silver.rebuild``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakehouse.gold import isolation
from lakehouse.gold.numbers import history, published_table
from lakehouse.gold.numbers.comparison import Sides
from lakehouse.gold.publication import late_at_close, write_audit_publish
from lakehouse.gold.restatement import metric_query

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import date

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.series import Series
    from lakehouse.lake import Lake

#: So many days are computed at a time.
_DAYS = 500


@dataclass(frozen=True)
class DifferingNumber:
    """A published day whose number would come out otherwise.

    :param measures: the total of each measure over the grain, as published and as computed now.
    :param problem: why the number cannot be computed now; then ``measures`` is empty.
    """

    day: date
    measures: Mapping[str, Sides] = field(default_factory=dict)
    problem: str | None = None


def differing_numbers(
    lake: Lake, series: Series, session: Callable[[], SparkSession], first: date | None = None, last: date | None = None
) -> list[DifferingNumber]:
    """The published days of a metric whose number differs from what its rows give now; days without rows are left out.

    :param series: the days of a metric that reads rows, as readers see them.
    :param first: the first day; by default all published ones. ``last`` likewise.
    """
    lake = lake.cached()
    published = published_table.starts(lake, series)
    days = sorted(day for day in published if (first is None or day >= first) and (last is None or day <= last))
    every: set[date] = set()

    def compute(metric: MetricContract | None, part: Sequence[date]) -> dict[date, pa.Table]:
        return metric_query.numbers(session, lake, metric or series.metric, part, with_every_row=every)

    differing = list[DifferingNumber]()
    for start in range(0, len(days), _DAYS):
        some = days[start : start + _DAYS]
        before = write_audit_publish.read(lake, series, some, to_publish=False)
        states = before.published_states
        every |= late_at_close.counting_every_row(lake, series, before.existing)
        computed = isolation.numbers_of(lake, series, some, compute, lambda day: day)
        others = {
            day: rows
            for day, rows in computed.numbers.items()
            if (state := states.get(day)) and not published_table.is_content(rows, state.restated or state.content)
        }
        differing += [DifferingNumber(day, problem=problem) for day, (_, problem) in computed.failed.items() if day in states]
        differing += _compared(lake, series, others)
    return sorted(differing, key=lambda one: one.day)


def _compared(lake: Lake, series: Series, numbers: Mapping[date, pa.Table]) -> list[DifferingNumber]:
    """Computed numbers beside those that are published, with their adjustments."""
    known = history.history(lake, series, numbers)
    compared = []
    for day, rows in numbers.items():
        published = history.moved(series, known[day])[-1]
        now = history.grain_totals(series, rows.to_pylist())
        sides = {name: Sides(published[name].after if name in published else None, total) for name, total in now.items()}
        compared.append(DifferingNumber(day, sides))
    return compared
