"""``ops/<source>_overruled``: the judgements of claims before a rebuild request replaced them, so that it can be undone (R10).

Judging rows again overwrites their claims in the key log; before that, the previous claims are appended here. Only judgements
are undone with this log: steward decisions have their own log, and are left out by id.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.delta import table_io
from lakehouse.ledger import key_log, rebuild_requests

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from lakehouse.settings import Settings

_ABOUT = pa.schema([("operation_id", pa.string()), ("number", pa.int64()), ("recorded_at", pa.timestamp("us", "UTC"))])
_SCHEMA = pa.schema([*_ABOUT, *key_log.SCHEMA])
#: The columns that identify a claim, whatever its judgement.
CLAIM = ("ingestion_id", "line_number", "record_key", "kind")


def record(settings: Settings, source: str, operation_id: str, claims: pa.Table, now: datetime) -> None:
    """Save claims of the key log before a rebuild request overwrites them; repeating it writes nothing.

    A claim that is not in the key log yet is saved without an admission status: when it is restored, it has no effect. ``number``
    records the order of operations, because their times are equal under a fixed clock.
    """
    wanted = {_claim(row): row for row in claims.to_pylist()}
    if not wanted:
        return
    where = {"ingestion_id": set(claims["ingestion_id"].to_pylist())}
    log = table_io.read(locations.key_log(settings, source), key_log.SCHEMA.names, where, settings.storage_options)
    stands = {_claim(row): row for row in ([] if log is None else log.to_pylist())}
    unknown = dict.fromkeys(key_log.JUDGED)
    known = table_io.read(locations.judgement_history(settings, source), ["number"], None, settings.storage_options)
    number = 1 + ((pc.max(known["number"]).as_py() or 0) if known is not None else 0)
    about = {"operation_id": operation_id, "number": number, "recorded_at": now}
    rows = [stands.get(claim, row | unknown) | about for claim, row in wanted.items()]
    digest = hashlib.sha256("\n".join(sorted(map(str, wanted))).encode()).hexdigest()[:16]
    table = pa.Table.from_pylist(rows, schema=_SCHEMA)
    options = settings.storage_options
    table_io.append(
        locations.judgement_history(settings, source), table, options=options, app_id=f"overruled:{operation_id}:{digest}"
    )


def as_of(settings: Settings, source: str, ids: Collection[str]) -> pa.Table:
    """The claims that replace those in the key log, so that they are judged as these operations left them.

    They are the claims before the first request that is not among ``ids``. Any record of an operation identifies it, because
    it is recorded again once its rows are judged.
    """
    log = table_io.read(locations.judgement_history(settings, source), _SCHEMA.names, None, settings.storage_options)
    if log is None or not len(log):
        return key_log.SCHEMA.empty_table()
    judging = {entry.operation_id: (entry.identity, entry.recorded_at) for entry in rebuild_requests.all_of(settings, source)}
    counted = {judging[one] for one in ids if one in judging}
    later = [one for one in pc.unique(log["operation_id"]).to_pylist() if judging.get(one) not in counted]
    undone = log.filter(pc.is_in(log["operation_id"], pa.array(later, pa.string()))).sort_by("number")
    undone = undone.append_column("position", pa.array(range(len(undone)), pa.int64()))
    first = undone.group_by(list(CLAIM)).aggregate([("position", "min")])
    return undone.take(first["position_min"]).select(key_log.SCHEMA.names).cast(key_log.SCHEMA)


def _claim(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in CLAIM)
