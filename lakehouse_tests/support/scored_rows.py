"""Models, sets and scored rows for tests of backtests and canaries: seeded, without Spark."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

from lakehouse.contracts import Catalog
from lakehouse.contracts.model import ModelContract
from lakehouse.contracts.source import SourceContract
from lakehouse.contracts.training_set import TrainingSetContract

if TYPE_CHECKING:
    from collections.abc import Sequence

DAY = date(2024, 10, 1)


def set_contract(**changes: Any) -> TrainingSetContract:
    """A set of payments with the features ``amount`` and ``country``."""
    fields: dict[str, Any] = {
        "training_set": "payments_set",
        "entity": {"source": "events"},
        "features": {"columns": ["amount", "country"]},
        "label": {"source": "chargebacks", "on": "id", "sql": "max(is_fraud)", "default": 0, "maturity": "P60D"},
        "split": {"train": "2024-06-01", "test": "2024-09-01"},
    }
    return TrainingSetContract.model_validate({**fields, **changes})


def model_contract(**changes: Any) -> ModelContract:
    """A model of fraud without acceptance rules."""
    fields: dict[str, Any] = {"model": "fraud", "training_set": "payments_set", "train": "models_of_tests:train"}
    return ModelContract.model_validate({**fields, **changes})


def payments(count: int, *, first: date = DAY, days: int = 60, seed: int = 0, shift: float = 0) -> pa.Table:
    """Rows as a set has them, without a split: the greater the amount, the likelier the label 1.

    :param shift: is added to every amount.
    """
    random = np.random.default_rng(seed)
    start = datetime(first.year, first.month, first.day, tzinfo=timezone.utc)
    times = [start + timedelta(days=int(day), seconds=int(second)) for day, second in _moments(random, count, days)]
    amounts = random.gamma(2, 50, count) + shift
    labels = (random.random(count) < 1 / (1 + np.exp((150 - amounts) / 30))).astype(int)
    return pa.table(
        {
            "record_key": pa.array([f"p{at}" for at in range(count)]),
            "event_ts": pa.array(times, pa.timestamp("us", "UTC")),
            "amount": pa.array(amounts),
            "country": pa.array(random.choice(["CH", "DE", "FR"], count, p=[0.7, 0.28, 0.02]).tolist()),
            "label": pa.array(labels, pa.int32()),
            "label_known_at": pa.array([time + timedelta(days=60) for time in times], pa.timestamp("us", "UTC")),
        }
    )


def event_days(first: date, count: int) -> Sequence[date]:
    """Days that follow each other."""
    return [first + timedelta(days=at) for at in range(count)]


def _moments(random: np.random.Generator, count: int, days: int) -> list[list[int]]:
    moments: list[list[int]] = np.stack([random.integers(0, days, count), random.integers(0, 86_400, count)], axis=1).tolist()
    return moments


def events(count: int, *, days: int = 1, seed: int = 0, shift: float = 0, first: date = DAY) -> pa.Table:
    """The same as they are scored: with their event day, and without labels."""
    rows = payments(count, first=first, days=days, seed=seed, shift=shift).drop_columns(["label", "label_known_at"])
    return rows.append_column("event_date", rows["event_ts"].cast(pa.date32()))


def constant_model(score: float) -> Any:
    """A model that gives every row the same score."""
    rows = round(1 / min(score, 1 - score)) if 0 < score < 1 else 1
    labels = [1] * round(score * rows) + [0] * (rows - round(score * rows))
    return DummyClassifier(strategy="prior").fit(np.zeros((len(labels), 1)), labels)


def linear_model(seed: int = 1) -> Any:
    """A model that has learned from amounts."""
    rows = payments(800, seed=seed)
    return LogisticRegression().fit(rows.select(["amount"]).to_pandas(), rows["label"].to_numpy())


def catalog(contract: ModelContract, of_set: TrainingSetContract | None = None, zone: str = "UTC") -> Catalog:
    """The contracts of a model, its set, and the source of its events."""
    source = SourceContract.model_validate(
        {
            "dataset": "events",
            "primary_key": ["id"],
            "model": {"fields": [{"name": "id", "type": "string"}, {"name": "amount", "type": "double"}]},
            "source": {"landing": "arrival_date={arrival_date}*", "start_date": "2024-01-01"},
            "clocks": {"event": "event_time", "arrival": "arrived_at", "timezone": zone},
        }
    )
    of_set = of_set or set_contract()
    return Catalog({"events": source}, {}, {of_set.name: of_set}, {contract.name: contract})
