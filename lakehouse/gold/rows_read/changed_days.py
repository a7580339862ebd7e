"""The event days on which the silver tables of a metric changed since given versions, from their change feeds.

The pending periods of a metric are derived from them in ``restatement.pending``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from lakehouse.delta import change_feed, table_io
from lakehouse.delta.change_feed import LateRows
from lakehouse.gold.rows_read import tables
from lakehouse.lateness.measurement import judged
from lakehouse.ledger import hand_corrections

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

    import pyarrow as pa
    from deltalake import DeltaTable

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract
    from lakehouse.settings import Settings

#: The number of changed keys of a day that are shown.
SAMPLE = 5


@dataclass(frozen=True)
class ChangedDays:
    """The changes on event days.

    :param causes: per day the number of keys inserted, corrected, moved and deleted.
    :param keys: per day a sample of the changed keys.
    """

    causes: Mapping[date, Counter[str]] = field(default_factory=dict)
    keys: Mapping[date, list[str]] = field(default_factory=dict)

    def __add__(self, other: ChangedDays) -> ChangedDays:
        """The changes of both tables."""
        causes = {
            day: self.causes.get(day, Counter()) + other.causes.get(day, Counter()) for day in {**self.causes, **other.causes}
        }
        keys = {day: [*self.keys.get(day, ()), *other.keys.get(day, ())][:SAMPLE] for day in {**self.keys, **other.keys}}
        return ChangedDays(dict(sorted(causes.items())), keys)


def silver_tables(settings: Settings, metric: MetricContract) -> dict[str, DeltaTable | None]:
    """The silver tables that a metric reads, by name, in the order of its sources; None for a table that has yet to be built."""
    read = tables.tables_read(settings, metric)
    return {entry.silver: None if tables.is_unbuilt(settings, entry) else table for entry, table in read}


def first_unfollowed(table: DeltaTable, followed: int) -> int:
    """The first version whose changes count; a table that was created again is followed from its beginning."""
    return followed + 1 if followed <= table.version() else 0


def since(table: DeltaTable, first: int, contract: SourceContract | None = None) -> ChangedDays:
    """The changes of a silver table by the versions from ``first`` on.

    :param contract: of the table's source: its bounds separate rows on time from late rows.
    :raises ForgottenFeedError: if its change feed no longer reaches back.
    """
    causes: dict[date, Counter[str]] = {}
    keys: dict[date, list[str]] = {}
    for changes in change_feed.key_changes(table, first, table.version(), _late_rows(contract) if contract else None):
        causes |= change_feed.counts(changes)
        keys |= _sampled(changes)
    return ChangedDays(dict(sorted(causes.items())), keys)


def _late_rows(contract: SourceContract) -> LateRows:
    columns = ("event_ts", "event_date", "arrival_ts", "source_file", contract.event_type_column)
    return LateRows(
        columns, lambda rows: judged(rows, contract)[1], lambda rows: hand_corrections.are_by_hand(rows["source_file"])
    )


def _sampled(changes: pa.Table) -> dict[date, list[str]]:
    """The first changed keys of each day, by kind and key.

    :param changes: columns ``change_feed.KEY_CHANGES``.
    """
    by = [("what", "ascending"), ("record_key", "ascending")]
    return {
        day: of_day["record_key"].take(pc.select_k_unstable(of_day, min(SAMPLE, len(of_day)), by)).to_pylist()
        for day, of_day in table_io.split(changes, "event_date").items()
    }
