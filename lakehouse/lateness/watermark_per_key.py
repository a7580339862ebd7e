"""The strategy ``per_key`` of the event-time watermark: the least, over the active keys, of each key's newest event.

Belongs here: the rule, on rows that are complete up to an arrival (Arrow in, Arrow out), and the stored state of each source,
``ops/watermark_keys``: one row per source, replaced by one commit. The other strategies, which need only one time per delivery,
belong to ``event_watermark``.

Rows that arrived at the same moment count together, so that neither their order nor their files make a difference. A key is
active until the idle timeout passes without a row of that key, measured by the arrivals of the other keys: a source that is
silent as a whole does not move the watermark. A key that sends its first row, or sends again after a pause, holds the watermark
and does not move it back.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations, pieces
from lakehouse.contracts.source_rules import PerKeyWatermark
from lakehouse.delta import partition_writer, row_writer
from lakehouse.lake import table_io
from lakehouse.lateness.measurement import clocked, microseconds
from lakehouse.ledger import ingestions

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime

    from numpy.typing import NDArray

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.ledger.ingestions import Ingestion


if TYPE_CHECKING:
    Numbers = NDArray[np.int64]

#: No event; times are microseconds since 1970.
NEVER = -(2**63)
TOUCHES = pa.schema([("key", pa.string()), ("arrived", pa.int64()), ("happened", pa.int64())])


@dataclass(frozen=True)
class KeyedTimes:
    """The state of the keys after all rows up to an arrival.

    :param newest_events: per key, when its newest event happened.
    :param newest_arrivals: per key, when its newest row arrived.
    :param least: the least newest event of the active keys; it never decreases.
    :param least_before: the value of ``least`` before the newest arrival.
    """

    keys: pa.Array
    newest_events: Numbers
    newest_arrivals: Numbers
    least: int = NEVER
    least_before: int = NEVER

    @property
    def through(self) -> int:
        """When the newest row arrived."""
        return int(self.newest_arrivals.max(initial=NEVER))

    def active(self, now: int, idle_timeout: int) -> Numbers:
        """The indices of the keys that are active at ``now``."""
        return np.flatnonzero(self.newest_arrivals >= now - idle_timeout)

    def least_at(self, now: int, idle_timeout: int) -> int:
        """The least newest event of the keys that are active at ``now``."""
        return int(self.newest_events[self.active(now, idle_timeout)].min(initial=2**63 - 1))

    def holding(self, idle_timeout: int, count: int) -> list[str]:
        """The active keys that hold the watermark back: those with the least newest event, up to ``count`` of them."""
        active = self.active(self.through, idle_timeout)
        if not len(active):
            return []
        keys = pa.table({"key": self.keys.take(pa.array(active)), "event": self.newest_events[active]})
        first = pc.select_k_unstable(keys, min(count, len(keys)), [("event", "ascending"), ("key", "ascending")])
        return [str(key) for key in keys["key"].take(first).to_pylist()]


NOTHING = KeyedTimes(pa.array([], pa.string()), np.empty(0, np.int64), np.empty(0, np.int64))


def touches(keys: pa.ChunkedArray, arrived: pa.ChunkedArray, happened: pa.ChunkedArray) -> pa.Table:
    """The newest event of each key at each arrival, as :data:`TOUCHES`; rows without an event time are left out.

    :param arrived: in microseconds, like ``happened``. All rows without a key share one key, the empty text.
    """
    rows = pa.table({"key": pc.fill_null(keys.cast(pa.string()), ""), "arrived": arrived, "happened": happened}, TOUCHES)
    return together([rows.filter(pc.is_valid(rows["happened"]))])


def together(parts: Sequence[pa.Table]) -> pa.Table:
    """Concatenate results of :func:`touches`, in the order of arrival."""
    rows = pa.concat_tables(parts).group_by(["key", "arrived"]).aggregate([("happened", "max")])
    return rows.rename_columns({"happened_max": "happened"}).select(TOUCHES.names).sort_by("arrived")


def followed_by(times: KeyedTimes, rows: pa.Table, idle_timeout: int, ends: Sequence[int]) -> tuple[KeyedTimes, list[int]]:
    """The state after further rows, and the least newest event at each of ``ends``.

    :param rows: all rows of the further deliveries, from :func:`together`; none arrived before ``times.through``.
    :param ends: times of arrival, in order, none before ``times.through``. Between two arrivals at which a key becomes active the
        least can only grow, so it is computed before these arrivals and at the ends, not for each row.
    """
    arrived, happened = rows["arrived"].to_numpy(), rows["happened"].to_numpy()
    known = _with_keys(times, rows["key"])
    places = pc.index_in(rows["key"], known.keys).to_numpy().astype(np.int64)
    waking = _waking(known, arrived, places, idle_timeout)
    newest = int(arrived[-1]) if len(arrived) else known.through
    at_ends = np.searchsorted(arrived, ends, "right")
    cuts = np.concatenate([np.searchsorted(arrived, [*arrived[waking], newest], "left"), at_ends, [len(arrived)]])
    events, arrivals = known.newest_events.copy(), known.newest_arrivals.copy()
    known = replace(known, newest_events=events, newest_arrivals=arrivals)
    least, at_cut, begin = _before(known, arrived), {}, 0
    for cut in np.unique(cuts).tolist():
        if cut > begin:
            np.maximum.at(events, places[begin:cut], happened[begin:cut])
            np.maximum.at(arrivals, places[begin:cut], arrived[begin:cut])
            least, begin = max(least, known.least_at(int(arrived[cut - 1]), idle_timeout)), cut
        at_cut[cut] = least if cut else times.least
    before = at_cut[int(np.searchsorted(arrived, newest, "left"))] if newest > times.through else times.least_before
    after = replace(known, least=at_cut[len(arrived)], least_before=before)
    return after, [at_cut[cut] for cut in at_ends.tolist()]


def _before(times: KeyedTimes, arrived: Numbers) -> int:
    """The least before further rows; if the first of them arrived at ``times.through``, the least before that arrival."""
    return times.least_before if len(arrived) and arrived[0] == times.through else times.least


def _with_keys(times: KeyedTimes, keys: pa.ChunkedArray) -> KeyedTimes:
    """``times`` with further keys, which have no event and no arrival yet."""
    distinct = keys.unique()
    new = distinct.filter(pc.invert(pc.is_in(distinct, times.keys)))
    nothing = np.full(len(new), NEVER, np.int64)
    return replace(
        times,
        keys=pa.concat_arrays([times.keys, new]),
        newest_events=np.concatenate([times.newest_events, nothing]),
        newest_arrivals=np.concatenate([times.newest_arrivals, nothing]),
    )


def _waking(times: KeyedTimes, arrived: Numbers, places: Numbers, idle_timeout: int) -> Numbers:
    """The rows with which a key becomes active."""
    order = np.argsort(places, kind="stable")
    before = times.newest_arrivals[places]
    of_same_key = places[order[1:]] == places[order[:-1]]
    before[order[1:][of_same_key]] = arrived[order[:-1][of_same_key]]
    return np.flatnonzero((before == NEVER) | (before < arrived - idle_timeout))


_TIME = pa.timestamp("us", "UTC")
_SCHEMA = pa.schema(
    [
        ("source", pa.string()),
        ("terms", pa.string()),  # the key and the timeout of the contract by which it was computed
        ("least", _TIME),
        ("least_before", _TIME),
        *(("keys", pa.list_(pa.string())), ("newest_events", pa.list_(_TIME)), ("newest_arrivals", pa.list_(_TIME))),
        *(("ingestion_ids", pa.list_(pa.string())), ("least_after", pa.list_(_TIME))),  # per delivery
    ]
)


@dataclass(frozen=True)
class KeyedState:
    """The state of the keys of a source.

    :param least_after: by ingestion, the least newest event of the active keys after it, in microseconds since 1970.
    """

    times: KeyedTimes = NOTHING
    least_after: Mapping[str, int] = field(default_factory=dict)


def of(lake: Lake, source: str, strategy: PerKeyWatermark) -> KeyedState:
    """The state at the end of the newest ingestion; an empty state under another key or timeout."""
    where = _of_terms(source, strategy)
    rows = locations.watermark_keys(lake).read(_SCHEMA.names, where)
    return _state_of(rows)


@row_writer.retried_on_conflict
def advance(lake: Lake, contract: SourceContract) -> bool:
    """Add the deliveries of a source that are in the ledger but not yet in the state.

    :returns: whether there were any; always False under another strategy.
    """
    strategy = contract.clocks.watermark
    if not isinstance(strategy, PerKeyWatermark):
        return False
    entries = {
        name: entry
        for name, entry in ingestions.ingested(ingestions.all_of(lake, contract.dataset)).items()
        if _is_followed(entry)
    }
    table = row_writer.open_or_create(locations.watermark_keys(lake), _SCHEMA, ["source"])
    before = _state_of(table_io.read_version(table, _SCHEMA.names, _of_terms(contract.dataset, strategy)))
    new = [entry for name, entry in entries.items() if name not in before.least_after]
    if not new:
        return False
    rows = _touches(lake, contract, strategy.key, new)
    if before.least_after and (pc.min(rows["arrived"]).as_py() or NEVER) < before.times.through:
        before, rows = KeyedState(), _touches(lake, contract, strategy.key, entries.values())
    arrivals = {name: _arrived(entry) for name, entry in entries.items()}
    ends = sorted({arrived for arrived in arrivals.values() if arrived >= before.times.through})
    times, least = followed_by(before.times, rows, microseconds(strategy.idle_timeout), ends)
    at_end = dict(zip(ends, least))
    least_after = {**before.least_after, **{name: at_end[arrived] for name, arrived in arrivals.items() if arrived in at_end}}
    after = _row_of(contract.dataset, strategy, KeyedState(times, least_after))
    return partition_writer.replace(table, after, [contract.dataset])


def least_after(
    lake: Lake, contract: SourceContract, strategy: PerKeyWatermark, entries: Mapping[str, Ingestion]
) -> Mapping[str, int]:
    """For each ingestion, the least newest event of the active keys after it, if only ``entries`` count.

    It is read from the table if the table was computed from the same deliveries, and computed from Bronze otherwise.

    :param entries: the deliveries that count, by their ids.
    """
    counting = {name: entry for name, entry in entries.items() if _is_followed(entry)}
    known = of(lake, contract.dataset, strategy).least_after
    if known.keys() == counting.keys() or not counting:
        return known if counting else {}
    arrivals = {name: _arrived(entry) for name, entry in counting.items()}
    ends, rows = sorted(set(arrivals.values())), _touches(lake, contract, strategy.key, counting.values())
    _, least = followed_by(NOTHING, rows, microseconds(strategy.idle_timeout), ends)
    at_end = dict(zip(ends, least))
    return {name: at_end[arrived] for name, arrived in arrivals.items()}


def _is_followed(entry: Ingestion) -> bool:
    """Whether the keys of a delivery count: it has well-formed rows, and no backfill plan brought it."""
    return entry.newest_arrival is not None and entry.backfill is None


def _touches(lake: Lake, contract: SourceContract, key: str, entries: Collection[Ingestion]) -> pa.Table:
    """The key events of the deliveries, as ``watermark_per_key.together`` gives them."""
    columns = list(dict.fromkeys([key, "event_ts", "event_date", "arrival_ts", "malformed_reason"]))
    where: table_io.Where = {
        "arrival_date": {entry.arrival_date for entry in entries},
        "ingestion_id": [entry.ingestion_id for entry in entries],
    }
    found = locations.bronze(lake, contract.dataset).pieces(columns, where)
    of_rows = partial(_of_rows, contract, key)
    parts = list(pieces.mapped(of_rows, pieces.counted("rows read for the watermark", found)))
    return together(parts or [TOUCHES.empty_table()])


def _of_rows(contract: SourceContract, key: str, rows: pa.Table) -> pa.Table:
    happened = clocked(contract, rows, pc.is_null(rows["malformed_reason"]))["happened_at"]
    arrived = rows["arrival_ts"].cast(_TIME).cast(pa.int64())
    return touches(rows[key], arrived, happened.cast(pa.int64()))


def _terms(strategy: PerKeyWatermark) -> str:
    return f"{strategy.key} {strategy.idle_timeout}"


def _of_terms(source: str, strategy: PerKeyWatermark) -> table_io.Where:
    return {"source": [source], "terms": [_terms(strategy)]}


def _arrived(entry: Ingestion) -> int:
    return int(pa.scalar(entry.newest_arrival, _TIME).value)


def as_time(microseconds_since_1970: int) -> datetime | None:
    """A time of :class:`KeyedState` as such; None for no event."""
    return None if microseconds_since_1970 == NEVER else pa.scalar(microseconds_since_1970, _TIME).as_py()


def _state_of(rows: pa.Table | None) -> KeyedState:
    if rows is None or not len(rows):
        return KeyedState()
    keys, events, arrivals, ids, least_after = (rows[name].combine_chunks().flatten() for name in _SCHEMA.names[4:])
    (least,), (before,) = (_numbers(rows[name].combine_chunks()) for name in ("least", "least_before"))
    known = KeyedTimes(keys.cast(pa.string()), _numbers(events), _numbers(arrivals), int(least), int(before))
    return KeyedState(known, dict(zip(ids.to_pylist(), _numbers(least_after).tolist())))


def _numbers(times: pa.Array) -> Numbers:
    return cast("Numbers", pc.fill_null(times.cast(pa.int64()), NEVER).to_numpy(zero_copy_only=False).copy())


def _times(numbers: Numbers) -> pa.Array:
    return pa.array(numbers, mask=numbers == NEVER).cast(_TIME)


def _row_of(source: str, strategy: PerKeyWatermark, state: KeyedState) -> pa.Table:
    times = state.times
    lists = [
        times.keys,
        _times(times.newest_events),
        _times(times.newest_arrivals),
        pa.array(list(state.least_after), pa.string()),
        _times(np.array([*state.least_after.values()], np.int64)),
    ]
    least = _times(np.array([times.least, times.least_before], np.int64))
    columns = [pa.array([source]), pa.array([_terms(strategy)]), least[:1], least[1:]]
    return pa.table([*columns, *(pa.ListArray.from_arrays([0, len(values)], values) for values in lists)], _SCHEMA)
