"""``/metrics/{name}/publications/{id}`` and its page: what a publication restated, as it was stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.contracts.metric import MetricContract
from lakehouse.serving.quality_models import RestatementReportModel
from lakehouse_tests.support.api_client import api_client, at, catalog, get_json, on
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.numbers_without_spark import ScriptedNumbers, metric, without_spark
from lakehouse_tests.support.page_client import page
from lakehouse_tests.support.parsed_page import words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.testclient import TestClient

    from lakehouse.lake import Lake

MARKUP = "<b>north</b> & co"
STORES = metric(grain=["store"], type="decimal(18,2)", publication={"rollups": ["week"]})


@pytest.fixture(scope="module", name="lake")
def _settings(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Day 1 of two stores, published and restated, with its week."""
    numbers = ScriptedNumbers(lake_in(tmp_path_factory.mktemp("lake")), STORES)
    with without_spark():
        for hour, value in ((6, {"a": "1.50", MARKUP: "2.00"}), (18, {"a": "1.50", MARKUP: "4.25"})):
            numbers.at(1, hour)
            numbers.set(1, value)
            numbers.publish(1)
            numbers.roll_up()
    return numbers.lake


@pytest.fixture(name="client")
def _client(lake: Lake) -> Iterator[TestClient]:
    with api_client(lake, catalog(STORES)) as client:
        yield client


def publication_of(client: TestClient, window: str, version: str) -> str:
    lineage = get_json(client, f"/lineage/total/{window}", version=version)
    return str(lineage["publication"]["publication_id"])


@pytest.mark.merge
def test_the_report_says_what_was_before_and_after(client: TestClient) -> None:
    answer = get_json(client, f"/metrics/total/publications/{publication_of(client, on(1), 'r2')}")
    RestatementReportModel.model_validate(answer)
    moved = {"before": "3.50", "after": "5.75", "difference": "2.25", "percent": 64.29}
    assert (answer["metric"], answer["series"], answer["totals"], answer["period_count"]) == (
        "total",
        "total",
        {"total": moved},
        1,
    )
    (period,) = answer["periods"]
    assert (period["window"], period["before"], period["after"], period["moved"]) == (on(1), "r1", "r2", {"total": moved})
    assert [(row["grain"], row["moved"]["total"]["after"]) for row in period["rows"]] == [({"store": MARKUP}, "4.25")]
    weekly = get_json(client, f"/metrics/total/publications/{publication_of(client, '2024-W01', 'r2')}")
    assert (weekly["series"], weekly["periods"][0]["window"]) == ("total_weekly", "2024-W01")


@pytest.mark.merge
def test_it_stays_when_the_contract_changes(lake: Lake, client: TestClient) -> None:
    path = f"/metrics/total/publications/{publication_of(client, on(1), 'r2')}"
    before = get_json(client, path)
    renamed: Any = STORES.model_dump(mode="json", exclude_none=True) | {"grain": ["town"]}
    renamed["measures"] = [{"name": "revenue", "sql": "sum(amount)", "type": "long"}]
    with api_client(lake, catalog(MetricContract.model_validate(renamed))) as later:
        assert get_json(later, path) == before
        text = words(later.get(f"/page/restated/total/{before['publication_id']}").text)
        assert "total 3.50 → 5.75" in text


def test_what_restated_nothing_has_no_report(client: TestClient) -> None:
    for path in (f"/metrics/total/publications/{publication_of(client, on(1), 'r1')}", "/metrics/total/publications/nothing"):
        assert get_json(client, path, 404)["type"] == "urn:lakehouse:unknown-publication"
    assert get_json(client, "/metrics/other/publications/nothing", 404)["type"] == "urn:lakehouse:unknown-metric"
    page(client.get("/page/restated/total/nothing"), 404)


@pytest.mark.merge
def test_the_pages_link_to_the_report_and_show_it(client: TestClient) -> None:
    address = f"/page/restated/total/{publication_of(client, on(1), 'r2')}"
    for path, count in ((f"/page/metrics/total/{on(1)}", 1), (f"/page/restated?through={on(1)}", 1)):
        links = [link["href"] for link in page(client.get(path)).all("a")]
        assert links.count(address) == count, path
    shown = page(client.get(address))
    text = " ".join(shown.text.split())
    assert "1 restated period" in text
    assert "total 3.50 → 5.75 (+2.25, +64.29" in text
    assert "r1 → r2, live (updating)" in text
    assert MARKUP in text
    assert "<b>north" not in client.get(address).text
    assert {link["href"] for link in shown.all("a")} >= {
        f"/page/metrics/total/{on(1)}#r2",
        f"/page/restated?through={at(1).date()}",
    }
