"""The plain model of the example with card payments: what was known of a payment when it happened, and of its label at a time."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING

from lakehouse.calendar.days import replay_clock
from lakehouse.examples.card_payments import deliveries
from lakehouse.examples.card_payments.deliveries import payments

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakehouse.examples.card_payments.deliveries import Chargeback

#: Of a payment: tier and country of the cardholder, and the payments of the country on the newest day that was published.
Known = tuple[str, str, int | None]


def known_then(seed: int) -> dict[str, Known]:
    """For each payment what was known when it happened."""
    made = payments(seed)
    by_holder = defaultdict(list)
    for change in deliveries.cardholder_changes(seed):
        by_holder[change.customer_id].append(change)
    days = [date.fromisoformat(name[len("arrival_date=") :][:10]) for name in deliveries.files(seed)[deliveries.PAYMENTS]]
    counts = {day: _counts_of_last_day(seed, day) for day in days}
    known: dict[str, Known] = {}
    for payment in made:
        at = payment.paid_at
        changes = [change for change in by_holder[payment.customer_id] if max(change.changed_at, change.received_at) <= at]
        holder = max(changes, key=lambda change: change.changed_at)
        published = [day for day in days if replay_clock(day) <= at]
        count = counts[published[-1]][payment.country] if published else None
        known[payment.payment_id] = (holder.tier, holder.country, count)
    return known


def labels(records: Iterable[Chargeback], until: datetime) -> dict[str, int]:
    """The label of each payment with a record that had arrived by a time."""
    newest = {record.payment_id: record for record in records if record.received_at <= until}
    return {key: record.is_fraud for key, record in newest.items() if record.op != "delete"}


def all_records(seed: int) -> list[Chargeback]:
    """The chargebacks of the history, then those of the investigation."""
    return [*deliveries.chargeback_history(seed), *deliveries.investigated(seed)]


def _counts_of_last_day(seed: int, delivered: date) -> Counter[str]:
    """The payments by country of the day before a delivery, as far as they had arrived."""
    begins = datetime.combine(delivered, datetime.min.time(), timezone.utc)
    day = delivered - timedelta(days=1)
    return Counter(
        payment.country for payment in payments(seed) if payment.paid_at.date() == day and payment.received_at < begins
    )
