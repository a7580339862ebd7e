"""Mistakes in the contracts of training sets and models: each is told with its file, its line, its field and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from lakehouse_tests.support.contract_mistakes import mistakes_in
from lakehouse_tests.support.contract_texts import CHARGEBACKS_SOURCE

if TYPE_CHECKING:
    from pathlib import Path

SOURCES = {
    "payments": """\
dataset: payments
primary_key: [payment_id]
clocks: {event: paid_at, arrival: arrived_at}
model:
  fields:
    - {name: payment_id, type: string}
    - {name: customer, type: string}
    - {name: amount, type: double}
materialization: {reprocess_policy: merge}
""",
    "chargebacks": CHARGEBACKS_SOURCE,
    "customers": """\
dataset: customers
kind: dimension
primary_key: [customer]
clocks: {event: since, arrival: arrived_at}
model: {fields: [{name: customer, type: string}, {name: tier, type: string}]}
""",
    "spend": """\
metric: spend
source: payments
grain: [customer]
measures: [{name: total, sql: sum(amount), type: double}]
""",
}
SET: dict[str, Any] = {
    "training_set": "training_data",
    "entity": {"source": "payments"},
    "features": {"columns": ["amount"]},
    "label": {"source": "chargebacks", "on": "payment_id", "sql": "max(1)", "default": 0, "maturity": "P60D"},
    "split": {"train": "2024-01-01", "test": "2024-03-01"},
}
MODEL: dict[str, Any] = {"model": "fraud", "training_set": "training_data", "train": "fraud_training:train"}


def mistakes(folder: Path, changes: dict[str, Any], of_model: dict[str, Any] | None = None) -> list[str]:
    """The mistakes of a deployment with a changed training set and model; a key that becomes None is left out."""
    contracts = {"a_set": SET | changes, "b_model": MODEL | (of_model or {})}
    written = {
        name: yaml.safe_dump({key: value for key, value in contract.items() if value is not None}, sort_keys=False)
        for name, contract in contracts.items()
    }
    return mistakes_in(folder, SOURCES | written)


def test_a_set_and_a_model_that_fit_have_no_mistakes(tmp_path: Path) -> None:
    features = {
        "columns": ["amount", {"name": "is_high", "sql": "amount > 100", "type": "boolean"}],
        "joins": [{"dimension": "customers", "on": "customer", "columns": ["tier"]}],
        "metrics": [{"metric": "spend", "on": {"customer": "customer"}, "columns": ["total"], "max_age": "P30D"}],
    }
    assert (
        mistakes(tmp_path, {"features": features}, {"acceptance": [{"metric": "roc_auc", "better_by": 0.1, "by": "tier"}]}) == []
    )


LABEL = SET["label"]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"label": {key: LABEL[key] for key in LABEL if key != "maturity"}}, ["label", "maturity: is missing", "such as P60D"]),
        ({"label": LABEL | {"source": "customers"}}, ["label.source", "customers is a dimension"]),
        ({"label": LABEL | {"source": "returns"}}, ["label.source", "no contract has 'dataset: returns'"]),
        ({"label": LABEL | {"on": "invoice"}}, ["label.on", "invoice is no field of chargebacks: payment_id"]),
        ({"label": LABEL | {"key": "invoice"}}, ["label.key", "invoice is no field of payments"]),
        ({"entity": {"source": "customers"}}, ["entity.source", "customers is a dimension"]),
        ({"features": {}}, ["features: a set without features teaches nothing"]),
        ({"features": {"columns": ["colour"]}}, ["features.columns", "colour is no field of payments"]),
        ({"features": {"columns": ["amount", "amount"]}}, ["features: the name 'amount' is taken"]),
        ({"features": {"columns": ["arrival_ts"]}}, ["'arrival_ts' is a column of the lakehouse"]),
        (
            {"features": {"columns": ["amount"], "deprecated": {"country": "use region"}}},
            ["features.deprecated: no feature is called country; there are amount"],
        ),
        (
            {"features": {"joins": [{"dimension": "payments", "on": "customer", "columns": ["tier"]}]}},
            ["features.joins", "no source with 'kind: dimension' is called payments"],
        ),
        (
            {"features": {"joins": [{"dimension": "customers", "on": "customer", "columns": ["colour"]}]}},
            ["features.joins", "colour is no field of customers"],
        ),
        (
            {"features": {"metrics": [{"metric": "spend", "columns": ["total"]}]}},
            ["features.metrics", "spend has the grain customer; name for each of its columns the event's column"],
        ),
        (
            {"features": {"metrics": [{"metric": "spend", "on": {"customer": "customer"}, "columns": ["count"]}]}},
            ["features.metrics", "count is no measure of spend: total"],
        ),
        (
            {
                "features": {
                    "metrics": [
                        {"metric": "spend", "on": {"customer": "customer"}, "columns": ["total", {"total": "a", "b": "c"}]}
                    ]
                }
            },
            ["another name is given as '{total: country_total}', one column each"],
        ),
        ({"split": {"train": "2024-03-01", "test": "2024-01-01"}}, ["split: the parts follow each other"]),
        ({"until": "2024-02-01"}, ["until: lies before the last part of 'split' begins"]),
    ],
)
def test_a_set_that_does_not_fit_is_refused(tmp_path: Path, changes: dict[str, Any], told: list[str]) -> None:
    found = mistakes(tmp_path, changes)
    assert found
    assert found[0].startswith("a_set.yaml:")
    for part in told:
        assert part in found[0]


@pytest.mark.parametrize("name", ["key_payment_id", "key_customer", "label", "split"])
def test_a_feature_cannot_have_the_name_of_a_column_that_every_set_has(tmp_path: Path, name: str) -> None:
    joins = [{"dimension": "customers", "on": "customer", "columns": ["tier"]}]
    own = {"name": name, "sql": "amount", "type": "double"}
    mistake, *_ = mistakes(tmp_path, {"features": {"columns": [own], "joins": joins}})
    assert f"features: the name '{name}' is taken" in mistake


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"train": "fraud_training"}, ["train", "'fraud_training' names no function; write 'package.module:function'"]),
        ({"training_set": "others"}, ["training_set", "no contract has 'training_set: others'"]),
        ({"evaluate_on": "valid"}, ["evaluate_on", "training_data has no part valid; its split has train, test"]),
        ({"metrics": ["r2"]}, ["metrics: r2 is no measure of a probability"]),
        ({"acceptance": [{"metric": "f1"}]}, ["acceptance", "give better_by or not_worse_than: one of the two"]),
        ({"metrics": ["f1"], "acceptance": [{"metric": "recall", "better_by": 0}]}, ["recall is not among the measures"]),
        ({"acceptance": [{"metric": "f1", "better_by": 0, "by": "tier"}]}, ["acceptance", "tier is no feature of training_data"]),
        ({"canary": {"share": "120%"}}, ["canary.share"]),
        ({"retrain_when": {}}, ["retrain_when"]),
    ],
)
def test_a_model_that_does_not_fit_is_refused(tmp_path: Path, changes: dict[str, Any], told: list[str]) -> None:
    found = mistakes(tmp_path, {}, changes)
    assert found
    assert found[0].startswith("b_model.yaml:")
    for part in told:
        assert part in found[0]
