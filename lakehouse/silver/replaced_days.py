"""What a delivery replaces in silver, where it is the whole truth for its event days or for the table, and which days it lacks.

Belongs here: the comparison of the days of a delivery with those that silver has. Which deliveries count is decided in
``dispositions.reprocess_policy``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehouse import locations
from lakehouse.dispositions.reprocess_policy import policy_of
from lakehouse.lake import table_parts
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import date

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.ledger.ingestions import Ingestion

_SHOWN = 20


@dataclass(frozen=True)
class Replaced:
    """What became of the event days of silver, where a delivery is the whole truth for its days or for the table.

    :param rows: per event day in the files how many rows silver had, and has.
    :param untouched: on how many other event days silver has rows.
    :param absent: those of them that lie between the event days in the files, and keep their rows.
    """

    rows: Mapping[date, tuple[int, int]]
    untouched: int
    absent: Sequence[date] = ()


def rows_by_day(lake: Lake, contract: SourceContract) -> dict[date, int]:
    """How many rows silver has, per event day; empty under ``merge`` and ``append``, where a delivery replaces nothing."""
    if not policy_of(contract).chooses_deliveries:
        return {}
    table = locations.silver(lake, contract.dataset).open()
    return {} if table is None else table_parts.rows(table)


def replaced_by(
    contract: SourceContract, entries: Collection[Ingestion], before: Mapping[date, int], after: Mapping[date, int]
) -> Replaced | None:
    """What a delivery replaced, from the rows of silver by event day before and after it; None under ``merge`` and ``append``."""
    policy = policy_of(contract)
    if not policy.chooses_deliveries:
        return None
    days = sorted({day for entry in entries for day in entry.touched_days})
    if policy.chooses_for_table and days:
        days = sorted({*days, *before, *after})
    rows = {day: (before.get(day, 0), after.get(day, 0)) for day in days}
    others = sorted(day for day, count in after.items() if count and day not in rows)
    return Replaced(rows, len(others), tuple(day for day in others if days and days[0] < day < days[-1]))


def absent_from(lake: Lake, contract: SourceContract, deliveries: Sequence[Collection[Ingestion]]) -> list[list[date]]:
    """For each of some deliveries, the oldest first, the absent days; silver need not have them yet.

    :param deliveries: their files.
    """
    if not policy_of(contract).chooses_deliveries:
        return [[] for _ in deliveries]
    held, absent = rows_by_day(lake, contract), []
    for entries in deliveries:
        replaced = replaced_by(contract, entries, held, held)
        absent.append([] if replaced is None else [*replaced.absent])
        for entry in entries:
            for day, rows in entry.rows_by_day.items():
                held[day] = max(held.get(day, 0), rows)
    return absent


def absent_text(days: Collection[date]) -> str:
    """Which days a delivery lacks, in a sentence."""
    named = join_limited([f"{day}" for day in days], _SHOWN)
    return f"absent from the files, although days before and after came: {named}; they stay as they were"
