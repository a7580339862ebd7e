"""``ops/watermark_keys``: the state of the strategy ``per_key``, one row per source, replaced by one commit.

The state is derived from Bronze and the ledger and updated at the end of each ingestion. It is computed from all of Bronze again
when a delivery is older than the newest row in the state, when the contract names another key or timeout, and when the table is
gone. Rows that a backfill plan brought are ``history``: their keys hold no watermark. The rule is in ``keyed_watermark``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations, pieces
from lakehouse.contracts.source_rules import PerKeyWatermark
from lakehouse.delta import partition_writer, row_writer, table_io
from lakehouse.lateness import keyed_watermark
from lakehouse.lateness.keyed_watermark import NEVER, NOTHING, KeyedTimes
from lakehouse.lateness.measurement import clocked, microseconds
from lakehouse.ledger import ingestions

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lateness.keyed_watermark import Numbers
    from lakehouse.ledger.ingestions import Ingestion
    from lakehouse.settings import Settings

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


def of(settings: Settings, source: str, strategy: PerKeyWatermark) -> KeyedState:
    """The state at the end of the newest ingestion; an empty state under another key or timeout."""
    where = _of_terms(source, strategy)
    rows = table_io.read(locations.watermark_keys(settings), _SCHEMA.names, where, settings.storage_options)
    return _state_of(rows)


@row_writer.retried_on_conflict
def advance(settings: Settings, contract: SourceContract) -> bool:
    """Add the deliveries of a source that are in the ledger but not yet in the state.

    :returns: whether there were any; always False under another strategy.
    """
    strategy = contract.clocks.watermark
    if not isinstance(strategy, PerKeyWatermark):
        return False
    entries = {
        name: entry
        for name, entry in ingestions.ingested(ingestions.all_of(settings, contract.dataset)).items()
        if _is_followed(entry)
    }
    table = row_writer.open_or_create(locations.watermark_keys(settings), _SCHEMA, settings.storage_options, ["source"])
    before = _state_of(table_io.read_version(table, _SCHEMA.names, _of_terms(contract.dataset, strategy)))
    new = [entry for name, entry in entries.items() if name not in before.least_after]
    if not new:
        return False
    rows = _touches(settings, contract, strategy.key, new)
    if before.least_after and (pc.min(rows["arrived"]).as_py() or NEVER) < before.times.through:
        before, rows = KeyedState(), _touches(settings, contract, strategy.key, entries.values())
    arrivals = {name: _arrived(entry) for name, entry in entries.items()}
    ends = sorted({arrived for arrived in arrivals.values() if arrived >= before.times.through})
    times, least = keyed_watermark.followed_by(before.times, rows, microseconds(strategy.idle_timeout), ends)
    at_end = dict(zip(ends, least))
    least_after = {**before.least_after, **{name: at_end[arrived] for name, arrived in arrivals.items() if arrived in at_end}}
    after = _row_of(contract.dataset, strategy, KeyedState(times, least_after))
    return partition_writer.replace(table, after, [contract.dataset])


def least_after(
    settings: Settings, contract: SourceContract, strategy: PerKeyWatermark, entries: Mapping[str, Ingestion]
) -> Mapping[str, int]:
    """For each ingestion, the least newest event of the active keys after it, if only ``entries`` count.

    It is read from the table if the table was computed from the same deliveries, and computed from Bronze otherwise.

    :param entries: the deliveries that count, by their ids.
    """
    counting = {name: entry for name, entry in entries.items() if _is_followed(entry)}
    known = of(settings, contract.dataset, strategy).least_after
    if known.keys() == counting.keys() or not counting:
        return known if counting else {}
    arrivals = {name: _arrived(entry) for name, entry in counting.items()}
    ends, rows = sorted(set(arrivals.values())), _touches(settings, contract, strategy.key, counting.values())
    _, least = keyed_watermark.followed_by(NOTHING, rows, microseconds(strategy.idle_timeout), ends)
    at_end = dict(zip(ends, least))
    return {name: at_end[arrived] for name, arrived in arrivals.items()}


def _is_followed(entry: Ingestion) -> bool:
    """Whether the keys of a delivery count: it has well-formed rows, and no backfill plan brought it."""
    return entry.newest_arrival is not None and entry.backfill is None


def _touches(settings: Settings, contract: SourceContract, key: str, entries: Collection[Ingestion]) -> pa.Table:
    """The key events of the deliveries, as ``keyed_watermark.together`` gives them."""
    columns = list(dict.fromkeys([key, "event_ts", "event_date", "arrival_ts", "malformed_reason"]))
    where: table_io.Where = {
        "arrival_date": {entry.arrival_date for entry in entries},
        "ingestion_id": [entry.ingestion_id for entry in entries],
    }
    found = table_io.pieces(locations.bronze(settings, contract.dataset), columns, where, settings.storage_options)
    of_rows = partial(_of_rows, contract, key)
    parts = list(pieces.mapped(of_rows, pieces.counted("rows read for the watermark", found)))
    return keyed_watermark.together(parts or [keyed_watermark.TOUCHES.empty_table()])


def _of_rows(contract: SourceContract, key: str, rows: pa.Table) -> pa.Table:
    happened = clocked(contract, rows, pc.is_null(rows["malformed_reason"]))["happened_at"]
    arrived = rows["arrival_ts"].cast(_TIME).cast(pa.int64())
    return keyed_watermark.touches(rows[key], arrived, happened.cast(pa.int64()))


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
