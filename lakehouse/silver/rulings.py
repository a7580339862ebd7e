"""The audit's description of the changes of a commit: action type, actor and reason, as columns.

``audit_log.Cause`` gives the reason for the commit. Changes caused by people or the system are ruled by key; changes caused by
arrivals, by the rows themselves.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.lateness.measurement import judged
from lakehouse.ledger import hand_corrections
from lakehouse.text import format_duration

if TYPE_CHECKING:
    from collections.abc import Collection

    from lakehouse.contracts.source import SourceContract
    from lakehouse.silver.audit_log import Cause, Ruling

RULINGS = pa.schema([("action_type", pa.string()), ("actor", pa.string()), ("reason", pa.string())])
#: The columns of a changed row that its ruling depends on, in addition to that of its event type.
RULED_BY = (
    *("record_key", "event_date", "event_ts", "arrival_ts", "source_system", "corrected_by", "correction_reason"),
    *("ingestion_id", "source_file"),
)
_SECOND = 1_000_000
#: The lengths of days, hours, minutes and seconds, as in ``text.format_duration``.
_UNITS = (86_400, 3_600, 60, 1)


def rulings(rows: pa.Table, days: pa.Table, contract: SourceContract, cause: Cause) -> pa.Table:
    """The ruling on each change, :data:`RULINGS`; NULL for an insert that arrived in time, which is not audited.

    :param rows: the rows after the changes, or before them where a row was removed, with :data:`RULED_BY` and the event type.
    :param days: the event days ``before`` and ``after``, NULL on a side without a row.
    """
    general = cause.of_others
    ruled = _by_row(rows, days, contract, cause) if general is None else _same(general, len(rows))
    special = cause.of_keys
    if not special:
        return ruled
    which = pc.index_in(rows["record_key"].combine_chunks(), pa.array(special, pa.string()))
    by_hand = pa.Table.from_arrays([pa.array(part, pa.string()) for part in zip(*special.values())], schema=RULINGS).take(which)
    columns = [pc.if_else(pc.is_valid(which), by_hand[name], ruled[name]) for name in RULINGS.names]
    return pa.Table.from_arrays(columns, schema=RULINGS)


def _same(ruling: Ruling, count: int) -> pa.Table:
    return pa.Table.from_arrays([pa.repeat(pa.scalar(part, pa.string()), count) for part in ruling], schema=RULINGS)


def _by_row(rows: pa.Table, days: pa.Table, contract: SourceContract, cause: Cause) -> pa.Table:
    """The rulings on changes caused by arrivals; with a backfill, its plan is part of each reason, and its runner the actor."""
    backfill = cause.backfill
    lag, late = judged(rows, contract)
    before, after = days["before"], days["after"]
    is_withdrawn, is_inserted = pc.is_null(after), pc.is_null(before)
    is_entered = pc.and_(is_inserted, hand_corrections.are_by_hand(rows["source_file"]))
    is_inserted = pc.and_not(is_inserted, is_entered)
    is_corrected = pc.or_(pc.and_(pc.is_valid(before), pc.is_valid(after)), is_entered)
    corrected, arrived = _sentences(lag, ("corrected {} after the event", "arrived {} after the event"))
    moved = pc.binary_join_element_wise("moved from ", before.cast(pa.string()), " to ", after.cast(pa.string()), "")
    told = pc.if_else(pc.equal(before, after), corrected, moved)
    reason = pc.coalesce(_filled(rows["correction_reason"]), told)
    reason = pc.if_else(is_inserted, arrived, reason)
    reason = pc.if_else(is_entered, pc.coalesce(_filled(rows["correction_reason"]), "entered by hand"), reason)
    if cause.redelivered:
        again = pa.array([f"delivered again on {day}, and counts again" for day in cause.redelivered.values()], pa.string())
        which = pc.index_in(rows["ingestion_id"].combine_chunks(), value_set=pa.array(list(cause.redelivered), pa.string()))
        reason = pc.coalesce(again.take(which), reason)
    sent_by = rows["source_system"] if cause.runner is None else pa.repeat(pa.scalar(cause.runner), len(rows))
    by = pc.if_else(is_corrected, pc.coalesce(_filled(rows["corrected_by"]), sent_by), sent_by)
    action = pc.if_else(is_inserted, "late_merge", "correction")
    audited = pc.or_(pc.invert(is_inserted), late)
    reason = pc.if_else(is_withdrawn, "withdrawn", reason)
    if backfill is not None:
        action = pa.repeat(pa.scalar("backfill"), len(rows))
        reason = pc.binary_join_element_wise(reason, f" ({backfill})", "")
    columns = [action, by, reason]
    none = pa.scalar(None, pa.string())
    return pa.Table.from_arrays([pc.if_else(audited, column, none) for column in columns], schema=RULINGS)


def _sentences(lag: pa.Array, forms: Collection[str]) -> list[pa.Array]:
    """Sentences that contain each duration, formatted as by ``text.format_duration``.

    :param lag: microseconds, not below 0.
    """
    rest = lag.to_numpy() // _SECOND
    shown, units = np.zeros_like(rest), np.zeros_like(rest)
    for length in _UNITS:  # only the two largest units are written: few durations have a text of their own
        part = rest - rest % length
        shown += np.where(units < 2, part, 0)  # noqa: PLR2004
        units += part > 0
        rest = rest % length
    distinct, which = np.unique(shown, return_inverse=True)
    spans = [format_duration(timedelta(seconds=seconds)) for seconds in distinct.tolist()]
    return [pa.array([form.format(span) for span in spans], pa.string()).take(pa.array(which)) for form in forms]


def _filled(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Texts, with NULL for empty ones."""
    return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
