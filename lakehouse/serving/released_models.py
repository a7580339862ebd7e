"""The response models about datasets, models and promotions, with their examples, for the OpenAPI document."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from lakehouse.serving.models import Shape

Measures = dict[str, float | None]


class DeprecationModel(Shape):
    """The reason why a version should no longer be used, and the replacement."""

    at: datetime
    by: str
    notes: str


class DatasetVersionModel(Shape):
    """A released version of labels or of a training set."""

    name: str
    kind: Literal["labels", "training_set"]
    version: str
    full_name: str
    released_at: datetime
    released_by: str
    notes: str
    known_at: datetime | None = Field(description="The time whose knowledge it contains.")
    rows: int | None = Field(description="Of a training set; null for labels.")
    deprecated: DeprecationModel | None


class DatasetsModel(Shape):
    """The released versions, in the order of name and version."""

    datasets: list[DatasetVersionModel]


class ModelUseModel(Shape):
    """A model version trained on a set."""

    model: str
    version: str
    is_live: bool = Field(description="Whether it is the champion.")
    is_challenger: bool = Field(description="Whether a canary of it is running.")


class DatasetManifestModel(DatasetVersionModel):
    """A version with its manifest, and the versions made from it."""

    manifest: dict[str, Any] = Field(
        description="Of a training set: labels, features with definitions, sets of inputs, time ranges, rows, the distribution "
        "of each column, content hash, contract. Of labels: the snapshot and its set of inputs."
    )
    training_sets: list[str] = Field(description="Of labels: the training sets built with them, by full name.")
    models: list[ModelUseModel] = Field(description="Of a training set: the versions of models that have learned from it.")


class ChampionModel(Shape):
    """The version in use."""

    version: str
    since: datetime
    by: str
    notes: str
    training_set: str | None


class NewestBacktestModel(Shape):
    """A comparison of two versions on the same rows."""

    version: str
    against: str
    first_month: str
    last_month: str
    passed: bool
    failed: list[str] = Field(description="The acceptance rules that were not met, as sentences.")
    recorded_at: datetime


class CanaryModel(Shape):
    """The running canary."""

    challenger: str
    champion: str
    share: str = Field(description="Of the entities, as text.")
    since: datetime
    outcome: str | None = Field(description="Of the newest judgement; null before the first.")
    labels: int | None


class ModelSummaryModel(Shape):
    """A model at a glance."""

    model: str
    description: str
    owner: str
    training_set: str | None = Field(description="The contract of the set that it learns from; null without a contract.")
    versions: int
    champion: ChampionModel | None
    newest_backtest: NewestBacktestModel | None
    canary: CanaryModel | None


class ModelsModel(Shape):
    """All models."""

    models: list[ModelSummaryModel]


class ModelVersionModel(Shape):
    """A version in the list of a model's versions."""

    version: str
    state: Literal["champion", "challenger", "deprecated", "released"]
    training_set: str
    evaluated_on: str = Field(description="The part of the set that the measures are from.")
    metrics: Measures
    released_at: datetime
    released_by: str
    notes: str
    deprecated: DeprecationModel | None


class ModelDetailsModel(ModelSummaryModel):
    """A model with its versions, oldest first."""

    released: list[ModelVersionModel]


class ModelPromotionModel(Shape):
    """A promotion or rollback from or to a version."""

    kind: Literal["promote", "rollback"]
    from_version: str | None
    to_version: str
    by: str
    notes: str
    recorded_at: datetime
    accepted: list[str] = Field(description="Acceptance rules that were not met and were signed off.")
    sign_off: str | None
    backtest: str | None


class BacktestModel(NewestBacktestModel):
    """A backtest of a version, with the measures over all its rows."""

    known_at: datetime
    by: str
    report: str
    measures: dict[str, Any] = Field(description="By measure the champion, the challenger and their difference, with intervals.")


class ModelLineageModel(Shape):
    """The complete lineage of a version."""

    model: str
    version: str
    in_use: bool
    released_at: datetime
    released_by: str
    notes: str
    training_set: dict[str, Any] = Field(description="Name and version, labels, time ranges, rows, content hash.")
    features: dict[str, Any] = Field(description="By feature its definition, with the version of the contract it is taken from.")
    feature_names: list[str]
    function: str
    parameters: dict[str, Any]
    code: dict[str, Any]
    contract_version: str
    predicts: str
    model_class: str
    fit_on: str
    evaluated_on: str
    part_rows: dict[str, int]
    metrics: dict[str, Measures] = Field(description="By part of the set that they were measured on.")
    mlflow: dict[str, Any]
    promotions: list[ModelPromotionModel]
    backtests: list[BacktestModel]
    canaries: list[dict[str, Any]]
    deprecated: DeprecationModel | None
    training_set_deprecated: DeprecationModel | None


class PromotionModel(Shape):
    """A promotion or rollback of data or of a model, in a common form."""

    of: Literal["data", "model"]
    name: str
    kind: Literal["promote", "rollback"]
    from_: str | None = Field(alias="from")
    to: str
    by: str
    reason: str
    at: datetime
    accepted: list[str]
    sign_off: str | None
    release_notes: str
    more: dict[str, Any]


class PromotionsModel(Shape):
    """Promotions and rollbacks, oldest first."""

    promotions: list[PromotionModel]


_SET: dict[str, Any] = {
    "name": "training_data",
    "kind": "training_set",
    "version": "v5.0",
    "full_name": "training_data_v5.0",
    "released_at": "2024-11-08T09:00:00Z",
    "released_by": "anna",
    "notes": "labels of the third quarter",
    "known_at": "2024-11-08T06:00:00Z",
    "rows": 12_060,
    "deprecated": None,
}
_FEATURES: dict[str, Any] = {
    "amount": {"source": "payments", "sql": "amount", "contract_version": "b2a4c9e01d77"},
    "tier": {"dimension": "cardholders", "column": "tier", "contract_version": "90c1d2f3a4b5"},
}
_TIME: dict[str, Any] = {
    "train": {"rows": 9_040, "from": "2024-07-01T00:02:11+00:00", "to": "2024-08-31T23:58:40+00:00"},
    "test": {"rows": 3_020, "from": "2024-09-01T00:01:09+00:00", "to": "2024-09-30T23:59:01+00:00"},
}
_BACKTEST: dict[str, Any] = {
    "version": "v2.4",
    "against": "v2.3",
    "first_month": "2024-10",
    "last_month": "2024-11",
    "passed": True,
    "failed": [],
    "recorded_at": "2024-12-09T08:30:00Z",
}
_MEASURE: dict[str, Any] = {
    "champion": {"value": 0.812, "low": 0.79, "high": 0.834},
    "challenger": {"value": 0.846, "low": 0.825, "high": 0.866},
    "difference": {"value": 0.034, "low": 0.012, "high": 0.055},
}
_SUMMARY: dict[str, Any] = {
    "model": "fraud",
    "description": "The probability that a payment is fraudulent.",
    "owner": "fraud-team",
    "training_set": "training_data",
    "versions": 2,
    "champion": {
        "version": "v2.3",
        "since": "2024-09-02T08:00:00Z",
        "by": "anna",
        "notes": "first model with the cardholder's tier",
        "training_set": "training_data_v4.0",
    },
    "newest_backtest": _BACKTEST,
    "canary": {
        "challenger": "v2.4",
        "champion": "v2.3",
        "share": "0.2",
        "since": "2024-12-09T09:00:00Z",
        "outcome": "not enough labels yet",
        "labels": 112,
    },
}
_PROMOTION: dict[str, Any] = {
    "of": "model",
    "name": "fraud",
    "kind": "promote",
    "from": "v2.3",
    "to": "v2.4",
    "by": "anna",
    "reason": "better in October and November",
    "at": "2024-12-16T08:00:00Z",
    "accepted": [],
    "sign_off": None,
    "release_notes": "# fraud v2.4 replaces v2.3\n",
    "more": {"number": 2, "backtest": "v2.4 against v2.3 on 2024-10 to 2024-11"},
}
#: By path of a route.
EXAMPLES: dict[str, Any] = {
    "/datasets": {"datasets": [_SET]},
    "/datasets/{name}/versions/{version}": _SET
    | {
        "manifest": {
            "labels": {"source": "chargebacks", "version": "v3.0"},
            "inputs": {"payments": "3f1c0b9a7d2e4f60", "chargebacks": "5d0c8f6e7a1b2c3d"},
            "time": _TIME,
            "rows": 12_060,
            "features": _FEATURES,
            "columns": {
                "amount": {"nulls": 0.0, "min": 1.0, "max": 990.0, "mean": 84.2, "deviation": 120.1, "quantiles": [1.0, 990.0]},
                "tier": {"nulls": 0.01, "distinct": 2, "frequent": {"standard": 9_700, "gold": 2_239}},
            },
            "content_hash": "12060-1182-9917",
        },
        "training_sets": [],
        "models": [{"model": "fraud", "version": "v2.4", "is_live": False, "is_challenger": True}],
    },
    "/models": {"models": [_SUMMARY]},
    "/models/{name}": _SUMMARY
    | {
        "released": [
            {
                "version": "v2.4",
                "state": "challenger",
                "training_set": "training_data_v5.0",
                "evaluated_on": "test",
                "metrics": {"roc_auc": 0.861, "log_loss": 0.094},
                "released_at": "2024-11-08T10:00:00Z",
                "released_by": "anna",
                "notes": "labels of the third quarter",
                "deprecated": None,
            }
        ]
    },
    "/models/{name}/versions/{version}": {
        "model": "fraud",
        "version": "v2.4",
        "in_use": True,
        "released_at": "2024-11-08T10:00:00Z",
        "released_by": "anna",
        "notes": "labels of the third quarter",
        "training_set": {
            "name": "training_data",
            "version": "v5.0",
            "full_name": "training_data_v5.0",
            "labels": {"source": "chargebacks", "version": "v3.0"},
            "time": _TIME,
            "rows": 12_060,
            "content_hash": "12060-1182-9917",
        },
        "features": _FEATURES,
        "feature_names": ["amount", "tier"],
        "function": "fraud_training:train",
        "parameters": {"C": 0.1},
        "code": {"training": "5b1f77aa", "lakehouse": "0.1.0"},
        "contract_version": "90c1d2f3a4b5",
        "predicts": "probability",
        "model_class": "sklearn.pipeline.Pipeline",
        "fit_on": "train",
        "evaluated_on": "test",
        "part_rows": {"train": 9_040, "test": 3_020},
        "metrics": {"train": {"roc_auc": 0.902}, "test": {"roc_auc": 0.861}},
        "mlflow": {"version": "4", "run_id": "6f0e8b7c"},
        "promotions": [
            {
                "kind": "promote",
                "from_version": "v2.3",
                "to_version": "v2.4",
                "by": "anna",
                "notes": "better in October and November",
                "recorded_at": "2024-12-16T08:00:00Z",
                "accepted": [],
                "sign_off": None,
                "backtest": "v2.4 against v2.3 on 2024-10 to 2024-11",
            }
        ],
        "backtests": [
            _BACKTEST
            | {
                "known_at": "2024-12-09T08:00:00Z",
                "by": "anna",
                "report": "models/fraud/v2.4/backtest.html",
                "measures": {"average_precision": _MEASURE},
            }
        ],
        "canaries": [
            {
                "event": "judged",
                "challenger": "v2.4",
                "champion": "v2.3",
                "share": "0.2",
                "labels": 240,
                "by": "anna",
                "reason": "",
                "outcome": "met",
                "recorded_at": "2024-12-15T08:00:00Z",
            }
        ],
        "deprecated": None,
        "training_set_deprecated": None,
    },
    "/promotions": {"promotions": [_PROMOTION]},
    "/sources/{source}/impact": {
        "source": "chargebacks",
        "about": "file arrival_date=2024-12-02.csv",
        "applied": True,
        "days": ["2024-09-14"],
        "rows": {"2024-09-14": 1},
        "out": {},
        "waiting": [],
        "lives_on": [],
        "periods": [],
        "moved": [],
        "readers": {},
        "models": [],
        "notes": ["ingested on 2024-12-02 as 3f1c0b9a7d2e4f60, arrival_date=2024-12-02.csv"],
        "released": {
            "labels": ["chargebacks_v3.0"],
            "training_sets": [{"name": "training_data", "version": "v5.0", "rows": 1, "total": 12_060, "share": 0.0000829}],
            "models": [
                {
                    "model": "fraud",
                    "version": "v2.4",
                    "training_set": "training_data_v5.0",
                    "is_live": True,
                    "is_challenger": False,
                }
            ],
        },
    },
}
