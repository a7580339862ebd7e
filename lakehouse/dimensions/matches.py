"""The check that facts have a match in the dimensions that a metric joins, within the share that the contract tolerates.

Arrow in, counts per event day out, without Spark. The value of a fact without a match in the number belongs to ``as_of``.
"""

from __future__ import annotations

from collections import Counter
from datetime import date
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.dimensions import changed_intervals, fact_index, interval_reads, join_keys
from lakehouse.quality.check_result import CheckResult
from lakehouse.quality.source_checks import row_counts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from lakehouse.contracts.joins import Join
    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake


FACTS_MATCHED = "facts_matched"
DESCRIPTION = "No more of the day's facts than the contract tolerates are without a match in a dimension that is joined."
_INTERVALS = pa.schema(
    [("dimension_key", pa.string()), *((name, changed_intervals.TIME) for name in changed_intervals.PLACE[1:])]
)


def bounded(metric: MetricContract) -> list[Join]:
    """The joins of a metric whose contract bounds the share of facts without a match."""
    return [join for join in metric.joins if join.max_unmatched is not None]


def check_matched(lake: Lake, metric: MetricContract, days: Collection[date]) -> list[CheckResult]:
    """The check on each event day, a warning if it fails; none if no join of the metric has a bound."""
    joins = bounded(metric)
    if not joins or not days:
        return []
    facts, unmatched = _counts(lake, metric, joins, days)
    outcomes = []
    for day in sorted(days):
        of_joins = [(join, counts[day]) for join, counts in zip(joins, unmatched)]
        problems = [
            f"{count} of {facts[day]} facts have no match in {join.dimension}; a share of {join.max_unmatched} is tolerated"
            for join, count in of_joins
            if count > Fraction(join.max_unmatched or 0) * facts[day]
        ]
        numbers = {"facts": facts[day]} | {f"{join.dimension}_unmatched": count for join, count in of_joins}
        why = f"{'; '.join(problems)}: they count as unknown, and move when their keys come" if problems else None
        outcomes.append(CheckResult(FACTS_MATCHED, day, not problems, numbers, why, warns=True))
    return outcomes


def _counts(
    lake: Lake, metric: MetricContract, joins: Sequence[Join], days: Collection[date]
) -> tuple[Counter[date], list[Counter[date]]]:
    """The number of facts of each day, and by join the number of facts without a match."""
    facts, unmatched = Counter[date](), [Counter[date]() for _ in joins]
    zones = [metric.day_zone(join) for join in joins]
    intervals_of = [_intervals(lake, metric.dimensions[join.dimension]) for join in joins]
    for entry in metric.read:
        keys = [[entry.column(name) for name in join.on] for join in joins]
        columns = list(dict.fromkeys([*(name for on in keys for name in on), "event_date", "event_ts"]))
        stored = locations.silver_read_of(lake, entry)
        for piece in stored.pieces(columns, {"event_date": days}):
            facts.update(row_counts(piece, "event_date"))
            for on, intervals, counts, zone in zip(keys, intervals_of, unmatched, zones):
                texts = join_keys.texts([piece[name] for name in on])
                known = intervals(texts.unique().drop_null())
                place = changed_intervals.covering(pa.chunked_array([texts]), fact_index.event_times(piece, zone), known)
                counts.update(row_counts(piece.filter(pc.is_null(place)), "event_date"))
    return facts, unmatched


def _intervals(lake: Lake, contract: SourceContract) -> Callable[[pa.Array], pa.Table]:
    """A function that returns the intervals of given keys, possibly with those of other keys."""

    @cache
    def every() -> pa.Table | None:
        stored = locations.intervals(lake, contract.dataset)
        return stored.read(_INTERVALS.names, None)

    def intervals_of(wanted: pa.Array) -> pa.Table:
        are_few = len(wanted) <= interval_reads.FEW_KEYS
        found = interval_reads.of_keys(lake, contract, _INTERVALS.names, wanted) if are_few else every()
        return _INTERVALS.empty_table() if found is None else found.cast(_INTERVALS)

    return intervals_of
