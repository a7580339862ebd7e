"""The checks of dimensions: of the intervals of their keys, and that the facts of a metric have a match in them.

Intervals are checked per event day of the dimension's silver table, for the keys that have a change on the day. The expected
intervals are computed from silver's rows of the days and from the changes by key, by the rule in ``interval_table``. Intervals
that lag behind silver, because a run was stopped, fail until silver is materialized again.

Facts without a match are counted per event day, in Arrow and without Spark; their share must stay within the one that the
metric's contract tolerates. The value of such a fact in the number belongs to ``joins``.
"""

from __future__ import annotations

from collections import Counter
from datetime import date
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.dimensions import buckets as dimension_buckets
from lakehouse.dimensions import changed_intervals, fact_index, interval_table, tables
from lakehouse.dimensions.interval_table import intervals
from lakehouse.dispositions.winners import groups, numpy_of
from lakehouse.lake import table_io, table_parts
from lakehouse.quality.check_rules import CheckResult, row_counts
from lakehouse.quality.row_sums import RowSums

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from deltalake import DeltaTable
    from numpy.typing import NDArray

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.metric_sources import Join
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake

EQUAL_CHANGES = "intervals_equal_changes"
NAMES = {
    "intervals_disjoint": "No two intervals of a key overlap.",
    "intervals_without_gap": "An interval after which its key has none was ended by a change.",
    "one_current_interval": "A key has one current interval at most.",
    EQUAL_CHANGES: "The changes by key are those of silver, and in a sample of buckets the intervals are what follows from them.",
}
#: The number of buckets that are compared with the rule.
_SAMPLED = 4
#: The keys of up to this many changes are looked up individually; with more, whole buckets are read.
_FEW_CHANGES = 10_000
_IDENTITY = ["record_key", "ingestion_id", "line_number"]
_OPEN = np.iinfo(np.int64).max


class _KeysInQuestion(NamedTuple):
    """The changes and the intervals of the checked keys, and whether they are compared with the rule."""

    changes: pa.Table
    intervals: pa.Table
    is_sampled: bool


def check_intervals(lake: Lake, contract: SourceContract, days: Collection[date]) -> list[CheckResult]:
    """Every check on each event day; none for a source that is no dimension."""
    if not contract.is_dimension:
        return []
    wrong, checked = {name: Counter[date]() for name in NAMES}, Counter[date]()
    in_silver, copied = (RowSums(["event_date"], _IDENTITY) for _ in range(2))
    silver = locations.silver(lake, contract.dataset).open()
    if silver is not None and days:
        on_days = {"event_date": days}
        in_silver.add(table_io.pieces_of_version(silver, ["event_date", *_IDENTITY], on_days))
        for part in _parts(lake, contract, silver, days):
            of_days = table_io.meeting(part.changes, on_days)
            copied.add([of_days])
            places = of_days.group_by(["dimension_key", "event_date"]).aggregate([])
            checked.update(places["event_date"].to_pylist())
            for name, bad in _wrong_keys(contract, part):
                wrong[name].update(places.filter(pc.is_in(places["dimension_key"], value_set=bad))["event_date"].to_pylist())
    lagging = {day for (day,) in in_silver.differing(copied)}
    return [
        _result(contract, name, day, checked[day], wrong[name][day], lags=name == EQUAL_CHANGES and day in lagging)
        for name in NAMES
        for day in sorted(days)
    ]


def _result(contract: SourceContract, name: str, day: date, checked: int, wrong: int, *, lags: bool) -> CheckResult:
    advice = f"materialize silver/{contract.dataset} for {day}, which brings its intervals up to date"
    why = None
    if wrong:
        why = f"the intervals of {wrong} keys with a change on the day are not those of their changes: {advice}"
    elif lags:
        why = f"the changes by key are not those that silver holds on the day: {advice}"
    return CheckResult(name, day, why is None, {"keys": checked, "keys_wrong": wrong}, why)


def _parts(lake: Lake, contract: SourceContract, silver: DeltaTable, days: Collection[date]) -> Iterator[_KeysInQuestion]:
    """The keys that have a change on the days: together if they are few, else the keys of all buckets, bucket by bucket."""
    copy = dimension_buckets.followed(lake, contract, silver)
    table = locations.intervals(lake, contract.dataset).open()
    if copy is None or table is None:
        return
    if table_io.rows_at_most(silver, {"event_date": days}) <= _FEW_CHANGES:
        rows = table_io.read_version(silver, ["record_key"], {"event_date": days})
        of_days = tables.dimension_keys(rows["record_key"]).drop_null().unique()
        buckets = pc.unique(tables.key_buckets(of_days, contract.dimension.buckets)).to_pylist()
        changes = dimension_buckets.read(contract, copy[0], buckets, of_days)
        yield _KeysInQuestion(changes, interval_table.read(contract, table, buckets, of_days), is_sampled=True)
        return
    buckets = sorted(table_parts.rows(copy[0]))
    first = min(days).toordinal() % max(len(buckets), 1)
    sample = {*(buckets[first:] + buckets[:first])[:_SAMPLED]}
    for bucket in buckets:
        changes = dimension_buckets.read(contract, copy[0], [bucket])
        yield _KeysInQuestion(changes, interval_table.read(contract, table, [bucket]), bucket in sample)


def _wrong_keys(contract: SourceContract, part: _KeysInQuestion) -> Iterator[tuple[str, pa.Array]]:
    """For each check, the keys that fail it."""
    held = part.intervals.sort_by([("dimension_key", "ascending"), ("valid_from", "ascending")])
    key, begins = groups(held["dimension_key"]), numpy_of(held["valid_from"])
    ends = pc.fill_null(held["valid_to"].cast(pa.int64()), _OPEN).to_numpy()
    last_of_key = np.append(key[1:] != key[:-1], True)[: len(key)]
    following = np.append(begins[1:], _OPEN)[: len(key)]
    names = held["dimension_key"]

    def keys_where(bad: NDArray[np.bool_]) -> pa.Array:
        return pc.unique(names.filter(pa.array(bad)))

    yield "intervals_disjoint", keys_where((begins >= ends) | (~last_of_key & (ends > following)))
    yield "one_current_interval", keys_where(~last_of_key & (ends == _OPEN))
    leaves_gap = (ends != _OPEN) & (last_of_key | (ends < following))
    yield "intervals_without_gap", keys_where(leaves_gap & ~_are_ended(held, part.changes))
    if part.is_sampled:
        differing = interval_table.differences(part.intervals, intervals(contract, part.changes))
        yield EQUAL_CHANGES, pc.unique(differing["dimension_key"])


def _are_ended(held: pa.Table, changes: pa.Table) -> NDArray[np.bool_]:
    """Whether each interval ends at a time at which a change of its key ends the key, or ends itself (``ends_at``)."""
    by_key = changes.filter(pc.fill_null(changes["key_ends"], False)).select(["dimension_key", "event_ts"])
    by_itself = changes.filter(pc.is_valid(changes["ends_at"])).select(["dimension_key", "ends_at"])
    names = ["dimension_key", "at"]
    both = [part.rename_columns(names) for part in (held.select(["dimension_key", "valid_to"]), by_key, by_itself)]
    place = groups(*(pa.concat_tables(both)[name] for name in names))
    return np.isin(place[: len(held)], place[len(held) :])


FACTS_MATCHED = "facts_matched"

MATCHED_DESCRIPTION = "No more of the day's facts than the contract tolerates are without a match in a dimension that is joined."

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
            for on, known_of, counts, zone in zip(keys, intervals_of, unmatched, zones):
                texts = tables.key_texts([piece[name] for name in on])
                known = known_of(texts.unique().drop_null())
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
        are_few = len(wanted) <= tables.FEW_KEYS
        found = tables.intervals_of_keys(lake, contract, _INTERVALS.names, wanted) if are_few else every()
        return _INTERVALS.empty_table() if found is None else found.cast(_INTERVALS)

    return intervals_of
