"""The rejections by stewards that owners and consumers have yet to be notified of: rows that waited, and will be in no number.

A rejection of rows that waited changes no published number, so that no restatement reports it; one of rows that were in the
numbers does, and is reported as the restatement that it causes. Rejections of the last days that have no notice yet make one
per metric, consumer and target, and before these one for the owner of the source, with files and lines. ``log`` stores the
notices, and ``dispatch`` sends them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.lake import table_io
from lakehouse.ledger import decisions
from lakehouse.ledger.row_states import StewardVerdict
from lakehouse.operations.notices import log as notice_log
from lakehouse.operations.notices.log import NOTIFY_WITHIN, NoticeEntry
from lakehouse.operations.notices.notice import DayOfRejection, Rejection, RejectionOfSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from lakehouse.contracts.metric import Measure
    from lakehouse.contracts.series import Series
    from lakehouse.lake import Lake
    from lakehouse.operations.delivery import TargetsOf
    from lakehouse.operations.notices.pending import Audience

#: Measures whose value over given rows is known without Spark.
_SUM = re.compile(r"\s*(?:sum\(\s*(\w+)\s*\)|coalesce\(\s*sum\(\s*(\w+)\s*\)\s*,\s*0\s*\))\s*", re.IGNORECASE)
_COUNT = re.compile(r"\s*count\(\s*\*\s*\)\s*", re.IGNORECASE)
_ROW = ["ingestion_id", "line_number"]
_ABOUT_ROW = ["event_date", "change_op", "is_correction", "source_file"]
_DECIDED = ["decision_id", "by", "reason", "decided_at"]


@dataclass(frozen=True)
class SourceOwner:
    """Who owns a source, and the names of the targets at which the owner is reached."""

    name: str
    targets: Sequence[str]


def add_notices(lake: Lake, every: Sequence[Audience], targets_of: TargetsOf, owners: Mapping[str, SourceOwner]) -> int:
    """Add a notice for each rejection of rows that waited: for the owner of the source, and one per metric, consumer and target.

    :param targets_of: the names of the targets at which a consumer is reached.
    :param owners: the owners of sources.
    :returns: how many were added.
    """
    by_source: dict[str, list[Audience]] = {source: [] for source in owners}
    for audience in every:
        by_source.setdefault(audience.daily.metric.source, []).append(audience)
    return sum(_add_notices(lake, source, audiences, targets_of, owners.get(source)) for source, audiences in by_source.items())


def _add_notices(lake: Lake, source: str, audiences: Sequence[Audience], targets_of: TargetsOf, owner: SourceOwner | None) -> int:
    commits = locations.decisions(lake, source).version() + 1
    scanned = notice_log.scanned_version(lake, _log_of(source))
    is_reached = any(targets_of(consumer) for audience in audiences for consumer in audience.consumers)
    is_reached = is_reached or (owner is not None and bool(owner.targets))
    if not commits or not is_reached or (scanned or 0) >= commits:
        return 0
    since = lake.now() - NOTIFY_WITHIN
    rejected = _rejected(lake, source, since, [audience.daily for audience in audiences])
    known = {(entry.series, entry.publication_id) for entry in notice_log.of(lake, since=since)} if len(rejected) else set()
    addressed: list[tuple[Rejection | RejectionOfSource, str, str]] = []
    if owner is not None:
        of_source = [*_of_source(rejected, source)]
        addressed += [(rejection, owner.name, target) for rejection in of_source for target in owner.targets]
    addressed += [
        (rejection, consumer, target)
        for audience in audiences
        for rejection in _rejections(rejected, source, audience.daily)
        for consumer in audience.consumers
        for target in targets_of(consumer)
    ]
    entries = [
        NoticeEntry(
            message_id=rejection.message_id(consumer),
            series=rejection.series,
            publication_id=rejection.decision_id,
            gold_version=commits,
            consumer=consumer,
            target=target,
            subject=rejection.subject,
            text=rejection.text,
            data={**rejection.data, "consumer": consumer},
            answers={},
            published_at=rejection.decided_at,
            found_at=lake.now(),
        )
        for rejection, consumer, target in addressed
        if (rejection.series, rejection.decision_id) not in known
    ]
    return len(entries) if notice_log.add(lake, _log_of(source), entries, commits, scanned) else 0


def _rejected(lake: Lake, source: str, since: datetime, every: Sequence[Series]) -> pa.Table:
    """The rows that stewards rejected while they waited, with the columns that measures add up, and the decision.

    Only the first decision about a row is one about a row that waits, and only rows that waited are in the quarantine.
    """
    columns = [*_ROW, "decision_id", "number", "verdict", "by", "reason", "decided_at"]
    decided = decisions.log(lake, source).select(columns, {"verdict": [StewardVerdict.REJECT.value]})
    is_first = pc.equal(pc.fill_null(decided["number"], 1), 1)
    is_new = pc.greater_equal(decided["decided_at"], pa.scalar(since, decided["decided_at"].type))
    decided = decided.filter(pc.and_(is_first, is_new)).drop_columns(["number", "verdict"])
    where = {"ingestion_id": pc.unique(decided["ingestion_id"]).to_pylist()}
    summed = [_summed(measure) for series in every for measure in series.metric.measures]
    names = dict.fromkeys([*_ROW, *_ABOUT_ROW, *(name for name in summed if name)])
    stored = locations.quarantine(lake, source)
    waited = stored.read([*names], where) if len(decided) else None
    if waited is None:
        return decided.slice(0, 0)
    waited = waited.set_column(0, _ROW[0], waited[_ROW[0]].cast(pa.string()))  # delta-rs writes string views
    return waited.join(decided, _ROW, join_type="inner")


def _by_decision(rejected: pa.Table) -> Iterator[tuple[dict[str, Any], pa.Table]]:
    """Each decision with the rows that it rejected, oldest first."""
    for decision in rejected.group_by(_DECIDED).aggregate([]).sort_by("decided_at").to_pylist() if len(rejected) else ():
        yield decision, rejected.filter(pc.equal(rejected["decision_id"], decision["decision_id"]))


def _of_source(rejected: pa.Table, source: str) -> Iterator[RejectionOfSource]:
    """The rejections for the owner of the source, oldest first."""
    for decision, rows in _by_decision(rejected):
        places = rows.select(["source_file", "line_number"]).sort_by([("source_file", "ascending"), ("line_number", "ascending")])
        lines: dict[str, list[int]] = {}
        for place in places.to_pylist():
            lines.setdefault(place["source_file"], []).append(place["line_number"])
        yield RejectionOfSource(source=source, lines=lines, **decision)


def _rejections(rejected: pa.Table, source: str, daily: Series) -> Iterator[Rejection]:
    """The rejections for the readers of a metric, oldest first. Rows without an event day concern no number."""
    dated = rejected.filter(pc.is_valid(rejected["event_date"])) if len(rejected) else rejected
    for decision, rows in _by_decision(dated):
        days = table_io.split(rows, "event_date")
        yield Rejection(
            metric=daily.metric.metric,
            series=daily.name,
            source=source,
            **decision,
            days=tuple(DayOfRejection(day, len(days[day]), _values(daily, days[day])) for day in sorted(days)),
        )


def _values(daily: Series, rows: pa.Table) -> dict[str, Any]:
    """The additive measures over ``rows`` alone that can be computed here; empty if a row is not a plain insert.

    If the keys are new, the day's number would have been greater by these values.
    """
    inserts = pc.and_(pc.equal(rows["change_op"], "insert"), pc.invert(pc.fill_null(rows["is_correction"], False)))
    if not pc.all(inserts).as_py():
        return {}
    values = {measure.name: _value(measure, rows) for measure in daily.metric.measures if measure.additive}
    return {name: value for name, value in values.items() if value is not None}


def _value(measure: Measure, rows: pa.Table) -> Any:
    if _COUNT.fullmatch(measure.sql):
        return len(rows)
    column = _summed(measure)
    return pc.sum(rows[column]).as_py() if column and _is_number(rows[column].type) else None


def _summed(measure: Measure) -> str | None:
    """The column that a measure sums, if it does nothing else."""
    summed = _SUM.fullmatch(measure.sql)
    return (summed[1] or summed[2]).lower() if summed else None


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_decimal(kind))


def _log_of(source: str) -> str:
    return f"rejections:{source}"
