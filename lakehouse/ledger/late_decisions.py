"""``bronze/<source>_late_decisions`` and ``bronze/<source>_admissions``: late rows and files that a person has admitted.

Decisions are input, as files are: both logs are append-only.

A steward lets rows count in a metric that came too late for it, or takes that back; the newest decision about a row and a metric
holds. The set of inputs that a number names tells which of them it knew (rule R10). Making one belongs to
``stewardship.admit_late``.

An admission of a file as history means that no watermark applies to its rows. It is recorded before the rows of the file are
judged, and applies whenever they are judged again. It concerns lateness only; row rules still apply.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from lakehouse import locations
from lakehouse.ledger.ids import InputKind
from lakehouse.ledger.log_table import LogTable

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from datetime import date, datetime

    from lakehouse.lake import Lake
    from lakehouse.ledger.ids import RowId

#: Among the inputs of a number: it counts every row, however late it came. No decision has this id.
EVERY_ROW = f"{InputKind.LATE_DECISION.prefix}every_row"


@dataclass(frozen=True)
class LateDecision:
    """A decision about one row and one metric. ``number`` counts the decisions about them, from 1.

    ``decision_id`` is shared by the rows of one command; ``counts`` tells whether the row counts from now on although it came
    too late; ``touched_days`` are the event days on which the row's key may have a row.
    """

    decision_id: str
    number: int
    metric: str
    ingestion_id: str
    line_number: int
    counts: bool
    by: str
    reason: str
    decided_at: datetime
    touched_days: list[date]

    @property
    def row(self) -> RowId:
        """The row it is about."""
        return self.ingestion_id, self.line_number


def log(lake: Lake, source: str) -> LogTable[LateDecision]:
    """The table of a source."""
    return LogTable(LateDecision, lake, locations.late_decisions(lake, source), journaled=True)


def record(lake: Lake, source: str, decided: Sequence[LateDecision]) -> str:
    """Append the decisions of one command, once.

    :returns: the id that they share.
    """
    text = "\n".join(sorted(f"{one.metric}|{one.row}|{one.number}|{one.counts}|{one.by!r}|{one.reason!r}" for one in decided))
    decision_id = InputKind.LATE_DECISION.id_of(text)
    log(lake, source).append([replace(one, decision_id=decision_id) for one in decided], app_id=decision_id)
    return decision_id


def of_metric(lake: Lake, source: str, metric: str) -> list[LateDecision]:
    """Every decision about a metric, in the order in which they take effect."""
    return sorted(log(lake, source).read({"metric": [metric]}), key=lambda one: (one.number, one.decided_at, one.decision_id))


def ids(lake: Lake, source: str, until: datetime | None = None) -> set[str]:
    """The ids of all decisions, or of those made by a time."""
    rows = log(lake, source).select(["decision_id", "decided_at"]).to_pylist()
    return {row["decision_id"] for row in rows if until is None or row["decided_at"] <= until}


def newest(decided: Iterable[LateDecision], among: Collection[str] | None = None) -> dict[RowId, LateDecision]:
    """The decision in force for each row, of some in the order in which they take effect.

    :param among: counts the decisions with these ids only.
    """
    return {one.row: one for one in decided if among is None or one.decision_id in among}


def admitted(decided: Iterable[LateDecision], among: Collection[str] | None = None) -> pa.Table:
    """The ids of the rows that count by the decisions in force; see :func:`newest`."""
    rows = [row for row, one in newest(decided, among).items() if one.counts]
    columns = [pa.array([row[0] for row in rows], pa.string()), pa.array([row[1] for row in rows], pa.int64())]
    return pa.table(columns, names=["ingestion_id", "line_number"])


@dataclass(frozen=True)
class HistoryAdmission:
    """The decision of a backfill's runner to admit the rows of a file, however late they came."""

    ingestion_id: str
    plan_id: str
    by: str
    reason: str
    decided_at: datetime


def history_log(lake: Lake, source: str) -> LogTable[HistoryAdmission]:
    """The table of a source."""
    return LogTable(HistoryAdmission, lake, locations.history_admissions(lake, source), journaled=True)


def record_history(lake: Lake, source: str, plan_id: str, ids: Collection[str], by: str, reason: str) -> None:
    """Append the admissions of a plan, in one commit and once."""
    admissions = [HistoryAdmission(ingestion_id, plan_id, by, reason, lake.now()) for ingestion_id in sorted(set(ids))]
    history_log(lake, source).append(admissions, app_id=f"admission:{plan_id}")


def admitted_files(lake: Lake, source: str) -> pa.Array:
    """The ids of the ingestions that are admitted."""
    return history_log(lake, source).select(["ingestion_id"])["ingestion_id"].combine_chunks()
