"""One run of notifying consumers: creates notices, sends waiting ones, and records the audit rows of silver that they cover.

``pending`` selects publications and audit rows, ``rejections`` selects stewards' decisions; ``log`` has the record of notices.
The sensor ``notices`` and ``lakehouse alerts notices --send`` start a run.

A run also sends the side output of metrics with a topic (``late_events.topic`` of the contract); ``ops/late_outputs`` has the
deliveries whose side output was sent. The rows are committed to ``silver/<source>_late`` first; then they are sent, and then the
delivery is recorded. If the process dies in between, the rows of the delivery are sent again with the same ids (at-least-once
delivery). A delivery that is classified again, by another watermark, contract or decision, is sent again, too.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime  # noqa: TC003 (columns of the log)
from functools import partial
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.contracts.publication import LateAction
from lakehouse.late_events import late_rows
from lakehouse.ledger.ids import format_row_id, row_id_of
from lakehouse.ledger.log_table import LogTable
from lakehouse.operations.delivery import AfterFailure, Message, PendingMessage, deliver
from lakehouse.operations.notices import log, pending, rejections
from lakehouse.operations.notices.rejections import SourceOwner
from lakehouse.streams.client import StreamProblem, TopicWriter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakehouse.contracts import Catalog
    from lakehouse.contracts.inputs import TopicAddress
    from lakehouse.contracts.metric import MetricContract
    from lakehouse.lake import Lake, table_io
    from lakehouse.operations.delivery import Directory, Target
    from lakehouse.operations.notices.log import NoticeEntry


@dataclass(frozen=True)
class NoticeDispatch:
    """The result of a run: delivered and waiting notices, audit rows marked as notified, late rows sent to topics, problems."""

    delivered: int
    waiting: int
    audited: int
    problems: list[str]
    late_rows: int = 0

    def __str__(self) -> str:
        late = f"; late rows sent to topics: {self.late_rows}" if self.late_rows else ""
        if not (self.delivered or self.waiting or self.audited):
            return f"every consumer has been notified{late}"
        counts = f"notices delivered: {self.delivered}, waiting: {self.waiting}; audit rows marked as notified: {self.audited}"
        return f"{counts}{late}"


def dispatch_notices(lake: Lake, catalog: Catalog, directory: Directory, seconds: float = inf) -> NoticeDispatch:
    """Send consumers their outstanding notices; another run does not repeat them.

    A refused message is retried at the next run, and delays neither other messages nor other targets.

    :param directory: the targets of the consumers.
    :param seconds: the time limit per target, after which it receives no further message in this run.
    """
    lake = lake.cached()
    audiences, problems = pending.audiences(lake, catalog)
    pending.add_notices(lake, audiences, directory.of_consumer)
    rejections.add_notices(lake, audiences, directory.of_consumer, _owners(catalog, directory))
    waiting = pending.waiting(lake)
    delivered = 0
    for target in directory.targets.values():
        report = deliver(_messages(lake, target, waiting), AfterFailure.CONTINUE, seconds)
        delivered += report.delivered
        problems += [failure.reason for failure in report.failures if failure.reason is not None]
    audited = pending.follow_in_audit(lake, catalog, audiences)
    late = send_late_outputs(lake, catalog, seconds)
    return NoticeDispatch(delivered, len(waiting) - delivered, audited, [*problems, *late.problems], late.rows)


def _owners(catalog: Catalog, directory: Directory) -> dict[str, SourceOwner]:
    """The owners of the sources that have one."""
    named = {name: contract.owner for name, contract in catalog.sources.items() if contract.owner}
    return {name: SourceOwner(owner, directory.of_owners([owner])) for name, owner in named.items()}


def _messages(lake: Lake, target: Target, waiting: Sequence[NoticeEntry]) -> Iterator[PendingMessage]:
    """The waiting notices of a target, oldest first."""
    for entry in waiting:
        if entry.target == target.name:
            message = Message(entry.message_id, entry.subject, entry.text, [entry.consumer], entry.data)
            yield PendingMessage(message, [target], partial(_record, lake, entry))


def _record(lake: Lake, entry: NoticeEntry, _: list[str]) -> None:
    log.delivered(lake, entry, lake.now())


_KEY = "late_events.topic"
_DELIVERY = ["ingestion_id", "arrival_date", "watermark", "terms", "late_dropped"]
#: Deliveries are sent together until they have this number of rows, or of deliveries.
_STEP_ROWS, _STEP_DELIVERIES = 2**14, 200


@dataclass(frozen=True)
class LateOutput:
    """A delivery whose side output was sent.

    :param watermark: the watermark that it met. ``terms`` is what its classification depends on besides its rows.
    :param rows: how many rows were sent.
    """

    metric: str
    ingestion_id: str
    watermark: datetime | None
    terms: str
    rows: int
    sent_at: datetime


class SentRows(NamedTuple):
    """The result of a run: the number of rows that were sent, and the problems."""

    rows: int
    problems: list[str]


def late_output_log(lake: Lake) -> LogTable[LateOutput]:
    """The table."""
    return LogTable(LateOutput, lake, locations.late_outputs(lake), partition_by="metric")


def send_late_outputs(lake: Lake, catalog: Catalog, seconds: float = inf) -> SentRows:
    """Send the side output of all metrics with a topic that was not sent yet; a failure of one does not stop the others.

    :param seconds: the time limit per metric, after which no further delivery is sent in this run.
    """
    sent, problems = 0, list[str]()
    for metric in catalog.metrics.values():
        address = metric.late_events.topic if metric.late_events else None
        waiting = _waiting(lake, metric) if address else []
        if address is None or not waiting:
            continue
        try:
            sent += _send(lake, metric, address, waiting, seconds)
        except StreamProblem as problem:
            problems.append(f"the late rows of {metric.name} are not sent: {problem}")
    return SentRows(sent, problems)


def _waiting(lake: Lake, metric: MetricContract) -> list[dict[str, Any]]:
    """The classified deliveries with rows that do not count and were not sent, in the order of arrival."""
    table, where = locations.late_deliveries(lake, metric.source), {"metric": [metric.name]}
    classified = table.read(_DELIVERY, where)
    if classified is None:
        return []
    known = late_output_log(lake).select(["ingestion_id", "watermark", "terms"], where).to_pylist()
    sent = {(row["ingestion_id"], row["watermark"], row["terms"]) for row in known}
    rows = classified.filter(pc.greater(classified["late_dropped"], 0)).to_pylist()
    waiting = [row for row in rows if (row["ingestion_id"], row["watermark"], row["terms"]) not in sent]
    return sorted(waiting, key=lambda row: (row["arrival_date"], row["ingestion_id"]))


def _send(lake: Lake, metric: MetricContract, address: TopicAddress, waiting: Sequence[dict[str, Any]], seconds: float) -> int:
    """:raises StreamProblem: if the brokers do not accept the rows."""
    begun, sent, writer = monotonic(), 0, TopicWriter(lake, address, _KEY)
    for step in _steps(waiting):
        if monotonic() - begun >= seconds:
            break
        rows = _side_output(lake, metric, step)
        writer.write((row["record_key"], _id_of(metric, row), _message(metric, row)) for row in rows)
        counts = dict.fromkeys((delivery["ingestion_id"] for delivery in step), 0)
        for row in rows:
            counts[row["ingestion_id"]] += 1
        now = lake.now()
        late_output_log(lake).append(
            LateOutput(metric.name, of["ingestion_id"], of["watermark"], of["terms"], counts[of["ingestion_id"]], now)
            for of in step
        )
        sent += len(rows)
    return sent


def _steps(waiting: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    step, rows = list[dict[str, Any]](), 0
    for delivery in waiting:
        step.append(delivery)
        rows += delivery["late_dropped"]
        if rows >= _STEP_ROWS or len(step) >= _STEP_DELIVERIES:
            yield step
            step, rows = [], 0
    if step:
        yield step


def _side_output(lake: Lake, metric: MetricContract, step: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of deliveries that are listed for manual handling, in the order of arrival."""
    where: table_io.Where = {
        "metric": [metric.name],
        "arrival_date": {delivery["arrival_date"] for delivery in step},
        "ingestion_id": [delivery["ingestion_id"] for delivery in step],
        "action": [LateAction.SIDE_OUTPUT.value],
    }
    rows = late_rows.read(lake, metric.source, where)
    return list(rows.sort_by([(name, "ascending") for name in ("arrival_ts", "ingestion_id", "line_number")]).to_pylist())


def _id_of(metric: MetricContract, row: dict[str, Any]) -> str:
    return f"{metric.name}:{format_row_id(row_id_of(row))}"


def _message(metric: MetricContract, row: dict[str, Any]) -> bytes:
    about = {"message_id": _id_of(metric, row), "metric": metric.name, "source": metric.source}
    shown = {name: row[name] for name in late_rows.SHOWN}
    return json.dumps(about | shown, default=lambda value: value.isoformat(), ensure_ascii=False).encode()
