"""One run of notifying consumers: creates notices, sends waiting ones, and records the audit rows of silver that they cover.

``pending`` selects publications and audit rows, ``rejections`` selects stewards' decisions; ``log`` has the record of notices.
``late_outputs`` sends the side output of metrics with a topic. The sensor ``notices`` and ``lakehouse alerts notices --send``
start a run.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from lakehouse.operations.channels import Message
from lakehouse.operations.delivery import AfterFailure, PendingMessage, deliver
from lakehouse.operations.notices import late_outputs, log, pending, rejections
from lakehouse.operations.notices.rejections import SourceOwner

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakehouse.contracts import Catalog
    from lakehouse.lake import Lake
    from lakehouse.operations.channels import Target
    from lakehouse.operations.delivery import Directory
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
    late = late_outputs.send(lake, catalog, seconds)
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
