"""The training function of the example: it learns what makes fraud likely, and does not care for gaps in the features."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from lakehouse.examples.card_payments.deliveries import payments, wave_country
from lakehouse.examples.card_payments.train import train

average_precision_score = pytest.importorskip("sklearn.metrics").average_precision_score


@pytest.fixture(name="frame", scope="module")
def _frame() -> pd.DataFrame:
    """Features and true labels of July to September, in the columns and types of the training set."""
    rows = [
        {
            "amount": Decimal(payment.amount),
            "channel": payment.channel,
            "country": payment.country,
            "night": int(payment.paid_at.hour < 6),
            "tier": None if number % 50 == 0 else "standard",
            "home_country": None if number % 50 == 0 else "DE",
            "country_payments": None if number < 800 else 40 if payment.country == wave_country(payment.paid_at) else 18,
            "label": int(payment.fraudulent),
        }
        for number, payment in enumerate(payments(7))
        if payment.paid_at.month < 10
    ]
    return pd.DataFrame(rows)


def test_a_model_ranks_fraud_of_a_later_month_far_above_chance(frame: pd.DataFrame) -> None:
    learned, later = frame.iloc[:5800], frame.iloc[5800:]
    scores = train(learned, {}).predict_proba(later.drop(columns="label"))[:, 1]
    assert np.isfinite(scores).all()
    assert average_precision_score(later["label"], scores) > 3 * later["label"].mean()


def test_with_fewer_inputs_it_is_another_and_a_worse_model(frame: pd.DataFrame) -> None:
    learned, later = frame.iloc[:5800], frame.iloc[5800:]
    quality = {
        name: average_precision_score(later["label"], train(learned, params).predict_proba(later)[:, 1])
        for name, params in {"all": {}, "some": {"inputs": ["log_amount", "channel"]}}.items()
    }
    assert quality["all"] > quality["some"] + 0.05


def test_the_same_frame_gives_the_same_scores(frame: pd.DataFrame) -> None:
    first, again = (train(frame, {"C": 0.1}).predict_proba(frame) for _ in range(2))
    assert np.array_equal(first, again)
