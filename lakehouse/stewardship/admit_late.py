"""A steward's decision about rows that came too late for a metric: they count from now on, or no longer.

A decision is a single append to the log of ``ledger.late_decisions``. The table of late rows is brought up to date here; the
numbers follow with the next run of the metric. Repeating a command that was stopped adds no second decision. Rows that count
since their days are closed get none: it would change nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.late_events import follow, late_rows
from lakehouse.ledger import key_log, late_decisions
from lakehouse.ledger.ids import format_row_id, row_id_of
from lakehouse.ledger.late_decisions import LateDecision
from lakehouse.stewardship.quarantine import StewardError, require_signature

if TYPE_CHECKING:
    from collections.abc import Collection

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.ledger.ids import RowId


@dataclass(frozen=True)
class LateDecisionResult:
    """How many rows a decision was new for, and how many had it already."""

    rows: int
    repeated: int


def selected(late: pa.Table, rows: Collection[RowId] | None, *, counts: bool) -> tuple[list[RowId], int]:
    """The rows that a decision is to be recorded about, and how many more count already, since their days are closed.

    :param late: late rows with the column ``counted_at_close``.
    :param rows: the rows that were named; None for all of ``late`` that a decision can be about.
    """
    closed = {row_id_of(row) for row in late.filter(late["counted_at_close"]).to_pylist()} if counts else set()
    wanted = {row_id_of(row) for row in undecided(late, counts=counts).to_pylist()} if rows is None else {*rows}
    return sorted(wanted - closed), len(wanted & closed)


def undecided(rows: pa.Table, *, counts: bool) -> pa.Table:
    """Those of some rows of the table of late rows that a decision can be about.

    :param counts: whether they are to count: rows that do not count yet, or rows that count by a decision.
    """
    return rows.filter(pc.invert(rows["counts"]) if counts else pc.equal(rows["action"], late_rows.ADMITTED))


def decide(
    lake: Lake,
    metric: MetricContract,
    contract: SourceContract,
    rows: Collection[RowId],
    *,
    counts: bool,
    by: str,
    reason: str,
) -> LateDecisionResult:
    """Let late rows count in a metric, or take such a decision back; the newest decision about a row applies.

    :param contract: of the silver table that the metric reads.
    :raises StewardError: for a row that is not late in the metric, or counts without a decision, and for a decision without a
        name or a reason.
    """
    require_signature(by, reason)
    known = late_rows.read(lake, metric.source, {"metric": [metric.name]})
    existing = late_decisions.newest(late_decisions.of_metric(lake, metric.source, metric.name))
    same = {row for row in rows if row in existing and existing[row].counts == counts}
    about = {row_id_of(row): row for row in undecided(known, counts=counts).to_pylist()}
    if wrong := sorted(set(rows) - about.keys() - same):
        state = "that does not count" if counts else "that a steward has admitted"
        way = f"'lakehouse lateness rows {metric.name}' lists them"
        msg = f"{format_row_id(wrong[0])} is no late row of {metric.name} {state}; {way}"
        raise StewardError(msg)
    new = {row: about[row] for row in sorted(set(rows) - same)}
    keys = {key for row in new.values() for key in (row["record_key"], row["corrects_key"]) if key is not None}
    days = key_log.days_by_key(lake, metric.source, keys) if keys else {}
    decided = [
        LateDecision(
            decision_id="",
            number=existing[row].number + 1 if row in existing else 1,
            metric=metric.name,
            ingestion_id=row[0],
            line_number=row[1],
            counts=counts,
            by=by,
            reason=reason,
            decided_at=lake.now(),
            touched_days=sorted({day for key in (late["record_key"], late["corrects_key"]) for day in days.get(key, ())}),
        )
        for row, late in new.items()
    ]
    if decided:
        late_decisions.record(lake, metric.source, decided)
    follow.follow(lake, contract, [metric])
    return LateDecisionResult(len(decided), len(same))
