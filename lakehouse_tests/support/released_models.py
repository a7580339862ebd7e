"""A lake with released labels, training sets and three versions of a model, for the pages and the API: no Spark, no MLflow.

v2.4 replaced v2.3 after a backtest and a canary; v2.5 is in a canary. The lake is made from seeded numbers.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake

from lakehouse import locations
from lakehouse.contracts import Catalog, ModelContract, TrainingSetContract
from lakehouse.delta import leases
from lakehouse.gold.promotion.promotion_log import PromotionKind
from lakehouse.lake import Lake
from lakehouse.models import backtest_log, canary_log, comparison, promotion_log
from lakehouse.models.backtest_log import Backtest, BacktestResult, reading_result
from lakehouse.models.canary_log import CanaryEntry, CanaryEvent, CanaryOutcome
from lakehouse.models.promotion_log import ModelPromotion, PromotionStep
from lakehouse.settings import Settings
from lakehouse.snapshots import input_sets
from lakehouse.training_sets import build, releases
from lakehouse.training_sets.releases import Release, ReleaseEvent, ReleaseKind

if TYPE_CHECKING:
    from collections.abc import Mapping

SET = TrainingSetContract.model_validate(
    {
        "training_set": "training_data",
        "entity": {"source": "payments"},
        "features": {
            "columns": ["amount", "channel", {"name": "night", "sql": "if(hour(event_ts) < 6, 1, 0)", "type": "int"}],
            "joins": [{"dimension": "cardholders", "on": "customer_id", "columns": ["tier"]}],
            "metrics": [{"metric": "payments_by_country", "on": {"country": "country"}, "columns": ["payments"]}],
        },
        "label": {"source": "chargebacks", "on": "payment_id", "sql": "max(is_fraud)", "default": 0, "maturity": "P60D"},
        "split": {"train": "2024-06-01", "test": "2024-08-15"},
    }
)
MODEL = ModelContract.model_validate(
    {
        "model": "fraud",
        "description": "The probability that a payment is fraudulent.",
        "owner": "fraud-team",
        "training_set": "training_data",
        "train": "shop_models.fraud:train",
        "metrics": ["average_precision", "log_loss", "roc_auc"],
        "acceptance": [{"metric": "average_precision", "better_by": 0.01}, {"metric": "log_loss", "not_worse_than": 0.01}],
    }
)
CATALOG = Catalog(training_sets={"training_data": SET}, models={"fraud": MODEL})
_FEATURES = {
    "amount": {"source": "payments", "sql": "amount", "contract_version": "b2a4c9e01d77"},
    "channel": {"source": "payments", "sql": "channel", "contract_version": "b2a4c9e01d77"},
    "night": {"source": "payments", "sql": "if(hour(event_ts) < 6, 1, 0)", "contract_version": "b2a4c9e01d77"},
    "tier": {"dimension": "cardholders", "column": "tier", "contract_version": "90c1d2f3a4b5"},
    "payments": {
        "metric": "payments_by_country",
        "measure": "payments",
        "dataset_version": 1,
        "contract_version": "4e1f0a77c2d9",
    },
}
ROWS = 4_000


def released_models(folder: Path, *, text: str = "") -> Lake:
    """A lake with all of it; ``text`` is part of every note that a person has written."""
    lake = Lake(Settings(root=str(folder / "lake"), bundled_contracts=False)).cached()
    lake.settings.now = _at("2024-09-30T08:00")
    for number, version in enumerate(("v2.0", "v3.0")):
        inputs = input_sets.record(lake, "chargebacks", [f"file{entry}" for entry in range(8 + number)], lake.now())
        about = {"snapshot": version, "inputs": inputs, "until": None, "contract_version": "77d1c0b9e2aa"}
        _release(lake, ReleaseKind.LABELS, "chargebacks", version, f"what was known then {text}".rstrip(), about)
    _release_set(lake, "v4.0", "v2.0", f"labels of the second quarter {text}".rstrip(), 1)
    _release_model(lake, "v2.3", "v4.0", f"first version with the tier of the cardholder {text}".rstrip(), 0.84)
    lake.settings.now = _at("2024-10-01T08:00")
    _promote(lake, 1, None, "v2.3", f"the rules of thumb miss half of it {text}".rstrip())
    lake.settings.now = _at("2024-12-02T08:00")
    _release_set(lake, "v5.0", "v3.0", f"corrected chargebacks of the third quarter {text}".rstrip(), 2)
    _release_model(lake, "v2.4", "v5.0", f"learns from the corrected labels {text}".rstrip(), 0.88)
    lake.settings.now = _at("2024-12-02T09:30")
    backtest = _backtest(lake, "v2.4", "v2.3", 0.9)
    _canary(lake, 1, "v2.4", "v2.3", f"a fifth of the cards {text}".rstrip(), CanaryOutcome.MET, 412)
    lake.settings.now = _at("2024-12-16T07:45")
    _promote(lake, 2, "v2.3", "v2.4", f"better on October and November, and in its canary {text}".rstrip(), backtest.title)
    releases.deprecate(lake, ReleaseKind.MODEL, "fraud", "v2.3", by="ben", notes=f"replaced by v2.4 {text}".rstrip())
    _release_model(lake, "v2.5", "v5.0", f"a deeper tree {text}".rstrip(), 0.87)
    _backtest(lake, "v2.5", "v2.4", 0.0)
    _canary(lake, 2, "v2.5", "v2.4", f"to see whether it holds up {text}".rstrip(), None, None)
    return lake


def _release(lake: Lake, kind: ReleaseKind, name: str, version: str, notes: str, about: Mapping[str, Any]) -> None:
    known_at = None if kind is ReleaseKind.MODEL else lake.now() - timedelta(hours=2)
    releases.release(lake, Release(name, kind, version, ReleaseEvent.RELEASED, notes, "anna", lake.now(), known_at, about))


def _release_set(lake: Lake, version: str, labels: str, notes: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    amounts = np.round(random.lognormal(3.4, 0.9, ROWS), 2)
    payments = random.poisson(140, ROWS)
    columns = {
        "amount": _numbers(amounts),
        "channel": {"nulls": 0.0, "distinct": 3, "frequent": {"chip": 2_310, "online": 1_402, "contactless": 288}},
        "night": _numbers((random.random(ROWS) < 0.11).astype(float)),
        "tier": {"nulls": 0.021, "distinct": 2, "frequent": {"standard": 3_204, "gold": 712}},
        "payments": {**_numbers(payments.astype(float)), "nulls": 0.004},
        "label": _numbers((random.random(ROWS) < 0.06).astype(float)),
    }
    keys = [f"p{number}" for number in range(ROWS)]
    first = datetime(2024, 6, 1, tzinfo=timezone.utc)
    times = pa.array([first + timedelta(minutes=40 * number) for number in range(ROWS)], pa.timestamp("us", "UTC"))
    table = pa.table({"record_key": keys, "event_ts": times, "key_payment_id": keys})
    write_deltalake(locations.training_set(lake, "training_data", version).address, table)
    about = {
        "labels": {"source": "chargebacks", "version": labels},
        "inputs": {"payments": {"inputs": f"3f1c0b9a7d2e4f6{seed}", "until": None}},
        "published_until": (lake.now() - timedelta(hours=2)).isoformat(),
        "mature_by": lake.now().isoformat(),
        "rows": ROWS,
        "time": {
            "train": {"rows": 2_700, "from": "2024-06-01T00:00:00+00:00", "to": "2024-08-14T23:20:00+00:00"},
            "test": {"rows": 1_300, "from": "2024-08-15T00:00:00+00:00", "to": "2024-09-20T02:00:00+00:00"},
        },
        "content_hash": f"{ROWS}-8812{seed}40917-1290{seed}77123",
        "columns": columns,
        "features": _FEATURES,
        "code_version": "0.1.0",
        "contract_version": "c07a51fd2be4",
        "contract": SET.model_dump(mode="json"),
    }
    _release(lake, ReleaseKind.TRAINING_SET, "training_data", version, notes, about)


def _numbers(values: Any) -> dict[str, Any]:
    return build.distribution(pa.chunked_array([pa.array(values)]))


def _release_model(lake: Lake, version: str, set_version: str, notes: str, quality: float) -> None:
    of_set = releases.find(lake, ReleaseKind.TRAINING_SET, "training_data", set_version)
    kept = ("labels", "time", "rows", "content_hash", "published_until", "contract_version", "code_version")
    about = {
        "identity": version,
        "training_set": {"name": "training_data", "version": set_version, "full_name": of_set.full_name}
        | {name: of_set.about[name] for name in kept},
        "features": _FEATURES,
        "feature_names": SET.features.names,
        "function": "shop_models.fraud:train",
        "parameters": {"max_depth": 3 if version != "v2.5" else 5, "learning_rate": 0.1},
        "code": {"training": "5b1f77aa90c3", "lakehouse": "0.1.0"},
        "contract_version": "61ab90c1d2f3",
        "predicts": "probability",
        "model_class": "sklearn.ensemble.HistGradientBoostingClassifier",
        "fit_on": "train",
        "evaluated_on": "test",
        "part_rows": {"train": 2_700, "test": 1_300},
        "metrics": {
            "train": {"roc_auc": quality + 0.05, "average_precision": quality - 0.2, "log_loss": 0.098},
            "test": {"roc_auc": quality, "average_precision": quality - 0.27, "log_loss": None if version == "v2.3" else 0.1121},
        },
        "mlflow": {"version": version[-1], "run_id": "6f0e8b7c2d1a4e93b5c07f12a8d4e6b1"},
    }
    _release(lake, ReleaseKind.MODEL, "fraud", version, notes, about)


def _backtest(lake: Lake, version: str, against: str, gain: float) -> Backtest:
    """A backtest on payments of October and November; with a ``gain`` above 0 the scores of ``version`` are better."""
    random = np.random.default_rng(7)
    count = 3_000
    labels = (random.random(count) < 0.06).astype(np.float64)
    first = datetime(2024, 10, 1, tzinfo=timezone.utc)
    times = [first + timedelta(minutes=29 * number) for number in range(count)]
    rows = pa.table({"event_ts": pa.array(times, pa.timestamp("us", "UTC")), "label": labels})
    champion, challenger = (_scores(random, labels, 1.4 + more) for more in (0.0, gain))
    pair = comparison.scored_pair(rows, champion, challenger, "UTC")
    reading = reading_result(MODEL, MODEL.acceptance, pair, ["2024-10", "2024-11"], resamples=200, seed=1)
    result = BacktestResult(
        "fraud", version, against, "as_known", {"as_known": reading}, resamples=200, seed=1, rules=MODEL.rules
    )
    entry = Backtest(
        model="fraud",
        version=version,
        against=against,
        first_month="2024-10",
        last_month="2024-11",
        known_at=lake.now(),
        passed=result.passed,
        failed=[verdict.text for verdict in result.failed],
        results=result.stored(),
        report=f"{locations.model_reports(lake, 'fraud', version)}/backtests/{against}_2024-10_2024-11",
        by="anna",
        recorded_at=lake.now(),
    )
    backtest_log.log(lake).append([entry])
    return entry


def _scores(random: Any, labels: Any, apart: float) -> Any:
    """Probabilities that tell the labels apart by so many standard deviations."""
    evidence = random.normal(0, 1, len(labels)) + apart * labels
    return 1 / (1 + np.exp(3.2 + apart**2 / 2 - apart * evidence))


def _canary(
    lake: Lake,
    number: int,
    challenger: str,
    champion: str,
    reason: str,
    outcome: CanaryOutcome | None,
    labels: int | None,
) -> None:
    terms: Any = {"share": "0.2", "salt": "fraud", "by": "anna", "reason": reason, "recorded_at": lake.now()}
    started = CanaryEntry("fraud", number, CanaryEvent.STARTED, challenger, champion, **terms)
    assert canary_log.start(lake, started)
    if outcome is not None:
        later: Any = {"recorded_at": lake.now() + timedelta(days=12), "outcome": outcome, "labels": labels}
        canary_log.judge(lake, CanaryEntry(**{**vars(started), **later, "event": CanaryEvent.JUDGED, "reason": ""}))
        at_its_end = lake.with_settings(now=later["recorded_at"])
        canary_log.stop_running(at_its_end, "fraud", by="anna", reason=reason)


def _promote(lake: Lake, number: int, before: str | None, version: str, notes: str, backtest: str | None = None) -> None:
    entry = ModelPromotion(
        model="fraud",
        number=number,
        step=PromotionStep.BEGUN,
        kind=PromotionKind.PROMOTE,
        from_version=before,
        to_version=version,
        by="anna",
        notes=notes,
        recorded_at=lake.now(),
        process=leases.this_process(),
        expires_at=lake.now(),
        backtest=backtest,
        release_notes=f"# fraud {version}\n",
    )
    assert promotion_log.begin(lake, entry)
    promotion_log.end(lake, entry, done=True)


def _at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc)
