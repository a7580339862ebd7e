"""Examples of the responses about datasets, models, promotions and impact, for the OpenAPI document."""

from __future__ import annotations

from typing import Any

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
