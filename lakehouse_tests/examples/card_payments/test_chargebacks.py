"""The chargebacks of the example: 1 to 60 days late, sometimes wrong, and right in the end for the summer."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from statistics import mean
from typing import TYPE_CHECKING

import pytest

from lakehouse.examples.card_payments import deliveries
from lakehouse.examples.card_payments.deliveries import payments

if TYPE_CHECKING:
    from lakehouse.examples.card_payments.deliveries import Chargeback

SEEDS = range(3)
MONTH = timedelta(days=30)


def labels(records: list[Chargeback]) -> dict[str, int]:
    """The label of each payment with a record, as the newest record has it."""
    newest = {record.payment_id: record for record in records}
    return {key: record.is_fraud for key, record in newest.items() if record.op != "delete"}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_chargeback_arrives_1_to_60_days_after_its_payment_and_one_in_five_after_a_month(seed: int) -> None:
    paid = {payment.payment_id: payment.paid_at for payment in payments(seed)}
    first = [record for record in deliveries.chargeback_history(seed) if record.op == "insert"]
    delays = [record.received_at - paid[record.payment_id] for record in first]
    assert deliveries.SOONEST <= min(delays) < max(delays) <= deliveries.LATEST
    assert max(delays) > timedelta(days=55)
    assert mean(delay > MONTH for delay in delays) == pytest.approx(0.2, abs=0.05)
    assert all(paid[record.payment_id] < record.reported_at <= record.received_at for record in first)


@pytest.mark.parametrize("seed", SEEDS)
def test_some_are_corrected_and_some_withdrawn_later_under_the_same_key(seed: int) -> None:
    by_key: dict[str, list[Chargeback]] = defaultdict(list)
    for record in deliveries.chargeback_history(seed):
        by_key[record.payment_id].append(record)
    changed = [records for records in by_key.values() if len(records) > 1]
    assert {len(records) for records in changed} == {2}
    assert len([records for records in changed if records[1].op == "correct"]) > 20
    assert len([records for records in changed if records[1].op == "delete"]) > 10
    for first, later in changed:
        assert (first.op, first.is_fraud) == ("insert", 1)
        assert later.reported_at == first.reported_at, "it is about the same report"
        assert timedelta(days=5) <= later.received_at - first.received_at <= timedelta(days=45)
        assert later.op == "delete" or later.is_fraud == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_labels_are_mostly_the_truth_in_the_end(seed: int) -> None:
    truth = {payment.payment_id: payment.fraudulent for payment in payments(seed)}
    known = labels(deliveries.chargeback_history(seed))
    noticed = [key for key, fraudulent in truth.items() if fraudulent and known.get(key)]
    assert len(noticed) / sum(truth.values()) == pytest.approx(0.85, abs=0.05)
    wrong = [key for key, label in known.items() if label and not truth[key]]
    assert 0 < len(wrong) < 0.1 * len(noticed)
    assert all(record.received_at < deliveries.HISTORY_ENDS for record in deliveries.chargeback_history(seed))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_investigation_makes_every_label_of_the_summer_right(seed: int) -> None:
    corrections = deliveries.investigated(seed)
    summer = {p.payment_id: p.fraudulent for p in payments(seed) if p.paid_at < deliveries.INVESTIGATED_UNTIL}
    after = labels([*deliveries.chargeback_history(seed), *corrections])
    assert {key: bool(after.get(key)) for key in summer} == summer
    assert len({record.payment_id for record in corrections}) == len(corrections) >= 25
    known = {record.payment_id for record in deliveries.chargeback_history(seed)}
    assert {record.op: record.payment_id in known for record in corrections} == {"insert": False, "correct": True}
    before = labels(deliveries.chargeback_history(seed))
    assert all(before.get(record.payment_id, 0) != record.is_fraud for record in corrections), "each turns a label"
