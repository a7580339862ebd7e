"""Few rows of silver, read or computed in this process: the present rows, the rows known at a time, or the rows of a snapshot.

The rows equal those of ``rows``, where Spark computes any number of them; here the rules on sets of claims in ``dispositions``
compute them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lakehouse import locations
from lakehouse.delta.columns import arrow_schema, silver_columns
from lakehouse.dispositions import living_rows
from lakehouse.lake import table_parts
from lakehouse.ledger import key_log, redactions
from lakehouse.snapshots import input_sets
from lakehouse.snapshots.input_sets import NamedSnapshot, known_at

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from datetime import date, datetime

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake

_ORDER = ("event_date", "record_key", "ingestion_id", "line_number")


def days_of(
    lake: Lake,
    contract: SourceContract,
    first: date | None = None,
    last: date | None = None,
    keys: Collection[str] | None = None,
) -> list[date]:
    """The event days about which the source has ever had rows, from ``first`` through ``last``, in order.

    :param keys: only days on which one of these keys has ever had a row.
    """
    source = contract.dataset
    known = key_log.days(lake, source) if keys is None else key_log.days_of(lake, source, pa.array(keys, pa.string()))
    return sorted(day for day in known if (first is None or first <= day) and (last is None or day <= last))


def current(
    lake: Lake, contract: SourceContract, days: Collection[date], keys: Collection[str] | None = None
) -> Iterator[pa.Table]:
    """The rows that silver holds on ``days``, in pieces, with the columns of the contract.

    :param keys: only the rows of these keys.
    """
    columns = [name for name, _ in silver_columns(contract)]
    where = {"event_date": days} | ({} if keys is None else {"record_key": keys})
    hidden = redactions.keys_by_field(lake, contract.dataset)  # silver follows a redaction later
    for piece in locations.silver(lake, contract.dataset).pieces(columns, where):
        yield redactions.applied(piece, hidden)


def first_rows(
    lake: Lake, contract: SourceContract, days: Collection[date], count: int, keys: Collection[str] | None = None
) -> pa.Table:
    """The first rows that silver holds on ``days``, at most ``count``, by event day and key.

    If not all rows of a day fit, the rows returned for it are arbitrary.

    :param keys: only the rows of these keys.
    """
    schema = arrow_schema(silver_columns(contract))
    table = locations.silver(lake, contract.dataset).open()
    held = {} if table is None else table_parts.rows(table)
    in_order = sorted(held.keys() & set(days))
    read = schema.empty_table()
    while in_order and len(read) < count:
        some = _filling(in_order, held, count - len(read))
        in_order = in_order[len(some) :]
        parts = [read]
        for piece in current(lake, contract, some, keys):
            parts.append(piece.cast(schema))
            if sum(map(len, parts)) >= count and len(some) == 1:
                break
        read = pa.concat_tables(parts)
    return _in_order(read).slice(0, count)


def computed(
    lake: Lake,
    contract: SourceContract,
    days: Collection[date],
    as_of: datetime | NamedSnapshot,
    at_most: int,
    keys: Collection[str] | None = None,
) -> pa.Table | None:
    """The rows that silver would hold on ``days`` with the state ``as_of``: what was known at a time, or the inputs of a
    snapshot.

    They are computed under today's contract, from Bronze; redactions always apply. They come in the order of days and keys.

    :param at_most: the greatest number of keys, and of rows, that may be concerned.
    :param keys: only the rows of these keys.
    :returns: None if more are concerned than this process computes.
    """
    ids, until = inputs(lake, contract.dataset, as_of)
    rows = living_rows.computed(lake, contract, living_rows.Slice(days, ids, until, keys), at_most)
    return None if rows is None else _in_order(rows)


def inputs(lake: Lake, source: str, as_of: datetime | NamedSnapshot) -> tuple[set[str], datetime | None]:
    """The ids of the inputs, and the time by which their rows must have arrived."""
    if isinstance(as_of, NamedSnapshot):
        return input_sets.ids_of(lake, source, as_of.inputs), as_of.until
    return known_at(lake, source, as_of), as_of


def _filling(days: list[date], held: Mapping[date, int], count: int) -> list[date]:
    """The first of ``days``, as many as have fewer rows than ``count`` together; at least one."""
    total = np.cumsum([held[day] for day in days])
    return days[: max(int(np.searchsorted(total, count, side="right")), 1)]


def _in_order(rows: pa.Table) -> pa.Table:
    return rows.sort_by([(name, "ascending") for name in _ORDER])
