"""Readers who are moved to another dataset version see it whole, with its contract; a missing contract is reported."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakehouse.contracts.series import Series
from lakehouse_tests.support.api_client import api_client, get_json
from lakehouse_tests.support.two_dataset_versions import TOTAL, V1, catalog, metric, promote, publish_totals, rollback, three_days

if TYPE_CHECKING:
    from starlette.testclient import TestClient

    from lakehouse.lake import Lake


def seen(client: TestClient, day: int) -> tuple[object, ...]:
    found = get_json(client, "/metrics/total", window=f"2024-02-{day:02}")
    return found["revision"], found["result"][0]["total"], found["dataset_version"], found["reason"]


@pytest.mark.merge
def test_readers_are_moved_and_moved_back(lake: Lake) -> None:
    three_days(lake)
    with api_client(lake, catalog()) as client:
        assert seen(client, 2) == (1, 20, 1, "initial")
        assert get_json(client, "/metrics/total_v2", window="2024-02-02")["result"][0]["total"] == 22
        promote(lake, catalog())
        assert seen(client, 2) == (2, 22, 2, "manual")
        assert seen(client, 1)[:2] == (1, 10), "what is equal got no revision"
        (first, *_) = get_json(client, "/metrics")["metrics"]
        assert (first["name"], first["dataset_version"]) == ("total", 2)
        assert get_json(client, "/metrics/total", window="2024-02-02", version="v1")["result"][0]["total"] == 20
        rollback(lake, catalog())
        assert seen(client, 2) == (3, 20, 1, "rollback")


@pytest.mark.merge
def test_a_version_whose_contract_is_gone(lake: Lake) -> None:
    three_days(lake)
    promote(lake, catalog())
    with api_client(lake, catalog(metric(1))) as client:
        told = get_json(client, "/metrics/total", 503, window="2024-02-02")
        assert told["type"] == "urn:lakehouse:contract-missing"
        assert "dataset_version: 2" in told["detail"]


@pytest.mark.merge
def test_a_measure_that_only_the_new_version_has(lake: Lake) -> None:
    more = metric(2, TOTAL, {"name": "most", "sql": "max(amount)", "type": "long"})
    known = catalog(metric(1), more)
    publish_totals(lake, V1, {1: 10})
    publish_totals(lake, Series(more), {1: 11})
    promote(lake, known)
    with api_client(lake, known) as client:
        assert get_json(client, "/metrics/total", window="2024-02-01")["result"] == [{"total": 11, "most": 11, "row_count": 1}]
        first = get_json(client, "/metrics/total", window="2024-02-01", version="r1")
        assert first["result"] == [{"total": 10, "most": None, "row_count": 1}]
