"""The pages of models and training sets: each version's lineage in one place, and text of people that stays text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakehouse.contracts import Catalog
from lakehouse.training_sets import pages
from lakehouse_tests.support import released_models
from lakehouse_tests.support.api_client import api_client
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.page_client import HtmlPage, page
from lakehouse_tests.support.parsed_page import HOSTILE_TEXT, words

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from starlette.testclient import TestClient

PATHS = (
    "/",
    "/page/models",
    *(f"/page/models/fraud/v2.{number}" for number in (3, 4, 5)),
    "/page/datasets/training_data/v4.0",
    "/page/datasets/training_data/v5.0",
    "/page/datasets/chargebacks/v3.0",
)


@pytest.fixture(name="client", scope="module")
def _client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    lake = released_models.released_models(tmp_path_factory.mktemp("models"))
    with api_client(lake, released_models.CATALOG) as client:
        yield client


@pytest.mark.merge
@pytest.mark.parametrize("path", PATHS)
def test_each_page_is_sound_and_its_links_lead_somewhere(client: TestClient, path: str) -> None:
    html = page(client.get(path))
    links = {link.get("href") or "" for link in html.all("a")}
    for link in sorted(links):
        if link.startswith(("/page/models", "/page/datasets", "/models", "/datasets")):
            assert client.get(link.partition("#")[0]).status_code == 200, link


@pytest.mark.merge
def test_what_people_have_written_stays_text(tmp_path: Path) -> None:
    lake = released_models.released_models(tmp_path, text=HOSTILE_TEXT)
    with api_client(lake, released_models.CATALOG) as client:
        for path in PATHS[1:]:
            answer = client.get(path)
            html = HtmlPage(answer.text)
            assert (answer.status_code, html.all("script"), html.all("img")) == (200, [], []), path
            assert "alert(1)" in html.text, path


def test_the_page_of_a_version_has_its_lineage_in_one_place(client: TestClient) -> None:
    text = words(client.get("/page/models/fraud/v2.4").text)
    for part in (
        "fraud v2.4 in use",
        "training_data_v5.0",
        "chargebacks v3.0",
        "train learned from 2024-06-01 to 2024-08-14 2,700",
        "test measured on 2024-08-15 to 2024-09-20 1,300",
        "tier of cardholders",
        "max_depth 3",
        "v2.4 against v2.3 on 2024-10 to 2024-11: passed",
        "Judged: met",
        "412 mature labels",
        "Promoted: v2.3 → v2.4",
    ):
        assert part in text, text
    assert "Deprecated 2024-12-16 07:45 by ben: replaced by v2.4" in words(client.get("/page/models/fraud/v2.3").text)


def test_models_and_sets_at_a_glance(client: TestClient) -> None:
    models = words(client.get("/page/models").text)
    assert "v2.5 against v2.4: not passed" in models
    assert "v2.4 champion" in models
    assert "v2.5 challenger" in models
    columns = words(client.get("/page/datasets/training_data/v5.0").text)
    assert "chip 2,310, online 1,402, contactless 288" in columns
    assert "fraud v2.4, in use" in columns
    assert "Models" in words(client.get("/").text)


def test_a_deployment_without_models_has_no_link_to_them(tmp_path: Path) -> None:
    with api_client(lake_in(tmp_path), Catalog()) as client:
        assert "/page/models" not in client.get("/").text
        assert "There is no model yet" in client.get("/page/models").text
        assert client.get("/page/models/fraud/v1.0").status_code == 404


def test_a_histogram_shares_what_lies_between_quantiles_evenly() -> None:
    assert pages.histogram([float(number) for number in range(41)], 4) == pytest.approx([0.25] * 4)
    assert pages.histogram([5.0] * 41) == [1.0]
    skewed = pages.histogram([0.0] * 31 + [float(number) for number in range(1, 11)], 3)
    assert sum(skewed) == pytest.approx(1)
    assert skewed[0] > skewed[1]
