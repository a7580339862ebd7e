"""One of the sources of a metric, and what is wrong with a list of them by itself."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.metric_sources import MetricSource

MEASURES = [{"name": "total", "sql": "sum(amount)", "type": "long"}]


def metric(**keys: Any) -> MetricContract:
    return MetricContract.model_validate({"metric": "revenue", "measures": MEASURES, **keys})


def test_the_first_source_is_the_one_that_pages_show() -> None:
    revenue = metric(sources=["web", {"source": "mobile", "columns": {"amount": "total"}}])
    assert revenue.source == "web"
    assert [entry.source for entry in revenue.read] == ["web", "mobile"]


def test_a_metric_with_one_source_reads_that_one() -> None:
    [entry] = metric(source="web", rows="newest").read
    assert (entry.source, entry.silver, entry.required) == ("web", "web_newest", True)


def test_the_contract_reads_the_same_from_its_own_text() -> None:
    revenue = metric(sources=["web", {"source": "mobile", "required": False}], deduplicate_by=["order_id"])
    assert MetricContract.model_validate_json(revenue.model_dump_json()) == revenue


def test_a_column_has_the_names_that_the_metric_gives_it() -> None:
    entry = MetricSource(source="mobile", columns={"amount": "total", "net": "total"})
    assert (entry.column("amount"), entry.column("store")) == ("total", "store")
    assert entry.names("total") == ["total", "amount", "net"]
    assert entry.names("amount") == [], "another column took its place"


@pytest.mark.parametrize(
    ("keys", "mistake"),
    [
        ({"sources": ["web", "web"]}, "sources: name each source once: web"),
        ({"sources": [{"source": "web", "required": False}]}, "sources: at least one has to be required"),
        (
            {"sources": [{"source": "web", "columns": {"amount": "total"}}, "mobile"]},
            "sources: web comes first and gives the names",
        ),
        ({"sources": ["web", "mobile"], "from": ["orders"]}, "sources: a metric reads sources or is made of other metrics"),
        ({"source": "web", "deduplicate_by": ["id"]}, "deduplicate_by: removes what several sources have"),
        ({"sources": ["web", "mobile"], "deduplicate_by": ["id", "id"]}, "deduplicate_by: name each column once: id"),
        ({"sources": []}, "source: is missing"),
        ({"sources": [{"columns": {}}]}, "source"),
    ],
)
def test_a_list_of_sources_that_cannot_be_is_refused(keys: dict[str, Any], mistake: str) -> None:
    with pytest.raises(ValidationError, match=mistake):
        metric(**keys)
