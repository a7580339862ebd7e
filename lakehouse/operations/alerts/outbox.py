"""The due messages about alerts and their targets: one per alert, or a digest if a kind has many alerts.

A digest is recorded before it is sent, so that it is the same message if it is repeated after a failure. ``log`` has the record,
``messages`` the texts, ``delivery`` sends.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, get_args

from lakehouse.operations.alerts import log, messages, routing
from lakehouse.operations.delivery import PendingMessage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lakehouse.operations.alerts.alert import AlertKind
    from lakehouse.operations.alerts.log import AlertRecord, Transition
    from lakehouse.operations.channels import Target
    from lakehouse.settings import Settings

#: Up to this many alerts of a kind are sent to a target individually.
SINGLY = 5


@dataclass
class _Bundle:
    """The alerts of a message, and the targets that have not received it."""

    members: dict[str, AlertRecord] = field(default_factory=dict)
    targets: dict[str, Target] = field(default_factory=dict)

    def add(self, record: AlertRecord, target: Target) -> None:
        self.members[record.alert_id] = record
        self.targets[target.name] = target


def pending(settings: Settings, records: Sequence[AlertRecord], targets: Mapping[str, Target]) -> list[PendingMessage]:
    """The messages that targets have not received: openings first, then escalations, then resolutions; the oldest alert first.

    No message is sent about a snoozed alert, or to a target that is no longer configured.
    """
    now = settings.clock()
    awake = [record for record in records if not routing.is_snoozed(record, now)]
    return [message for transition in get_args(log.Transition) for message in _of(settings, awake, transition, targets)]


def _of(
    settings: Settings, records: Sequence[AlertRecord], transition: Transition, targets: Mapping[str, Target]
) -> Iterator[PendingMessage]:
    """The messages about a transition."""
    singles, digests = defaultdict[str, _Bundle](_Bundle), defaultdict[str, _Bundle](_Bundle)
    undecided: dict[tuple[str, AlertKind], list[AlertRecord]] = defaultdict(list)
    for (name, known), waiting in _by_target(records, transition, targets).items():
        # The rest of a digest after one of its alerts was snoozed is another message.
        if known is not None and known == _digest_id(waiting, transition):
            for record in waiting:
                digests[known].add(record, targets[name])
        else:
            for record in waiting:
                undecided[name, record.alert.kind].append(record)
    fresh: set[str] = set()
    for (name, _), waiting in undecided.items():
        digest_id = _digest_id(waiting, transition) if len(waiting) > SINGLY else None
        fresh |= {digest_id} if digest_id else set()
        for record in waiting:
            bundle = digests[digest_id] if digest_id else singles[record.alert_id]
            bundle.add(record, targets[name])
    log.record_digests(settings, {key: (transition, [*digests[key].targets], [*digests[key].members]) for key in sorted(fresh)})
    for bundle in singles.values():
        (record,) = bundle.members.values()
        delivered = partial(log.record_delivery, settings, [record], transition)
        yield PendingMessage(messages.message(record, transition), [*bundle.targets.values()], delivered)
    for key, bundle in digests.items():
        members = [*bundle.members.values()]
        delivered = partial(log.record_delivery, settings, members, transition, digest=key)
        yield PendingMessage(messages.digest(key, members, transition), [*bundle.targets.values()], delivered)


def _by_target(
    records: Sequence[AlertRecord], transition: Transition, targets: Mapping[str, Target]
) -> Mapping[tuple[str, str | None], list[AlertRecord]]:
    """The alerts that a target has not received, by the target and by the digest in which they were recorded, if any."""
    waiting: dict[tuple[str, str | None], list[AlertRecord]] = defaultdict(list)
    for record in records:
        for name in record.waiting(transition):
            if name in targets:
                waiting[name, record.digests.get((transition, name))].append(record)
    return waiting


def _digest_id(records: Sequence[AlertRecord], transition: Transition) -> str:
    """The id of a digest, which is the same for the same alerts."""
    members = "\n".join(sorted(record.alert_id for record in records))
    return f"{hashlib.sha256(members.encode()).hexdigest()[:16]}:{transition}"
