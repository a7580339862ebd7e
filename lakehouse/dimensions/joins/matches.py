"""The check that facts have a match in the dimensions that a metric joins, within the share that a contract tolerates.

Arrow in, counts per event day out, without Spark. What facts without a match count as in the number belongs to ``as_of``.
"""

from __future__ import annotations

from collections import Counter
from datetime import date
from fractions import Fraction
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.delta import data_files, table_io
from lakehouse.dimensions import keys
from lakehouse.dimensions.joins import fact_index, interval_changes, join_keys
from lakehouse.quality.check_result import CheckResult

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from lakehouse.contracts.joins.join import Join
    from lakehouse.contracts.metric import MetricContract
    from lakehouse.settings import Settings

FACTS_MATCHED = "facts_matched"
DESCRIPTION = "No more of the day's facts than the contract tolerates are without a match in a dimension that is joined."
#: The intervals of so many keys are looked up by themselves; with more, all are read.
_FEW_KEYS = 10_000
_INTERVALS = pa.schema([("dimension_key", pa.string()), *((name, interval_changes.TIME) for name in interval_changes.PLACE[1:])])


def bounded(metric: MetricContract) -> list[Join]:
    """The joins of a metric whose contract bounds the share of facts without a match."""
    return [join for join in metric.joins if join.max_unmatched is not None]


def check_matched(settings: Settings, metric: MetricContract, days: Collection[date]) -> list[CheckResult]:
    """The check on each event day, a warning if it fails; none if no join of the metric has a bound."""
    joins = bounded(metric)
    if not joins or not days:
        return []
    facts, unmatched = Counter[date](), {join.dimension: Counter[date]() for join in joins}
    for join in joins:
        counted = _count(settings, metric, join, days, unmatched[join.dimension])
        facts = counted if join is joins[0] else facts
    outcomes = []
    for day in sorted(days):
        beyond = [join for join in joins if unmatched[join.dimension][day] > Fraction(join.max_unmatched or 0) * facts[day]]
        problems = [
            f"{unmatched[join.dimension][day]} of {facts[day]} facts have no match in {join.dimension}; a share of "
            f"{join.max_unmatched} is tolerated"
            for join in beyond
        ]
        advice = "they count as unknown, and move when their keys come"
        numbers = {"facts": facts[day]} | {f"{join.dimension}_unmatched": unmatched[join.dimension][day] for join in joins}
        why = f"{'; '.join(problems)}: {advice}" if problems else None
        outcomes.append(CheckResult(FACTS_MATCHED, day, not beyond, numbers, why, warns=True))
    return outcomes


def _count(
    settings: Settings, metric: MetricContract, join: Join, days: Collection[date], unmatched: Counter[date]
) -> Counter[date]:
    """How many facts each day has; adds those without a match to ``unmatched``."""
    intervals_of, facts = _intervals(settings, metric, join), Counter[date]()
    for entry in metric.read:
        on = [entry.column(name) for name in join.on]
        columns = list(dict.fromkeys([*on, "event_date", "event_ts"]))
        path = locations.silver_read_of(settings, entry)
        for piece in table_io.pieces(path, columns, {"event_date": days}, settings.storage_options):
            texts = join_keys.texts([piece[name] for name in on])
            intervals = intervals_of(texts.unique().drop_null())
            place = interval_changes.covering(pa.chunked_array([texts]), fact_index.event_times(piece), intervals)
            _add(facts, piece["event_date"])
            _add(unmatched, piece["event_date"].filter(pc.is_null(place)))
    return facts


def _add(counts: Counter[date], days: pa.ChunkedArray) -> None:
    for row in pc.value_counts(days).to_pylist():
        counts[row["values"]] += row["counts"]


def _intervals(settings: Settings, metric: MetricContract, join: Join) -> Callable[[pa.Array], pa.Table]:
    """Gives the places of the intervals of some keys, those of others perhaps among them."""
    table = table_io.open_table(locations.intervals(settings, join.dimension), settings.storage_options)
    columns, everything = list(interval_changes.PLACE), list[pa.Table]()

    def intervals_of(wanted: pa.Array) -> pa.Table:
        if table is None:
            return _INTERVALS.empty_table()
        if len(wanted) <= _FEW_KEYS and not everything:
            buckets = keys.buckets(wanted, metric.dimensions[join.dimension].dimension.buckets).unique()
            return data_files.with_texts(table, columns, "dimension_key", wanted, {"bucket": buckets}).cast(_INTERVALS)
        if not everything:
            everything.append(table_io.read_version(table, columns).cast(_INTERVALS))
        return everything[0]

    return intervals_of
