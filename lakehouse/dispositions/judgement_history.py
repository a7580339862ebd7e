"""``ops/<source>_overruled``: the judgements of claims before a rebuild request replaced them, so that it can be undone (R10).

Judging rows again overwrites their claims in the key log; before that, the previous claims are appended here. Only judgements
are undone with this log: steward decisions have their own log, and are left out by id.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.delta import row_writer
from lakehouse.dispositions.winners import groups, positions
from lakehouse.ledger import key_log, rebuild_requests

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import date, datetime

    from lakehouse.lake import Lake

_ABOUT = pa.schema([("operation_id", pa.string()), ("number", pa.int64()), ("recorded_at", pa.timestamp("us", "UTC"))])
_SCHEMA = pa.schema([*_ABOUT, *key_log.SCHEMA])
#: The columns that identify a claim, whatever its judgement.
CLAIM = ("ingestion_id", "line_number", "record_key", "kind")


def record(lake: Lake, source: str, operation_id: str, claims: pa.Table, now: datetime) -> None:
    """Save claims of the key log before a rebuild request overwrites them; repeating it writes nothing.

    A claim that is not in the key log yet is saved without an admission status: when it is restored, it has no effect. ``number``
    records the order of operations, because their times are equal under a fixed clock.
    """
    if not len(claims):
        return
    claims = _last_of_each(claims.cast(key_log.SCHEMA))
    where = {"ingestion_id": pc.unique(claims["ingestion_id"])}
    log = locations.key_log(lake, source).read(key_log.SCHEMA.names, where)
    unknown = claims
    for name in key_log.JUDGED:
        place = key_log.SCHEMA.get_field_index(name)
        unknown = unknown.set_column(place, key_log.SCHEMA.field(name), pa.nulls(len(claims), key_log.SCHEMA.field(name).type))
    known = [] if log is None else [log.cast(key_log.SCHEMA)]
    # The last of equal claims counts: those of the log, where it has them.
    stand = _last_of_each(pa.concat_tables([unknown, *known])).slice(0, len(claims))
    numbers = locations.judgement_history(lake, source).read(["number"], None)
    number = 1 + ((pc.max(numbers["number"]).as_py() or 0) if numbers is not None else 0)
    table = stand
    for place, (field, value) in enumerate(zip(_ABOUT, (operation_id, number, now))):
        table = table.add_column(place, field, pa.repeat(pa.scalar(value, field.type), len(stand)))
    texts = pc.binary_join_element_wise(*(claims[name].cast(pa.string()) for name in CLAIM), "", "|").combine_chunks().sort()
    app_id = f"overruled:{operation_id}:{hashlib.sha256(texts.buffers()[-1]).hexdigest()[:16]}"
    row_writer.append(locations.judgement_history(lake, source), table, once=row_writer.Once(app_id))


def saved_by(lake: Lake, source: str, operation_id: str, ingestion_ids: pa.Array) -> pa.Table:
    """The claims of ``ingestion_ids`` that were saved before an operation, including those without an admission status."""
    where = {"ingestion_id": ingestion_ids, "operation_id": [operation_id]}
    log = locations.judgement_history(lake, source).read([*key_log.SCHEMA.names], where)
    return key_log.SCHEMA.empty_table() if log is None else log.cast(key_log.SCHEMA)


def arrival_days_of(lake: Lake, source: str, key: str) -> set[date]:
    """The arrival days of all saved claims about ``key``; the key log may no longer have all of them."""
    return _days_of(lake, source, key, "arrival_date")


def event_days_of(lake: Lake, source: str, key: str) -> set[date]:
    """The event days of all saved claims about ``key``."""
    return _days_of(lake, source, key, "event_date")


def _days_of(lake: Lake, source: str, key: str, column: str) -> set[date]:
    table, where = locations.judgement_history(lake, source), {"record_key": [key]}
    saved = table.read([column], where)
    return set() if saved is None else set(pc.unique(saved[column].drop_null()).to_pylist())


def as_of(lake: Lake, source: str, ids: Collection[str]) -> pa.Table:
    """The claims that replace those in the key log, so that they are judged as the operations among ``ids`` left them.

    They are the claims before the first request that is not among ``ids``. Any record of an operation identifies it, because it
    is recorded again once its rows are judged. An operation that was never recorded, because it was stopped, belongs to the next
    one. A claim without an admission status did not exist, and must be left out.
    """
    log = locations.judgement_history(lake, source).read(_SCHEMA.names, None)
    if log is None or not len(log):
        return key_log.SCHEMA.empty_table()
    judging = {entry.operation_id: (entry.identity, entry.recorded_at) for entry in rebuild_requests.all_of(lake, source)}
    counted = {judging[one] for one in ids if one in judging}
    numbers = log.group_by("operation_id").aggregate([("number", "min")]).sort_by([("number_min", "descending")])
    later, is_later = [], True
    for operation_id in numbers["operation_id"].to_pylist():
        is_later = judging[operation_id] not in counted if operation_id in judging else is_later
        later += [operation_id] if is_later else []
    undone = log.filter(pc.is_in(log["operation_id"], pa.array(later, pa.string()))).sort_by("number")
    undone = undone.append_column("position", pa.array(np.arange(len(undone))))
    first = undone.group_by(list(CLAIM)).aggregate([("position", "min")])
    return undone.take(first["position_min"]).select(key_log.SCHEMA.names).cast(key_log.SCHEMA)


def judged_as_then(claims: pa.Table, replacing: pa.Table, then: pa.Table) -> pa.Table:
    """Claims of the key log, with earlier claims in place of theirs; the same for DataFrames is in ``silver.admitted_claims``.

    :param replacing: those claims of ``then`` that belong to this set, with the same columns.
    :param then: all claims that :func:`as_of` returns.
    """
    if not len(then):
        return claims
    numbers = groups(*(pa.chunked_array([*claims[name].chunks, *then[name].chunks]) for name in CLAIM))
    is_replaced = np.isin(numbers[: len(claims)], numbers[len(claims) :])
    existed = replacing.filter(pc.is_valid(replacing["standing"]))
    return pa.concat_tables([claims.filter(pa.array(~is_replaced)), existed.cast(claims.schema)])


def judged_otherwise(recorded: pa.Table, judged: pa.Table) -> pa.Table:
    """The claims of rows whose judgement differs from the recorded one, including claims that retire another key.

    :param recorded: the rows' own claims in the key log, without ``event_date``; rows that are not in the log are left out.
    :param judged: claims of these and other rows, judged again: columns ``key_log.SCHEMA``.
    """
    rows = judged.filter(pc.not_equal(judged["kind"], "retire"))
    place = positions(rows, recorded)
    rows, before = rows.filter(pc.is_valid(place)), recorded.take(place.drop_null())
    both = pa.concat_tables([before.select(key_log.JUDGED), rows.select(key_log.JUDGED)])
    rules = pc.binary_join(both["failed_rules"], ",")  # no name of a rule has a comma
    judgement = groups(rules, *(both[name] for name in key_log.JUDGED if name != "failed_rules"))
    differs = judgement[: len(before)] != judgement[len(before) :]
    return judged.filter(pc.is_valid(positions(judged, rows.filter(pa.array(differs)))))


def _last_of_each(claims: pa.Table) -> pa.Table:
    """The claims without repetition: the last of equal claims, at the place of the first."""
    numbers = groups(*(claims[name] for name in CLAIM))
    last = np.empty(numbers.max(initial=-1) + 1, np.int64)
    last[numbers] = np.arange(len(claims))  # of several values for one place, the last one stays
    return claims.take(pa.array(last))
