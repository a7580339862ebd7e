"""Which rows of a source are history: rows that give no information about how late its rows usually arrive.

A source is *followed* from its first arrival day on. Event days before that day are its history: the arrival day that first
brings such an event day loads it, in one commit or in many. Rows of the same event day from another arrival day are late, as are
late rows of all days since. Rows of a file that a backfill plan brought are history as well, and so are corrections that a
person entered: their arrival is the time of a decision. All rules use only the data's own days and the ledger (R5), so that any
grouping of runs and a replay decide the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.lake import table_io
from lakehouse.ledger import ingestions

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable
    from datetime import date

    from lakehouse.lake import Lake
    from lakehouse.ledger.ingestions import Ingestion

#: The arrival day that first brought each event day of a source.
FIRST_ARRIVALS = pa.schema([("event_date", pa.date32()), ("arrival_date", pa.date32())])
#: The columns that :meth:`SourceHistory.of` needs.
COLUMNS = ("event_date", "arrival_date", "ingestion_id")


def first_arrivals(claims: pa.Table) -> pa.Table:
    """The first arrival day of each event day, as :data:`FIRST_ARRIVALS`.

    :param claims: from the key log, with ``event_date`` and ``arrival_date``: all claims of a source, or an earlier result of
        this function together with the claims since.
    """
    dated = claims.filter(pc.is_valid(claims["event_date"]))
    firsts = dated.group_by("event_date").aggregate([("arrival_date", "min")])
    return firsts.rename_columns({"arrival_date_min": "arrival_date"}).select(FIRST_ARRIVALS.names).cast(FIRST_ARRIVALS)


def are_first_load(rows: pa.Table, firsts: pa.Table, followed_since: date | None = None) -> pa.Array:
    """Whether each row came with the first load of its event day; never NULL.

    :param rows: with ``event_date`` and ``arrival_date``.
    :param firsts: see :func:`first_arrivals`; for all event days of the source before it was followed.
    :param followed_since: the first arrival day of the source; by default the least of ``firsts``, which must then cover all
        event days.
    """
    since = pc.min(firsts["arrival_date"]) if followed_since is None else pa.scalar(followed_since, pa.date32())
    of_day = firsts["arrival_date"].take(pc.index_in(rows["event_date"], firsts["event_date"].combine_chunks()))
    is_first = pc.equal(rows["arrival_date"], of_day)
    return pc.fill_null(pc.and_(pc.less(rows["event_date"], since), is_first), False).combine_chunks()


def followed_since(entries: Iterable[Ingestion]) -> date | None:
    """The first arrival day of a source; None if nothing has arrived. Files that a backfill plan brings do not count: they may be
    of any earlier arrival day.
    """
    return min((entry.arrival_date for entry in entries if entry.status == "ingested" and entry.backfill is None), default=None)


@dataclass(frozen=True)
class SourceHistory:
    """The history of a source, as the ledger records it.

    :param since: see :func:`followed_since`.
    :param planned: the ingestions that a backfill plan brought, or a person entered by hand.
    """

    lake: Lake
    source: str
    since: date | None
    planned: pa.Array

    @property
    def state(self) -> Hashable:
        """The facts on which the results of :meth:`of` depend, apart from the rows of the key log."""
        return self.since, len(self.planned)

    def of(self, rows: pa.Table) -> pa.Array:
        """Whether each row of Bronze, or of the key log, is history; never NULL.

        :param rows: with :data:`COLUMNS`.
        """
        planned = pc.fill_null(pc.is_in(rows["ingestion_id"], value_set=self.planned), False)
        if self.since is None:
            return planned
        before = pc.fill_null(pc.less(rows["event_date"], pa.scalar(self.since, pa.date32())), False)
        # The key log is read only where the result depends on it: in regular operation few rows are old enough.
        if not pc.any(pc.and_not(before, planned)).as_py():
            return planned
        return pc.or_(planned, are_first_load(rows, self._firsts, self.since))

    def left_out(self, rows: pa.Table) -> pa.Table:
        """The rows without those that are history."""
        return rows.filter(pc.invert(self.of(rows)))

    @cached_property
    def _firsts(self) -> pa.Table:
        """The first arrival day of each event day, from all well-formed rows, admitted or not."""
        keys = locations.key_log(self.lake, self.source)
        table = keys.open()
        if table is None:
            return FIRST_ARRIVALS.empty_table()
        question = table_io.question(table.table_uri, COLUMNS[:2], None, "first arrivals")
        return keys.answer(
            table,
            question,
            lambda: first_arrivals(table_io.distinct_of_version(table, COLUMNS[:2])),
        )


def brought_by_plans(lake: Lake, source: str) -> pa.Array:
    """The ids of the ingestions of a source that a backfill plan brought."""

    def compute() -> pa.Array:
        entries = ingestions.ingested(ingestions.all_of(lake, source)).values()
        return pa.array([entry.ingestion_id for entry in entries if entry.backfill is not None], pa.string())

    return ingestions.log(lake).derived("brought by plans", compute, {"source": [source]})


def of_source(lake: Lake, source: str) -> SourceHistory:
    """The history of a source, from its recorded deliveries."""

    def compute() -> tuple[date | None, pa.Array]:
        entries = ingestions.ingested(ingestions.all_of(lake, source)).values()
        planned = [entry for entry in entries if entry.backfill is not None or ingestions.is_by_hand(entry.source_file)]
        return followed_since(entries), pa.array([entry.ingestion_id for entry in planned], pa.string())

    # Cached per version of the ledger: a server calls this whenever it checks for new data.
    return SourceHistory(lake, source, *ingestions.log(lake).derived("history", compute, {"source": [source]}))
