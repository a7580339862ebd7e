"""The card payments, including fraudulent ones, and the causes of fraud.

Knowledge of fraud, and its time, belongs to ``chargebacks``.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from datetime import datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

from lakehouse.examples.card_payments.cardholders import COUNTRIES, END, FIRST_DAY, CardholderChange, changes

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
    for change in changes(seed):
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
