"""Telling consumers of restated numbers: one sensor finds what there is to tell, sends it, and lets the audit follow.

Which publications are told and how the audit follows is in ``operations.notices.pending``, how a message is delivered in
``targets``.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import TYPE_CHECKING

import dagster as dg

from lakehouse.delta.table_cache import with_table_cache
from lakehouse.operations.channels import DeliveryError, Message, targets
from lakehouse.operations.notices import log as ledger
from lakehouse.operations.notices import pending as notice_pending

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehouse.contracts import Catalog
    from lakehouse.operations.channels import Target
    from lakehouse.operations.notices.log import Entry
    from lakehouse.settings import Settings

#: So long a target is given new messages in one tick of the sensor: one that does not answer must not use up the tick.
_SECONDS = 10.0


@dataclass(frozen=True)
class Told:
    """What was done: notices delivered, still waiting, audit rows that say so now, and what went wrong."""

    delivered: int
    waiting: int
    audited: int
    problems: list[str]

    def __str__(self) -> str:
        if not (self.delivered or self.waiting or self.audited):
            return "every consumer has been told"
        return f"notices delivered: {self.delivered}, waiting: {self.waiting}; audit rows that say so now: {self.audited}"


def tell(settings: Settings, catalog: Catalog, to: Sequence[Target], seconds: float = inf) -> Told:
    """Tell consumers what they have not been told yet; doing it again tells nothing twice.

    A target that fails is tried again the next time, with the same message, and keeps no other from being told.

    :param seconds: after so long a target gets no further message this time.
    """
    settings = with_table_cache(settings)
    audiences, problems = notice_pending.audiences(settings, catalog)
    notice_pending.find(settings, audiences, [target.name for target in to])
    waiting = notice_pending.waiting(settings)
    delivered = 0
    for target in to:
        count, failed = _deliver(settings, target, [entry for entry in waiting if entry.target == target.name], seconds)
        delivered += count
        problems += failed
    return Told(delivered, len(waiting) - delivered, notice_pending.follow_in_audit(settings, catalog, audiences), problems)


def notices_sensor(settings: Settings, catalog: Catalog) -> dg.SensorDefinition:
    """Tells the consumers of all metrics; it starts no runs."""

    @dg.sensor(
        name="notices",
        minimum_interval_seconds=max(60, settings.sensor_seconds),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Consumers named in a contract are told of each restatement of its numbers, and the audit says so.",
    )
    def sense(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        told = tell(settings, catalog, targets(settings), _SECONDS)
        for problem in told.problems:
            context.log.error(problem)
        return dg.SkipReason("; ".join([f"{told}", *told.problems]))

    return sense


def _deliver(settings: Settings, target: Target, entries: Sequence[Entry], seconds: float) -> tuple[int, list[str]]:
    """Send what waits for a target, oldest first; each is recorded before the next one is sent."""
    started, count, problems = monotonic(), 0, []
    for entry in entries:
        if monotonic() - started >= seconds:
            break
        try:
            target.send(Message(entry.message_id, entry.subject, entry.text, [entry.consumer], entry.data))
        except DeliveryError as problem:
            problems.append(f"{problem}")
            continue
        ledger.delivered(settings, entry, settings.clock())
        count += 1
    return count, problems
