"""Few rows of silver, read or computed in this process: as the table holds them now, were known at a time, or follow from a
snapshot.

It results in the same rows as ``rows``, where Spark computes any number of them, by the rules on sets of claims in
``dispositions``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.delta import data_files, table_io
from lakehouse.delta.columns import arrow_schema, silver_columns
from lakehouse.dispositions import claims, contests, judgement_history
from lakehouse.dispositions.readings import claimed_rows
from lakehouse.dispositions.reprocess_policy import policy_of
from lakehouse.dispositions.row_groups import numpy_of
from lakehouse.ledger import decisions, key_log, redactions
from lakehouse.snapshots import input_sets
from lakehouse.snapshots.known_inputs import known_at
from lakehouse.snapshots.named import NamedSnapshot

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from datetime import date, datetime

    from lakehouse.contracts.source import SourceContract
    from lakehouse.dispositions.reprocess_policy import Choice
    from lakehouse.settings import Settings

#: So many claims are weighed at most where deliveries are chosen by all their claims.
_WEIGHED_CLAIMS = 2**18
_ORDER = ("event_date", "record_key", "ingestion_id", "line_number")


def days_of(
    settings: Settings,
    contract: SourceContract,
    first: date | None = None,
    last: date | None = None,
    keys: Collection[str] | None = None,
) -> list[date]:
    """The event days about which the source has ever had rows, within a range, in order.

    :param keys: only days on which one of these keys has ever had one.
    """
    source = contract.dataset
    known = key_log.days(settings, source) if keys is None else key_log.days_of(settings, source, pa.array(keys, pa.string()))
    return sorted(day for day in known if (first is None or first <= day) and (last is None or day <= last))


def current(
    settings: Settings, contract: SourceContract, days: Collection[date], keys: Collection[str] | None = None
) -> Iterator[pa.Table]:
    """The rows that silver holds on some days, in pieces, with the columns of the contract.

    :param keys: only the rows of these keys.
    """
    columns = [name for name, _ in silver_columns(contract)]
    where = {"event_date": days} | ({} if keys is None else {"record_key": keys})
    hidden = redactions.keys_by_field(settings, contract.dataset)  # silver follows a redaction later
    for piece in table_io.pieces(locations.silver(settings, contract.dataset), columns, where, settings.storage_options):
        yield redactions.applied(piece, hidden)


def first_rows(
    settings: Settings, contract: SourceContract, days: Collection[date], count: int, keys: Collection[str] | None = None
) -> pa.Table:
    """The first rows that silver holds on some days, ``count`` at most, by event day and key.

    Of a day of which not all rows fit, any may be missing.

    :param keys: only the rows of these keys.
    """
    schema = arrow_schema(silver_columns(contract))
    table = table_io.open_table(locations.silver(settings, contract.dataset), settings.storage_options)
    held = {} if table is None else data_files.rows_by_partition(table)
    in_order = sorted(held.keys() & set(days))
    read = schema.empty_table()
    while in_order and len(read) < count:
        some = _filling(in_order, held, count - len(read))
        in_order = in_order[len(some) :]
        parts = [read]
        for piece in current(settings, contract, some, keys):
            parts.append(piece.cast(schema))
            if sum(map(len, parts)) >= count and len(some) == 1:
                break
        read = pa.concat_tables(parts)
    return _in_order(read).slice(0, count)


def computed(
    settings: Settings,
    contract: SourceContract,
    days: Collection[date],
    as_of: datetime | NamedSnapshot,
    at_most: int,
    keys: Collection[str] | None = None,
) -> pa.Table | None:
    """The rows that silver would hold on some days with what was known at a time, or with the inputs of a snapshot.

    They are computed under today's contract, from Bronze; redactions always apply. They come in the order of days and keys.

    :param at_most: how many keys, and how many rows, may be concerned.
    :param keys: only the rows of these keys.
    :returns: None if more are concerned than this process computes.
    """
    policy, source = policy_of(contract), contract.dataset
    ids, until = inputs(settings, source, as_of)
    on_days = {"event_date": days}
    if policy.chooses_deliveries and not _are_few(settings, source, {} if policy.chooses_for_table else on_days):
        return None
    concerning = on_days | ({} if keys is None else {"record_key": keys})
    concerned = key_log.keys_at_most(settings, source, concerning, at_most)
    if concerned is None:
        return None
    then = judgement_history.as_of(settings, source, ids)
    concerned = pc.unique(pa.chunked_array([concerned, *table_io.meeting(then, concerning)["record_key"].chunks], pa.string()))
    log = key_log.about(settings, source, [*contests.RANKED, "standing"], concerned)
    claimed = key_log.SCHEMA.empty_table().select([*contests.RANKED, "standing"]) if log is None else log
    about_these = then.filter(pc.is_in(then["record_key"], value_set=concerned)).select(claimed.column_names)
    claimed = judgement_history.judged_as_then(claimed, about_these, then)
    claimed = claimed.filter(pc.is_in(claimed["ingestion_id"], value_set=pa.array(sorted(ids), pa.string())))
    if until is not None:
        claimed = claimed.filter(pc.less_equal(claimed["arrival_ts"], pa.scalar(until, claimed["arrival_ts"].type)))
    claimed = claims.with_decisions(claimed, decisions.in_force(settings, source, ids))
    admitted = claimed.filter(claims.are_admitted(claimed))
    living = _living(contract, admitted, days, claims.choices(settings, contract, days, ids, until))
    if len(living) > at_most:
        return None
    rows = claimed_rows.read(settings, contract, pc.unique(living["arrival_date"]), living, ids)
    return _in_order(rows.cast(arrow_schema(silver_columns(contract))))


def inputs(settings: Settings, source: str, as_of: datetime | NamedSnapshot) -> tuple[set[str], datetime | None]:
    """The ids of the inputs, and the time by which their rows have to have arrived."""
    if isinstance(as_of, NamedSnapshot):
        return input_sets.ids_of(settings, source, as_of.inputs), as_of.until
    return known_at(settings, source, as_of), as_of


def _living(contract: SourceContract, counting: pa.Table, days: Collection[date], chosen: Mapping[date, Choice]) -> pa.Table:
    """The claims that put a row on one of the days, under the source's reprocess policy; see ``silver.merge``."""
    policy = policy_of(contract)
    if policy.chooses_deliveries:
        counting = counting.filter(_are_chosen(counting, chosen, for_table=policy.chooses_for_table))
    if policy.keys_contend:
        counting = contests.winners(counting, by_sequence=policy.by_sequence, each_day=policy.contends_per_day)
    lives = pc.is_in(counting["kind"], value_set=pa.array(contests.LIVING_KINDS))
    return counting.filter(pc.and_(lives, pc.is_in(counting["event_date"], value_set=pa.array(sorted(days), pa.date32()))))


def _are_chosen(counting: pa.Table, chosen: Mapping[date, Choice], *, for_table: bool) -> pa.Array:
    """Whether claims are of the deliveries chosen for their day; ``for_table``: of those chosen for the whole table."""
    if for_table:
        ids = set[str]().union(*(choice.counting for choice in chosen.values()))
        return pc.is_in(counting["ingestion_id"], value_set=pa.array(sorted(ids), pa.string()))
    of_chosen = np.zeros(len(counting), bool)
    for day, choice in chosen.items():
        of_day = pc.fill_null(pc.equal(counting["event_date"], pa.scalar(day, pa.date32())), False)
        of_files = pc.is_in(counting["ingestion_id"], value_set=pa.array(sorted(choice.counting), pa.string()))
        of_chosen |= numpy_of(pc.and_(of_day, of_files))
    return pa.array(of_chosen)


def _are_few(settings: Settings, source: str, where: table_io.Where) -> bool:
    """Whether few enough claims meet ``where`` to choose deliveries by them in this process."""
    count = 0
    for piece in table_io.pieces(locations.key_log(settings, source), ["event_date"], where, settings.storage_options):
        count += len(piece)
        if count > _WEIGHED_CLAIMS:
            return False
    return True


def _filling(days: list[date], held: Mapping[date, int], count: int) -> list[date]:
    """The first days, as many as have fewer rows than ``count`` together; at least one."""
    total = np.cumsum([held[day] for day in days])
    return days[: max(int(np.searchsorted(total, count, side="right")), 1)]


def _in_order(rows: pa.Table) -> pa.Table:
    return rows.sort_by([(name, "ascending") for name in _ORDER])
