"""Datasets, models and promotions in the API: what the logs say, without MLflow; and the impact of a correction on them."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from lakehouse.contracts import Catalog
from lakehouse.models import canary_log, lineage
from lakehouse.serving.app import AccessPolicy
from lakehouse_tests.support import released_models
from lakehouse_tests.support.api_client import api_client, get_json
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.released_history import HistoryRecord, HistorySet, ReleasedHistory, source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from starlette.testclient import TestClient

    from lakehouse.lake import Lake


@pytest.fixture(name="lake", scope="module")
def _lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return released_models.released_models(tmp_path_factory.mktemp("models"))


@pytest.fixture(name="client")
def _client(lake: Lake) -> Iterator[TestClient]:
    with api_client(lake, released_models.CATALOG) as client:
        yield client


@pytest.mark.merge
def test_datasets_are_listed_and_a_manifest_names_what_was_made_from_it(client: TestClient) -> None:
    datasets = get_json(client, "/datasets")["datasets"]
    names = [(entry["full_name"], entry["kind"], entry["rows"]) for entry in datasets]
    assert names == [
        ("chargebacks_v2.0", "labels", None),
        ("chargebacks_v3.0", "labels", None),
        ("training_data_v4.0", "training_set", 4_000),
        ("training_data_v5.0", "training_set", 4_000),
    ]
    manifest = get_json(client, "/datasets/training_data/versions/v5.0")
    assert manifest["manifest"]["labels"] == {"source": "chargebacks", "version": "v3.0"}
    assert manifest["models"] == [
        {"model": "fraud", "version": "v2.4", "is_live": True, "is_challenger": False},
        {"model": "fraud", "version": "v2.5", "is_live": False, "is_challenger": True},
    ]
    assert get_json(client, "/datasets/chargebacks/versions/v2.0")["training_sets"] == ["training_data_v4.0"]
    problem = get_json(client, "/datasets/training_data/versions/v9.0", 404)
    assert (problem["type"], "v4.0, v5.0" in problem["detail"]) == ("urn:lakehouse:unknown-version", True)


def test_models_have_a_champion_a_backtest_and_a_canary(client: TestClient) -> None:
    (model,) = get_json(client, "/models")["models"]
    champion, canary, backtest = model["champion"], model["canary"], model["newest_backtest"]
    assert (champion["version"], champion["training_set"]) == ("v2.4", "training_data_v5.0")
    assert (canary["challenger"], canary["share"], canary["outcome"]) == ("v2.5", "0.2", None)
    assert (backtest["version"], backtest["passed"], len(backtest["failed"])) == ("v2.5", False, 1)
    details = get_json(client, "/models/fraud")
    assert [(entry["version"], entry["state"]) for entry in details["released"]] == [
        ("v2.3", "deprecated"),
        ("v2.4", "champion"),
        ("v2.5", "challenger"),
    ]
    assert get_json(client, "/models/nothing", 404)["type"] == "urn:lakehouse:unknown-model"


@pytest.mark.merge
def test_the_lineage_is_that_of_the_command_without_the_place_of_the_lake(client: TestClient, lake: Lake) -> None:
    answer = get_json(client, "/models/fraud/versions/v2.4")
    expected = lineage.of(lake, "fraud", "v2.4", canary_log.events_of(lake, "fraud", "v2.4")).as_json()
    for backtest in expected["backtests"]:
        backtest["report"] = backtest["report"].removeprefix(f"{lake.root}/")
    assert answer == json.loads(json.dumps(expected))
    assert f"{lake.root}" not in json.dumps(answer)
    difference = answer["backtests"][0]["measures"]["average_precision"]["difference"]
    assert difference["low"] < difference["value"] < difference["high"]
    assert get_json(client, "/models/fraud/versions/v9.0", 404)["type"] == "urn:lakehouse:unknown-version"


def test_promotions_are_one_object_or_a_line_each(client: TestClient) -> None:
    promotions = get_json(client, "/promotions")["promotions"]
    assert [(entry["of"], entry["from"], entry["to"]) for entry in promotions] == [
        ("model", None, "v2.3"),
        ("model", "v2.3", "v2.4"),
    ]
    answer = client.get("/promotions", headers={"Accept": "application/x-ndjson"})
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    assert [json.loads(line) for line in answer.text.splitlines()] == promotions
    current = client.get("/promotions", headers={"Accept": "application/x-ndjson", "If-None-Match": answer.headers["etag"]})
    assert current.status_code == 304
    assert get_json(client, "/promotions", name="revenue") == {"promotions": []}


def test_reading_needs_the_token_where_the_other_resources_do(lake: Lake) -> None:
    with api_client(lake, released_models.CATALOG, AccessPolicy(rate=1e9, reading_needs_token=True)) as client:
        for path in ("/datasets", "/models", "/models/fraud", "/models/fraud/versions/v2.4", "/promotions"):
            assert client.get(path).status_code == 401


@pytest.fixture(name="corrected")
def _corrected(tmp_path: Path) -> Iterator[TestClient]:
    """A payment of the live model's set with a chargeback, in the second of two files."""
    records = [HistoryRecord("payments", "p1", 30, 31, "payments0"), HistoryRecord("chargebacks", "c1", 60, 61, "cb", "p1")]
    history = ReleasedHistory(
        records,
        {"v1.0": (frozenset({"cb"}), None)},
        [HistorySet("large", "v1.0", False, (("p0", 1, "a"), ("p1", 30, "b")))],
        {("fraud", "v1.0"): "large_v1.0"},
        [("fraud", "v1.0")],
    )
    lake = lake_in(tmp_path)
    history.write(lake)
    names = ("payments", "chargebacks", "customers")
    with api_client(lake, Catalog({name: source(name) for name in names})) as client:
        yield client


def test_the_impact_of_a_key_and_of_days_names_sets_and_models(corrected: TestClient) -> None:
    of_key = get_json(corrected, "/sources/chargebacks/impact", key="c1")
    assert of_key["released"] == {
        "labels": ["chargebacks_v1.0"],
        "training_sets": [{"name": "large", "version": "v1.0", "rows": 1, "total": 2, "share": 0.5}],
        "models": [{"model": "fraud", "version": "v1.0", "training_set": "large_v1.0", "is_live": True, "is_challenger": False}],
    }
    of_days = get_json(corrected, "/sources/payments/impact", start_date="2024-01-31", end_date="2024-02-02")
    assert [entry["rows"] for entry in of_days["released"]["training_sets"]] == [2]


@pytest.mark.merge
@pytest.mark.parametrize(
    ("parameters", "status", "kind"),
    [
        ({}, 400, "makes-no-sense"),
        ({"key": "c1", "start_date": "2024-02-01"}, 400, "makes-no-sense"),
        ({"end_date": "2024-02-01", "key": "c1"}, 400, "makes-no-sense"),
        ({"start_date": "2020-01-01", "end_date": "2024-02-01"}, 400, "makes-no-sense"),
        ({"key": "c9"}, 404, "unknown-subject"),
        ({"decision": "decision:0a"}, 404, "unknown-subject"),
        ({"file": "/etc/passwd"}, 404, "unknown-subject"),
    ],
)
def test_an_impact_that_is_refused_says_why(corrected: TestClient, parameters: dict[str, str], status: int, kind: str) -> None:
    assert get_json(corrected, "/sources/chargebacks/impact", status, **parameters)["type"] == f"urn:lakehouse:{kind}"


def test_answers_need_no_mlflow(client: TestClient) -> None:
    before = {name for name in sys.modules if name.split(".")[0] in {"mlflow", "pyspark"}}
    for path in ("/models", "/models/fraud/versions/v2.4", "/datasets", "/promotions"):
        assert client.get(path).status_code == 200
    assert {name for name in sys.modules if name.split(".")[0] in {"mlflow", "pyspark"}} == before
