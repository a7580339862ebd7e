"""The payments of the example: their numbers and lateness, and what fraud depends on. Cardholders are known before they pay."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from statistics import mean
from typing import TYPE_CHECKING

import pytest

from lakehouse.examples.card_payments import deliveries
from lakehouse.examples.card_payments.deliveries import (
    END,
    FIRST_DAY,
    PAYMENTS_A_DAY,
    WAVE_PAYMENTS,
    Payment,
    payments,
    wave_country,
)

if TYPE_CHECKING:
    from collections.abc import Callable

SEEDS = range(3)


@pytest.fixture(name="made", scope="module", params=SEEDS)
def _made(request: pytest.FixtureRequest) -> tuple[Payment, ...]:
    return payments(request.param)


def test_each_day_has_its_payments_and_few_come_after_the_last_delivery(made: tuple[Payment, ...]) -> None:
    assert len({payment.payment_id for payment in made}) == len(made)
    days = Counter(payment.paid_at.date() for payment in made)
    assert (min(days), max(days)) == (FIRST_DAY.date(), END.date() - timedelta(days=1))
    assert all(count == PAYMENTS_A_DAY + WAVE_PAYMENTS for day, count in days.items() if day < END.date() - timedelta(days=5))
    assert len(made) > 0.99 * (PAYMENTS_A_DAY + WAVE_PAYMENTS) * len(days)


def test_a_few_payments_arrive_days_late_and_none_more_than_five(made: tuple[Payment, ...]) -> None:
    delays = [payment.received_at - payment.paid_at for payment in made]
    assert min(delays) > timedelta(0)
    assert max(delays) <= timedelta(days=5)
    assert mean(delay > timedelta(hours=1) for delay in delays) == pytest.approx(0.03, abs=0.006)


def test_fraud_is_rare_and_likelier_in_a_wave_at_night_online_and_for_large_amounts(made: tuple[Payment, ...]) -> None:
    assert 0.03 < mean(payment.fraudulent for payment in made) < 0.08

    def gain(condition: Callable[[Payment], bool]) -> float:
        inside = [payment.fraudulent for payment in made if condition(payment)]
        outside = [payment.fraudulent for payment in made if not condition(payment)]
        return mean(inside) / mean(outside)

    assert gain(lambda payment: payment.country == wave_country(payment.paid_at)) > 2
    assert gain(lambda payment: payment.paid_at.hour < 6) > 2
    assert gain(lambda payment: payment.channel == "online") > 1.3
    assert gain(lambda payment: float(payment.amount) > 60) > 1.5


def test_the_country_of_a_wave_has_many_more_payments_a_day_than_the_others(made: tuple[Payment, ...]) -> None:
    counts = Counter((payment.paid_at.date(), payment.country) for payment in made)
    by_wave: dict[bool, list[int]] = {True: [], False: []}
    for (day, country), count in counts.items():
        by_wave[country == wave_country(FIRST_DAY + (day - FIRST_DAY.date()))].append(count)
    assert mean(by_wave[True]) > 1.7 * mean(by_wave[False])
    assert {wave_country(payment.paid_at) for payment in made} == set(deliveries.COUNTRIES)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_cardholder_is_listed_first_and_some_changes_are_known_weeks_late(seed: int) -> None:
    changes = deliveries.cardholder_changes(seed)
    listed, later = changes[: deliveries.CARDHOLDER_COUNT], changes[deliveries.CARDHOLDER_COUNT :]
    assert len({change.customer_id for change in listed}) == deliveries.CARDHOLDER_COUNT
    assert all(change.received_at < FIRST_DAY for change in listed)
    assert len({change.customer_id for change in later}) == len(later) > 50
    known_after = [change.received_at - change.changed_at for change in later]
    assert min(known_after) >= timedelta(days=1)
    assert timedelta(days=14) < max(known_after) <= timedelta(days=21)
    before = {change.customer_id: change for change in listed}
    assert all((change.country, change.tier) != before[change.customer_id][1:3] for change in later)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_payment_at_home_is_in_the_country_that_the_cardholder_has_at_its_time(seed: int) -> None:
    by_holder: dict[str, list[deliveries.CardholderChange]] = {}
    for change in deliveries.cardholder_changes(seed):
        by_holder.setdefault(change.customer_id, []).append(change)

    def home(payment: Payment) -> str:
        known = [change for change in by_holder[payment.customer_id] if change.changed_at <= payment.paid_at]
        return max(known, key=lambda change: change.changed_at).country

    outside = [payment for payment in payments(seed) if payment.country != wave_country(payment.paid_at)]
    assert mean(payment.country != home(payment) for payment in outside) == pytest.approx(0.07, abs=0.03)
