"""The reprocess policies that look at whole arrivals and not at single keys: which arrival a day, or the table, is made of.

``merge`` chooses key by key (see ``dispositions``); ``append`` chooses nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True)
class Share:
    """What one arrival holds of one event day.

    :param rows: those that may count, and those that a steward has barred one by one.
    :param order: the greatest position in the total order among its rows, by which arrivals are newer or older.
    :param accepted: whether a steward has accepted it although it shrinks the day.
    """

    ingestion_id: str
    rows: int
    order: tuple[Any, ...]
    accepted: bool = False


@dataclass(frozen=True)
class Choice:
    """The arrival that a day is made of, and those that are held because they would shrink it."""

    holder: str | None
    held: frozenset[str]


#: Of a day that no arrival holds.
NOTHING = Choice(None, frozenset())


def choose(shares: Iterable[Share], max_shrink: float) -> Choice:
    """``overwrite_partition_safe``: the newest arrival is the whole truth for the day, unless it lacks too many rows.

    Taken one after another in the total order, so that the order of ingestion does not matter. An arrival that is held
    does not count until it is accepted.

    :param max_shrink: the share of the rows of the arrival before it that an arrival may lack.
    """
    holder: Share | None = None
    held = set()
    for share in sorted(shares, key=lambda one: one.order):
        if holder is not None and not share.accepted and share.rows < holder.rows * (1 - max_shrink):
            held.add(share.ingestion_id)
        else:
            holder = share
    return Choice(holder.ingestion_id if holder else None, frozenset(held))


def newest(shares: Iterable[Share]) -> Choice:
    """``overwrite_all``: the newest arrival is the table."""
    last = max(shares, key=lambda one: one.order, default=None)
    return Choice(last.ingestion_id, frozenset()) if last else NOTHING
