"""Seeded card payments, their cardholders and chargebacks, and the files in which they are delivered.

Payments are delivered every second Monday, cardholders and chargebacks at the end of a month. A file holds the rows that arrived
since the previous file; each row has its own arrival time.

Cardholders have a history of country and tier; changes arrive up to weeks late. Some payments are fraudulent, with the causes
given here. A chargeback reports fraud 1 to 60 days after the payment, sometimes wrongly, and may be corrected later. A payment
without a chargeback counts as good, which is wrong for unnoticed fraud. An investigation corrects the labels of the summer long
afterwards: see :func:`investigated`.
"""

from __future__ import annotations

import csv
import io
import math
import random
from bisect import bisect_right
from datetime import date, datetime, timedelta, timezone
from functools import lru_cache
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

#: The first day of a delivery.
HISTORY_BEGINS = date(2024, 6, 30)
_FORTNIGHT = timedelta(days=14)
PAYMENTS, CARDHOLDERS, CHARGEBACKS = "payments", "cardholders", "chargebacks"
METRIC, TRAINING_SET, MODEL = "payments_by_country", "training_data", "fraud"


def contracts() -> dict[str, str]:
    """The contracts, as file name to text."""
    folder = resources.files("lakehouse.examples.card_payments") / "contracts"
    texts = {entry.name: entry.read_text(encoding="utf-8") for entry in folder.iterdir() if entry.name.endswith(".yaml")}
    return dict(sorted(texts.items()))


def files(seed: int) -> dict[str, dict[str, str]]:
    """The files of each source, as file name to text; the same for the same seed."""
    of_payments = [fields[:-1] for fields in payments(seed)]  # no file contains the truth
    at_payments = Payment._fields.index("received_at")
    at_holders = CardholderChange._fields.index("received_at")
    return {
        CARDHOLDERS: _by_delivery(CardholderChange._fields, cardholder_changes(seed), at_holders, _month_end),
        PAYMENTS: _by_delivery(Payment._fields[:-1], of_payments, at_payments, _second_monday),
        CHARGEBACKS: _chargebacks(chargeback_history(seed)),
    }


def correction(seed: int) -> dict[str, str]:
    """The only delivery of chargebacks after the history, as file name to text: the result of the investigation."""
    records = investigated(seed)
    return {_name(INVESTIGATION_ARRIVES.date()): _text(Chargeback._fields, records)}


def _chargebacks(records: Sequence[Chargeback]) -> dict[str, str]:
    return _by_delivery(Chargeback._fields, records, Chargeback._fields.index("received_at"), _month_end)


def _by_delivery(
    header: Sequence[str], rows: Iterable[tuple[object, ...]], at: int, delivered: Callable[[datetime], date]
) -> dict[str, str]:
    """Group rows by delivery, as file name to text.

    :param at: the position of the arrival time in a row.
    :param delivered: the delivery day of a row that arrives at a time.
    """
    by_day: dict[date, list[tuple[object, ...]]] = {}
    for row in rows:
        moment = row[at]
        assert isinstance(moment, datetime)  # noqa: S101 (the caller names the column)
        by_day.setdefault(delivered(moment), []).append(row)
    return {_name(day): _text(header, by_day[day]) for day in sorted(by_day)}


def _second_monday(moment: datetime) -> date:
    fortnights = (moment - FIRST_DAY) // _FORTNIGHT + 1
    return (FIRST_DAY + fortnights * _FORTNIGHT).date()


def _month_end(moment: datetime) -> date:
    """The last day of the month; rows that arrive on it are delivered with it."""
    in_next = moment.date().replace(day=28) + timedelta(days=4)
    return in_next - timedelta(days=in_next.day)


def _name(day: date) -> str:
    return f"arrival_date={day}.csv"


def _text(header: Sequence[str], rows: Iterable[tuple[object, ...]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        writer.writerow([f"{value:%Y-%m-%dT%H:%M:%SZ}" if isinstance(value, datetime) else value for value in row])
    return out.getvalue()


FIRST_DAY = datetime(2024, 7, 1, tzinfo=timezone.utc)
#: No payment happens from this time on.
END = datetime(2024, 12, 1, tzinfo=timezone.utc)

CARDHOLDER_COUNT = 500

COUNTRIES = ("AT", "DE", "FR", "NL")
_LISTED, _JOINED = FIRST_DAY - timedelta(hours=18), FIRST_DAY - timedelta(days=181)
_TIERS, _TIER_WEIGHTS = ("new", "standard", "premium"), (2, 5, 2)
_MOVES = 0.10
_ESTABLISHED = 0.8
_KNOWN_AFTER_DAYS = 21


class CardholderChange(NamedTuple):
    """A record of a file: the country and tier of a cardholder from a time on."""

    customer_id: str
    country: str
    tier: str
    changed_at: datetime
    received_at: datetime


def cardholder_changes(seed: int) -> list[CardholderChange]:
    """The list of all cardholders, then their changes in the order of arrival; the same for the same seed.

    Every cardholder is listed before the first payment. A cardholder changes at most once, and the change arrives up to three
    weeks later.
    """
    chance = random.Random(f"cardholders {seed}")  # noqa: S311 (an example, no secret)
    listed = [
        CardholderChange(f"C{number:04}", chance.choice(COUNTRIES), chance.choices(_TIERS, _TIER_WEIGHTS)[0], _JOINED, _LISTED)
        for number in range(CARDHOLDER_COUNT)
    ]
    later = [change for holder in listed for change in _changes(chance, holder)]
    return [*listed, *sorted(later, key=lambda change: (change.received_at, change.customer_id))]


def _changes(chance: random.Random, holder: CardholderChange) -> list[CardholderChange]:
    """The single later change of a cardholder, or none: a move to another country, or the end of the tier "new"."""
    changed = FIRST_DAY + timedelta(seconds=chance.randrange(int((END - FIRST_DAY).total_seconds())))
    known = changed + timedelta(days=chance.randrange(1, _KNOWN_AFTER_DAYS), minutes=chance.randrange(60))
    moves, settles = chance.random() < _MOVES, chance.random() < _ESTABLISHED
    if known >= END:
        return []
    if moves:
        country = chance.choice([other for other in COUNTRIES if other != holder.country])
        return [holder._replace(country=country, changed_at=changed, received_at=known)]
    if holder.tier == "new" and settles:
        return [holder._replace(tier="standard", changed_at=changed, received_at=known)]
    return []


PAYMENTS_A_DAY = 72
#: In a wave, one country has this many more payments a day and much more fraud. Each wave lasts this many weeks.
WAVE_PAYMENTS, WAVE_WEEKS = 22, 6
LAST_DELIVERY = END + timedelta(days=1)
_CHANNELS, _CHANNEL_WEIGHTS = ("terminal", "online", "contactless"), (4, 3, 3)
_ABROAD, _AT_NIGHT = 0.08, 0.07
_NIGHT_ENDS, _DAY_BEGINS, _DAY_ENDS = 5, 7, 23
_OFFLINE, _OFFLINE_DAYS = 0.03, 5
# Log-odds of fraud.
_USUAL = -5.5
_LARGE, _USUAL_AMOUNT = 0.9, math.log(30)
_NIGHT, _FOREIGN, _ONLINE, _NEW, _WAVE = 1.6, 1.6, 0.9, 1.0, 1.5


class Payment(NamedTuple):
    """A payment. ``fraudulent`` is the truth, which is not in any file of payments."""

    payment_id: str
    card_id: str
    customer_id: str
    country: str
    channel: str
    amount: str
    paid_at: datetime
    received_at: datetime
    fraudulent: bool


def wave_country(day: datetime) -> str:
    """The country with a wave of fraud on ``day``; there is always one."""
    weeks = (day - FIRST_DAY).days // 7
    return COUNTRIES[weeks // WAVE_WEEKS % len(COUNTRIES)]


@lru_cache(maxsize=4)
def payments(seed: int) -> tuple[Payment, ...]:
    """All delivered payments, in order of arrival; the same for the same seed."""
    chance = random.Random(f"payments {seed}")  # noqa: S311 (an example, no secret)
    by_holder: dict[str, list[CardholderChange]] = {}
    for change in cardholder_changes(seed):
        by_holder.setdefault(change.customer_id, []).append(change)
    for known in by_holder.values():
        known.sort(key=lambda change: change.changed_at)
    holders = list(by_holder.values())
    made: list[Payment] = []
    for day in range((END - FIRST_DAY).days):
        date = FIRST_DAY + timedelta(days=day)
        for number in range(PAYMENTS_A_DAY + WAVE_PAYMENTS):
            in_wave = number >= PAYMENTS_A_DAY
            made.append(_payment(chance, date, number, chance.choice(holders), wave_country(date) if in_wave else None))
    delivered = (payment for payment in made if payment.received_at < LAST_DELIVERY)
    return tuple(sorted(delivered, key=lambda payment: (payment.received_at, payment.payment_id)))


def _payment(chance: random.Random, date: datetime, number: int, holder: list[CardholderChange], country: str | None) -> Payment:
    """:param country: the country of payment; None for the cardholder's country, or occasionally another."""
    at_night = chance.random() < _AT_NIGHT
    hours = (0, _NIGHT_ENDS) if at_night else (_DAY_BEGINS, _DAY_ENDS)
    paid = date + timedelta(seconds=chance.randrange(hours[0] * 3600, hours[1] * 3600))
    of_then = holder[max(bisect_right([change.changed_at for change in holder], paid) - 1, 0)]
    elsewhere = chance.choice([other for other in COUNTRIES if other != of_then.country])
    country = country or (elsewhere if chance.random() < _ABROAD else of_then.country)
    channel = chance.choices(_CHANNELS, _CHANNEL_WEIGHTS)[0]
    amount = round(chance.lognormvariate(_USUAL_AMOUNT, 0.8), 2)
    odds = (
        _USUAL
        + _LARGE * (math.log(max(amount, 1)) - _USUAL_AMOUNT)
        + _NIGHT * at_night
        + _FOREIGN * (country != of_then.country)
        + _ONLINE * (channel == "online")
        + _NEW * (of_then.tier == "new")
        + _WAVE * (country == wave_country(date))
    )
    fraudulent = chance.random() < 1 / (1 + math.exp(-odds))
    offline = chance.random() < _OFFLINE
    delay = timedelta(hours=chance.uniform(6, 24 * _OFFLINE_DAYS)) if offline else timedelta(seconds=chance.uniform(5, 900))
    return Payment(
        payment_id=f"P{date:%m%d}-{number:03}",
        card_id=f"{of_then.customer_id}-{chance.randrange(1, 3)}",
        customer_id=of_then.customer_id,
        country=country,
        channel=channel,
        amount=f"{amount:.2f}",
        paid_at=paid,
        received_at=(paid + delay).replace(microsecond=0),
        fraudulent=fraudulent,
    )


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


def chargeback_history(seed: int) -> list[Chargeback]:
    """The records that arrive before the end of the history, in order of arrival; the same for the same seed."""
    chance = random.Random(f"chargebacks {seed}")  # noqa: S311 (an example, no secret)
    records = [record for payment in payments(seed) for record in _records(chance, payment)]
    arrived = (record for record in records if record.received_at < HISTORY_ENDS)
    return sorted(arrived, key=lambda record: (record.received_at, record.payment_id))


def investigated(seed: int) -> list[Chargeback]:
    """The corrections from the investigation: one for every label of the summer that is wrong at the end of the history."""
    newest = {record.payment_id: record for record in chargeback_history(seed)}
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
