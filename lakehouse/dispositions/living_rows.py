"""The rows that make given claims, as silver holds them: in force, well formed, and with redacted fields empty.

The rows that a set of inputs puts into silver on given days are computed in this process where few keys are concerned. Which
claims win is decided in ``winners`` and ``claims``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.delta.columns import arrow_schema, silver_columns
from lakehouse.dispositions import claims, deliveries, judgement_history, readings, winners
from lakehouse.dispositions.reprocess_policy import policy_of
from lakehouse.dispositions.winners import numpy_of, positions
from lakehouse.lake import table_io
from lakehouse.ledger import decisions, ingestions, key_log, redactions

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from datetime import date, datetime

    from lakehouse.contracts.source import SourceContract
    from lakehouse.dispositions.reprocess_policy import Choice
    from lakehouse.lake import Lake


@dataclass(frozen=True)
class Slice:
    """The rows of Silver to compute: those of some event days, from some inputs; by default from all that are recorded.

    :param ids: only these ingestions and decisions count, with rows judged as these rebuild requests left them, so that any
        earlier state can be computed again (R10); redactions always apply.
    :param until: only rows that had arrived by this time count, even if other rows of their file arrived later.
    :param keys: only the rows of these keys.
    :param without: the ids of rows that do not count, as if they had never arrived.
    """

    days: Collection[date]
    ids: Collection[str] | None = None
    until: datetime | None = None
    keys: pa.Array | None = None
    without: pa.Table | None = None


def read_claimed_rows(
    lake: Lake,
    contract: SourceContract,
    arrival_days: Collection[date] | pa.Array,
    won: pa.Table,
    ids: Collection[str] | None = None,
) -> pa.Table:
    """Silver's columns of the rows that make the claims ``won``, as far as ``arrival_days`` contain them.

    :param won: the claims, with the columns of a row's id and its key.
    :param ids: count only the readings among these inputs (R10).
    """
    # By key too: the winner of a key may have come in a large file of the same arrival day.
    where = {"arrival_date": arrival_days, **{name: pc.unique(won[name]) for name in ("ingestion_id", "record_key")}}
    columns = [*arrow_schema(silver_columns(contract)).names, "malformed_reason"]
    rows = readings.read(lake, contract.dataset, columns, where, ids)
    if rows is None:
        return arrow_schema(silver_columns(contract)).empty_table()
    return _sound(lake, contract, rows.filter(pc.is_valid(positions(rows, won))))


def sound_rows(lake: Lake, contract: SourceContract, where: table_io.Where) -> Iterator[pa.Table]:
    """Silver's columns of all rows that meet ``where``, in pieces."""
    columns = [*arrow_schema(silver_columns(contract)).names, "malformed_reason"]
    for rows in readings.pieces(lake, contract.dataset, columns, where):
        yield _sound(lake, contract, rows)


def _sound(lake: Lake, contract: SourceContract, rows: pa.Table) -> pa.Table:
    """The well-formed ones of rows in force, with redacted fields empty."""
    schema = arrow_schema(silver_columns(contract))
    sound = rows.filter(pc.is_null(rows["malformed_reason"])).select(schema.names)
    return redactions.applied(sound, redactions.keys_by_field(lake, contract.dataset)).cast(schema)


def winning_claim(lake: Lake, contract: SourceContract, key: str) -> dict[str, Any] | None:
    """The claim that wins a key among all that are logged and admitted, by column of ``winners.RANKED``; None without any.

    Claims that silver has not applied yet count. Where the source numbers its changes, no admitted claim has a greater number.
    """
    log = key_log.about(lake, contract.dataset, _CLAIM, [key])
    if log is None:
        return None
    claimed = deliveries.ordered(log, deliveries.of(lake, contract))
    claimed = claims.with_decisions(claimed, decisions.in_force(lake, contract.dataset, rows=claimed))
    won = winners.winners(claimed.filter(claims.are_admitted(claimed)), by_sequence=policy_of(contract).by_sequence)
    return next(iter(won.to_pylist()), None)


#: The greatest number of claims that are compared where deliveries are chosen by all their claims.
_WEIGHED_CLAIMS = 2**18
_CLAIM = [*winners.RANKED, "standing"]


def computed(lake: Lake, contract: SourceContract, wanted: Slice, at_most: int) -> pa.Table | None:
    """The ``wanted`` rows of silver, in any order, computed only from Bronze, decisions, redactions and contract.

    :param at_most: the greatest number of keys, and of rows, that may be concerned.
    :returns: None if more are concerned than this process computes.
    """
    days, ids, until = wanted.days, wanted.ids, wanted.until
    policy, source, at_most = policy_of(contract), contract.dataset, min(at_most, lake.settings.held_rows)
    concerning = {"event_date": days} | ({} if wanted.keys is None else {"record_key": wanted.keys})
    concerned = key_log.keys_at_most(lake, source, concerning, at_most)
    if concerned is None:
        return None
    if policy.chooses_deliveries and not _are_few(lake, source, {} if policy.chooses_for_table else {"event_date": days}):
        return None
    then = key_log.SCHEMA.empty_table() if ids is None else judgement_history.as_of(lake, source, ids)
    concerned = pc.unique(pa.chunked_array([concerned, *table_io.meeting(then, concerning)["record_key"].chunks], pa.string()))
    log = key_log.about(lake, source, _CLAIM, concerned)
    claimed = key_log.SCHEMA.empty_table().select(_CLAIM) if log is None else log
    about_these = then.filter(pc.is_in(then["record_key"], value_set=concerned)).select(claimed.column_names)
    claimed = judgement_history.judged_as_then(claimed, about_these, then)
    counting = ingestions.completed(lake, source) if ids is None else ids
    claimed = claimed.filter(pc.is_in(claimed["ingestion_id"], value_set=pa.array(sorted(counting), pa.string())))
    if until is not None:
        claimed = claimed.filter(pc.less_equal(claimed["arrival_ts"], pa.scalar(until, claimed["arrival_ts"].type)))
    if wanted.without is not None:
        claimed = claimed.filter(pc.is_null(positions(claimed, wanted.without)))
    claimed = deliveries.ordered(claimed, deliveries.of(lake, contract, ids, until))
    claimed = claims.with_decisions(claimed, decisions.in_force(lake, source, ids, claimed))
    admitted = claimed.filter(claims.are_admitted(claimed))
    living = _living(contract, admitted, days, claims.choices(lake, contract, days, ids, until))
    if len(living) > at_most:
        return None
    if contract.has_partial_corrections:
        its_records = pc.and_(
            pc.is_in(admitted["record_key"], value_set=pc.unique(living["record_key"])), pc.not_equal(admitted["kind"], "retire")
        )
        of_keys = admitted.filter(its_records)
        rows = read_claimed_rows(lake, contract, pc.unique(of_keys["arrival_date"]), of_keys, ids)
        rows = readings.completed(contract, of_keys, rows)
    else:
        rows = read_claimed_rows(lake, contract, pc.unique(living["arrival_date"]), living, ids)
    # With the event day, in case a reading of the rows is just being applied: their claims may be others already.
    same_day = pc.equal(rows["event_date"], living["event_date"].take(positions(rows, living)))
    return rows.filter(pc.fill_null(same_day, False)).cast(arrow_schema(silver_columns(contract)))


def _living(contract: SourceContract, counting: pa.Table, days: Collection[date], chosen: Mapping[date, Choice]) -> pa.Table:
    """The claims that put a row on one of ``days``, under the source's reprocess policy; see ``silver.merge``."""
    policy = policy_of(contract)
    if policy.chooses_deliveries:
        counting = counting.filter(_are_chosen(counting, chosen, for_table=policy.chooses_for_table))
    if policy.keys_contend:
        counting = winners.winners(counting, by_sequence=policy.by_sequence, each_day=policy.contends_per_day)
    lives = pc.is_in(counting["kind"], value_set=pa.array(winners.LIVING_KINDS))
    return counting.filter(pc.and_(lives, pc.is_in(counting["event_date"], value_set=pa.array(sorted(days), pa.date32()))))


def _are_chosen(counting: pa.Table, chosen: Mapping[date, Choice], *, for_table: bool) -> pa.Array:
    """Whether claims belong to the deliveries chosen for their day, or with ``for_table``, for the whole table."""
    if for_table:
        ids = set[str]().union(*(choice.counting for choice in chosen.values()))
        return pc.is_in(counting["ingestion_id"], value_set=pa.array(sorted(ids), pa.string()))
    of_chosen = np.zeros(len(counting), bool)
    for day, choice in chosen.items():
        of_day = pc.fill_null(pc.equal(counting["event_date"], pa.scalar(day, pa.date32())), False)
        of_files = pc.is_in(counting["ingestion_id"], value_set=pa.array(sorted(choice.counting), pa.string()))
        of_chosen |= numpy_of(pc.and_(of_day, of_files))
    return pa.array(of_chosen)


def _are_few(lake: Lake, source: str, where: table_io.Where) -> bool:
    """Whether few enough claims meet ``where`` to choose deliveries from them in this process."""
    count = 0
    for piece in locations.key_log(lake, source).pieces(["event_date"], where):
        count += len(piece)
        if count > _WEIGHED_CLAIMS:
            return False
    return True
