"""``bronze/<source>_decisions``: the stewards' decisions about single rows of Bronze; the newest decision about a row is in
force.

Decisions are input, like files: the log is append-only, and a rebuild applies them again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.ledger.ids import InputKind
from lakehouse.ledger.log_table import LogTable
from lakehouse.ledger.row_states import StewardVerdict  # noqa: TC001 (LogTable reads the annotations)

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import date, datetime

    from lakehouse.lake import Lake
    from lakehouse.ledger.ids import RowId

_ROW_ID = ("ingestion_id", "line_number")
#: Decisions about more rows are read with all others: the answer is kept with the rows that were in question.
_FEW_ROWS = 500


@dataclass(frozen=True)
class Decision:
    """One steward's decision about one row. ``number`` counts the decisions about that row, from 1.

    ``about_file`` is set where the row waited because its delivery would shrink its day, so that the decision concerns the
    delivery; ``decision_id`` is shared by the rows decided with one command; ``touched_days`` are the event days on which the
    row's key may have a row.
    """

    decision_id: str = field(default="", kw_only=True)
    number: int = field(default=1, kw_only=True)
    ingestion_id: str
    line_number: int
    record_key: str
    verdict: StewardVerdict
    by: str
    reason: str
    decided_at: datetime
    about_file: bool = field(default=False, kw_only=True)
    touched_days: list[date] = field(default_factory=list, kw_only=True)

    @property
    def row(self) -> RowId:
        """The row that the decision is about."""
        return self.ingestion_id, self.line_number

    @property
    def admits(self) -> bool:
        """Whether the row may contend for its key."""
        return self.verdict.barred_as is None


def log(lake: Lake, source: str) -> LogTable[Decision]:
    """The table of a source."""
    return LogTable(Decision, lake, locations.decisions(lake, source), journaled=True)


def record(lake: Lake, source: str, decided: list[Decision]) -> str:
    """Append the decisions of one command, once.

    :returns: the id that they share.
    """
    text = "\n".join(sorted(f"{entry.row}|{entry.number}|{entry.verdict}|{entry.by!r}|{entry.reason!r}" for entry in decided))
    decision_id = InputKind.DECISION.id_of(text)
    log(lake, source).append([replace(entry, decision_id=decision_id) for entry in decided], app_id=decision_id)
    return decision_id


def all_of(lake: Lake, source: str, ids: Collection[str] | None = None) -> list[Decision]:
    """The decisions, in the order in which they take effect: every one, or those with one of ``ids``."""
    return _in_order(log(lake, source).read(None if ids is None else {"decision_id": ids}))


def _in_order(entries: list[Decision]) -> list[Decision]:
    return sorted(entries, key=lambda entry: (entry.number, entry.decided_at, entry.decision_id))


def in_force(lake: Lake, source: str, ids: Collection[str] | None = None, rows: pa.Table | None = None) -> pa.Table:
    """The decision in force for each row that has one, as columns of the log; see :func:`newest`.

    :param rows: the rows of interest; only about these is the result complete.
    """
    where = None if rows is None or len(rows) > _FEW_ROWS else {name: pc.unique(rows[name]) for name in _ROW_ID}
    decided = log(lake, source).select(None, where)
    if ids is not None:
        decided = decided.filter(pc.is_in(decided["decision_id"], pa.array(list(ids), pa.string())))
    number, about_file = pc.fill_null(decided["number"], 1), pc.fill_null(decided["about_file"], False)
    decided = decided.drop_columns(["number", "about_file"]).append_column("number", number)
    decided = decided.append_column("about_file", about_file)
    decided = decided.sort_by([(name, "ascending") for name in ("number", "decided_at", "decision_id")])
    decided = decided.append_column("position", pa.array(np.arange(len(decided))))
    newest_of_row = decided.group_by(["ingestion_id", "line_number"]).aggregate([("position", "max")])
    return decided.take(newest_of_row["position_max"]).drop_columns("position")


def newest(lake: Lake, source: str, ids: Collection[str] | None = None) -> dict[RowId, Decision]:
    """The decision in force for each row that has one.

    :param ids: counts these decisions only, so that any earlier state can be computed again (R10).
    """
    return {decision.row: decision for decision in all_of(lake, source, ids)}


def newest_about(lake: Lake, source: str, rows: Collection[RowId]) -> dict[RowId, Decision]:
    """The decision in force for each of ``rows`` that has one; no other decision is parsed, of which there may be many."""
    selected = set(rows)
    where = {"ingestion_id": {row[0] for row in selected}, "line_number": {row[1] for row in selected}}
    return {decision.row: decision for decision in _in_order(log(lake, source).read(where)) if decision.row in selected}


def decided_ingestions(lake: Lake, source: str) -> pa.Array:
    """The ingestions with a decision about any of their rows."""
    return pc.unique(log(lake, source).select(["ingestion_id"])["ingestion_id"]).sort()


def touched(lake: Lake, source: str) -> dict[str, set[date]]:
    """The event days that each decision may change, by decision id."""
    stored = log(lake, source)
    return stored.derived("touched days", lambda: _touched(stored))


def _touched(stored: LogTable[Decision]) -> dict[str, set[date]]:
    rows = stored.select(["decision_id", "touched_days"]).combine_chunks()
    days: dict[str, set[date]] = {name: set() for name in pc.unique(rows["decision_id"]).to_pylist()}
    of_rows = rows["touched_days"].combine_chunks()
    each = {"id": rows["decision_id"].take(pc.list_parent_indices(of_rows)), "day": pc.list_flatten(of_rows)}
    for pair in pa.table(each).group_by(["id", "day"]).aggregate([]).to_pylist():  # a decision may be about 100,000 rows
        days[pair["id"]].add(pair["day"])
    return days
