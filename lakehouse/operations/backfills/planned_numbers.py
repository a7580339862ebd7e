"""The numbers of a backfill's plan: the days of a metric, and the waves of days and roll-ups with their outcomes.

This module only reads. ``impact.affected_periods`` determines the effects of a changed day; ``planner`` plans the lower layers.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from lakehouse.gold.numbers import published_table, served_version
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.impact import affected_periods
from lakehouse.operations.backfills.plan import Layer, Wave
from lakehouse.operations.backfills.waves import are_independent_numbers

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from datetime import date

    from lakehouse.contracts import Catalog
    from lakehouse.contracts.series import Series
    from lakehouse.impact.affected_periods import Affected
    from lakehouse.settings import Settings


def behind_source(settings: Settings, catalog: Catalog, source: str, days: Collection[date]) -> tuple[list[Wave], list[str]]:
    """The numbers that follow the event days ``days`` of a source, and their consumers."""
    consumers: list[str] = []
    gold: list[Wave] = []
    rollups: list[Wave] = []
    for metric in catalog.metrics_of(source):
        daily = served_version.daily(settings, catalog, metric)
        pending = find_pending(settings, daily)  # earlier changes of silver are followed, too; all days if the feed is gone
        changed = sorted({*days, *(pending.causes or pending.starts)})
        affected = affected_periods.affected(settings, daily, changed)
        gold += of_series(affected, Layer.GOLD, [daily])
        rollups += of_series(affected, Layer.ROLLUPS, daily.rollups)
        consumers += metric.consumers
    return [*gold, *rollups], list(dict.fromkeys(consumers))


def days_of_metric(settings: Settings, daily: Series, first: date, last: date) -> set[date]:
    """The days of a metric in a range: days with silver rows, and published days."""
    return {day for day in published_table.known_days(settings, daily) if first <= day <= last}


def of_series(affected: Sequence[Affected], layer: Layer, every: Sequence[Series]) -> Iterable[Wave]:
    """A wave per series, with the outcomes of its numbers."""
    for series in every:
        periods = [
            period
            for period in affected
            if period.series == series.name and period.outcome is not affected_periods.ImpactOutcome.UNCHANGED
        ]
        if periods:
            starts = tuple(sorted(period.start for period in periods))
            yield Wave(layer=layer, table=f"gold/{series.name}", partitions=starts, outcomes=_outcomes(periods))


def of_days(affected: Sequence[Affected], daily: Series, days: Collection[date]) -> Iterable[Wave]:
    """A wave with the days ``days`` of a series, in their order; none if no number is affected."""
    periods = [period for period in affected if period.series == daily.name and period.start in days]
    if periods:
        parallel = are_independent_numbers(daily.metric)
        yield Wave(
            layer=Layer.GOLD,
            table=f"gold/{daily.name}",
            partitions=tuple(days),
            outcomes=_outcomes(periods),
            parallel=parallel,
        )


def _outcomes(periods: Sequence[Affected]) -> dict[str, int]:
    counts = Counter(period.outcome.value for period in periods)
    counts |= {"final": sum(period.state == "final" for period in periods)}
    return {name: count for name, count in sorted(counts.items()) if count}
