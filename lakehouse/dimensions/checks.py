"""The checks of a dimension's intervals, per event day of its silver table, for the keys that have a change on the day.

The expected intervals are computed from silver's rows of the days and from the changes by key, by the rule in ``intervals``.
Intervals that lag behind silver, because a run was stopped, fail until silver is materialized again.
"""

from __future__ import annotations

from collections import Counter
from datetime import date
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.delta import data_files
from lakehouse.dimensions import buckets as dimension_buckets
from lakehouse.dimensions import interval_table, tables
from lakehouse.dimensions.intervals import intervals
from lakehouse.dispositions.winners import groups, numpy_of
from lakehouse.lake import table_io
from lakehouse.quality.check_result import CheckResult
from lakehouse.quality.row_sums import RowSums

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from deltalake import DeltaTable
    from numpy.typing import NDArray

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
    buckets = sorted(data_files.rows_by_partition(copy[0]))
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
