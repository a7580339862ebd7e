"""Mistakes in the joins of a metric are named by file, line and field, with what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakehouse.contracts import load_catalog
from lakehouse.delta import provenance
from lakehouse_tests.support.contract_mistakes import mistakes_in

if TYPE_CHECKING:
    from pathlib import Path

SALES = """
dataset: sales
primary_key: [id]
clocks: {event: at}
model:
  fields:
    - {name: id, type: string}
    - {name: customer_id, type: int}
    - {name: region, type: string}
    - {name: weight, type: double}
    - {name: amount, type: int}
"""
CUSTOMERS = """
dataset: customers
kind: dimension
primary_key: [customer_id]
clocks: {event: at}
model:
  fields:
    - {name: customer_id, type: bigint}
    - {name: tier, type: string}
    - {name: region, type: string}
    - {name: area, type: int}
"""
AREAS = """
dataset: areas
kind: dimension
primary_key: [area, since]
clocks: {event: at}
model:
  fields:
    - {name: area, type: int}
    - {name: since, type: string}
    - {name: manager, type: string}
"""
METRIC = """metric: spend
source: sales
joins: JOINS
grain: [tier]
measures: [{name: total, sql: sum(amount), type: long, additive: true}]
"""


def load(folder: Path, joins: str) -> list[str]:
    texts = {"sales": SALES, "customers": CUSTOMERS, "areas": AREAS, "spend": METRIC.replace("JOINS", joins)}
    return mistakes_in(folder, texts)


@pytest.mark.parametrize(
    "joins",
    [
        "[{dimension: customers, on: customer_id, columns: [tier]}]",
        "[{dimension: customers, on: [customer_id], columns: [tier, {region: home}]}]",
        (
            "[{dimension: customers, on: customer_id, columns: [tier, area, {region: r}]}, "
            "{dimension: areas, on: [area, r], columns: [manager]}]"
        ),
    ],
)
def test_joins_that_fit_load(tmp_path: Path, joins: str) -> None:
    assert load(tmp_path, joins) == []
    metric = load_catalog(tmp_path, bundled=False).metrics["spend"]
    assert {"customers"} <= metric.dimensions.keys()
    assert metric.joined_on == [("customer_id",)]


@pytest.mark.parametrize(
    ("joins", "mistake"),
    [
        (
            "[{dimension: clients, on: customer_id, columns: [tier]}]",
            "joins.0.dimension: 'clients' is no source; the sources with 'kind: dimension' are: areas, customers",
        ),
        (
            "[{dimension: sales, on: customer_id, columns: [amount]}]",
            "joins.0.dimension: 'sales' is an event source; the sources with 'kind: dimension' are: areas, customers",
        ),
        (
            "[{dimension: customers, on: customer_id, columns: [tier, level]}]",
            "joins.0.columns: customers has no field level; its fields are customer_id, tier, region, area",
        ),
        (
            "[{dimension: customers, on: customer_id, columns: [tier, region]}]",
            "joins.0.columns: region is a column of sales; give the attribute another name, as in '{region: customers_region}'",
        ),
        (
            "[{dimension: customers, on: client, columns: [tier]}]",
            "joins.0.on: client is neither a field of sales nor a column of an earlier join",
        ),
        (
            "[{dimension: customers, on: region, columns: [tier]}]",
            "joins.0.on: region is a string, and customer_id of customers a bigint; give both the same type",
        ),
        (
            "[{dimension: areas, on: customer_id, columns: [manager]}]",
            "joins.0.on: the primary key of areas is area, since; name as many columns, in this order",
        ),
        (
            "[{dimension: customers, on: customer_id, columns: [tier, {region: total}]}]",
            "joins: customers: the name 'total' is taken; give the column another one, as in '{total: customers_total}'",
        ),
        (
            (
                "[{dimension: customers, on: customer_id, columns: [tier, area]}, "
                "{dimension: areas, on: [area, region], columns: [manager]}]"
            ),
            "joins: areas: area, region come from different tables; join on columns of the source, or on columns of one earlier",
        ),
        (
            (
                "[{dimension: customers, on: customer_id, columns: [area]}, "
                "{dimension: areas, on: area, columns: [manager], max_unmatched: 0.1}]"
            ),
            "joins: areas: max_unmatched: is a share of facts by their own key, and area comes from an earlier join",
        ),
        (
            "[{dimension: customers, on: customer_id, columns: [tier, tier]}]",
            "joins.0.columns: named twice: tier",
        ),
        (
            "[{dimension: customers, on: customer_id, columns: [{tier: one, region: two}]}]",
            "joins.0.columns: another name is given as '{tier: customer_tier}', one column each",
        ),
        ("[{dimension: customers, on: [], columns: [tier]}]", "joins.0.on: "),
        ("[{dimension: customers, on: customer_id, columns: []}]", "joins.0.columns: "),
    ],
)
def test_a_join_that_does_not_fit_is_named(tmp_path: Path, joins: str, mistake: str) -> None:
    [text] = load(tmp_path, joins)
    assert text.startswith(f"spend.yaml:3: {mistake}")


def test_a_metric_without_joins_has_the_version_of_before_there_were_any(tmp_path: Path) -> None:
    assert load(tmp_path, "[{dimension: customers, on: customer_id, columns: [tier]}]") == []
    joined = load_catalog(tmp_path, bundled=False).metrics["spend"]
    [mistake] = load(tmp_path, "[]")
    assert mistake.startswith("spend.yaml:4: grain.0: no column of sales is called 'tier'; there are id, customer_id, ")
    (tmp_path / "spend.yaml").write_text((tmp_path / "spend.yaml").read_text().replace("grain: [tier]", "grain: [region]"))
    plain = load_catalog(tmp_path, bundled=False).metrics["spend"]
    dumped = plain.model_dump(exclude={"joins"})
    assert "joins" not in dumped
    assert provenance.of_contract(plain) != provenance.of_contract(joined)
    assert provenance.of_contract(plain) == provenance.of_contract(plain.model_copy(update={"joins": []}))
