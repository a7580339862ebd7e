"""The chargebacks: reports of fraud 1 to 60 days after the payment, sometimes wrong, and their later corrections.

A payment without a chargeback counts as good, which is wrong for unnoticed fraud. An investigation corrects the labels of the
summer long afterwards: see :func:`investigated`.
"""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, NamedTuple

from lakehouse.examples.card_payments.payments import payments

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakehouse.examples.card_payments.payments import Payment

#: Records that arrive from this time on are not part of the history; its last file is of the day before.
HISTORY_ENDS = datetime(2025, 2, 1, tzinfo=timezone.utc)
#: The investigation covers payments before the first time; its result arrives at the second.
INVESTIGATED_UNTIL = datetime(2024, 9, 1, tzinfo=timezone.utc)
INVESTIGATION_ARRIVES = datetime(2025, 2, 10, 9, tzinfo=timezone.utc)
SOONEST, LATEST = timedelta(days=1), timedelta(days=60)
_USUAL_DAYS = 18
_UNNOTICED = 0.15
# Shares of good payments: charged back as fraud by mistake, and disputed for another reason.
_MISTAKEN, _OTHER_DISPUTE = 0.006, 0.004
# Outcomes of a mistake.
_CORRECTED, _WITHDRAWN = 0.5, 0.8


class Chargeback(NamedTuple):
    """A record of a file. ``is_fraud`` is 1 for fraud, and 0 for another dispute or a mistake."""

    payment_id: str
    is_fraud: int
    reason: str
    reported_at: datetime
    received_at: datetime
    op: str


def history(seed: int) -> list[Chargeback]:
    """The records that arrive before the end of the history, in order of arrival; the same for the same seed."""
    chance = random.Random(f"chargebacks {seed}")  # noqa: S311 (an example, no secret)
    records = [record for payment in payments(seed) for record in _records(chance, payment)]
    arrived = (record for record in records if record.received_at < HISTORY_ENDS)
    return sorted(arrived, key=lambda record: (record.received_at, record.payment_id))


def investigated(seed: int) -> list[Chargeback]:
    """The corrections from the investigation: one for every label of the summer that is wrong at the end of the history."""
    newest = {record.payment_id: record for record in history(seed)}
    corrections = []
    for payment in sorted(payments(seed), key=lambda payment: payment.payment_id):
        known = newest.get(payment.payment_id)
        label = known.is_fraud if known is not None and known.op != "delete" else 0
        if payment.paid_at >= INVESTIGATED_UNTIL or label == payment.fraudulent:
            continue
        reported = known.reported_at if known is not None else INVESTIGATION_ARRIVES - timedelta(days=1)
        op = "correct" if known is not None else "insert"
        corrections.append(
            Chargeback(payment.payment_id, int(payment.fraudulent), "investigation", reported, INVESTIGATION_ARRIVES, op)
        )
    return corrections


def _records(chance: random.Random, payment: Payment) -> Iterator[Chargeback]:
    """The records about a payment; most payments have none."""
    fate, later_fate = chance.random(), chance.random()
    delay = SOONEST + min(timedelta(days=chance.expovariate(1 / _USUAL_DAYS)), LATEST - SOONEST - timedelta(hours=1))
    received = _second(payment.paid_at + delay)
    reported = _second(payment.paid_at + delay * chance.uniform(0.7, 1))
    later = _second(received + timedelta(days=chance.uniform(5, 45)))
    if payment.fraudulent:
        if fate >= _UNNOTICED:
            yield Chargeback(payment.payment_id, 1, "fraud", reported, received, "insert")
        return
    if fate < _OTHER_DISPUTE:
        yield Chargeback(payment.payment_id, 0, "not_as_described", reported, received, "insert")
    elif fate < _OTHER_DISPUTE + _MISTAKEN:
        mistake = Chargeback(payment.payment_id, 1, "fraud", reported, received, "insert")
        yield mistake
        if later_fate < _CORRECTED:
            yield mistake._replace(is_fraud=0, reason="recognised", received_at=later, op="correct")
        elif later_fate < _WITHDRAWN:
            yield mistake._replace(received_at=later, op="delete")


def _second(moment: datetime) -> datetime:
    return moment.replace(microsecond=0)
