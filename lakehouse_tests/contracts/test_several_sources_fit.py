"""Mistakes between the sources of a metric are named by file, line and field, with what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakehouse.contracts import ContractError, load_catalog
from lakehouse.delta import provenance
from lakehouse_tests.support.contract_mistakes import mistakes_in

if TYPE_CHECKING:
    from pathlib import Path

WEB = """
dataset: web
primary_key: [id]
clocks: {event: at}
model:
  fields:
    - {name: id, type: string}
    - {name: order_id, type: string}
    - {name: amount, type: int}
    - {name: store, type: string}
    - {name: weight, type: double}
"""
MOBILE = """
dataset: mobile
primary_key: [id]
clocks: {event: at}
model:
  fields:
    - {name: id, type: string}
    - {name: order_id, type: string}
    - {name: total, type: bigint}
    - {name: shop, type: string}
"""
LOG = """
dataset: log
primary_key: [id]
clocks: {event: at, timezone: Europe/Berlin}
materialization: {reprocess_policy: append}
model:
  fields:
    - {name: id, type: string}
    - {name: amount, type: int}
    - {name: store, type: string}
"""
CUSTOMERS = """
dataset: customers
kind: dimension
primary_key: [customer_id]
clocks: {event: at}
model: {fields: [{name: customer_id, type: string}]}
"""
METRIC = """metric: revenue
sources: SOURCES
grain: [store]
measures: [{name: total, sql: sum(amount), type: long, additive: true}]
"""
GOOD = "[web, {source: mobile, columns: {amount: total, store: shop}}]"


def load(folder: Path, metric: str, log: str = LOG) -> list[str]:
    return mistakes_in(folder, {"web": WEB, "mobile": MOBILE, "log": log, "customers": CUSTOMERS, "revenue": metric})


def of_sources(sources: str, more: str = "") -> str:
    return METRIC.replace("SOURCES", sources) + more


def test_sources_that_fit_load_and_each_has_the_metric(tmp_path: Path) -> None:
    assert load(tmp_path, of_sources(GOOD, "deduplicate_by: [order_id]\n")) == []
    catalog = load_catalog(tmp_path, bundled=False)
    revenue = catalog.metrics["revenue"]
    assert [catalog.metrics_of(name) for name in ("web", "mobile", "log")] == [[revenue], [revenue], []]
    assert list(revenue.source_contracts) == ["web", "mobile"]
    assert revenue.further_sources == {"mobile": catalog.sources["mobile"]}
    assert revenue.publication.timezone == catalog.sources["web"].clocks.timezone


@pytest.mark.parametrize(
    ("rows", "silver"),
    [("", "log_newest"), ("rows: all\n", "log"), ("rows: newest\n", "log_newest")],
    ids=["default", "all", "newest"],
)
def test_a_source_under_append_is_read_by_its_newest_rows_unless_all_are_wanted(tmp_path: Path, rows: str, silver: str) -> None:
    log = LOG.replace(", timezone: Europe/Berlin", "")
    assert load(tmp_path, of_sources("[web, log]", rows), log) == []
    revenue = load_catalog(tmp_path, bundled=False).metrics["revenue"]
    assert [entry.silver for entry in revenue.read] == ["web", silver]
    assert not revenue.reads_newest


def test_a_source_may_have_other_rows_than_the_metric(tmp_path: Path) -> None:
    log = LOG.replace(", timezone: Europe/Berlin", "")
    assert load(tmp_path, of_sources("[web, {source: log, rows: all}]"), log) == []
    assert [entry.silver for entry in load_catalog(tmp_path, bundled=False).metrics["revenue"].read] == ["web", "log"]


@pytest.mark.parametrize(
    ("metric", "mistake"),
    [
        (of_sources("[web, app]"), "2: sources.1.source: 'app' is no source; the sources of events are: log, mobile, web"),
        (
            of_sources("[web, customers]"),
            "2: sources.1.source: 'customers' is a dimension, which is joined; the sources of events",
        ),
        (of_sources("[web, mobile]"), "2: sources.1.columns: revenue reads amount, and mobile has no field of that name; write"),
        (
            of_sources("[web, {source: mobile, columns: {amount: total, store: place}}]"),
            "2: sources.1.columns: place is no field of mobile; its fields are id, order_id, total, shop",
        ),
        (
            of_sources("[web, {source: mobile, columns: {amount: total, store: shop, net: total}}]"),
            "2: sources.1.columns: net is no field of web, whose names the metric has; its fields are id, order_id, amount",
        ),
        (
            of_sources("[web, {source: mobile, columns: {amount: shop, store: shop}}]"),
            "2: sources.1.columns: amount is a int in web, and shop of mobile a string; give both the same type",
        ),
        (
            of_sources("[web, log]"),
            "2: sources.1.source: the event days of log are those of Europe/Berlin, and of web those of UTC",
        ),
        (
            of_sources("[web, {source: mobile, columns: {amount: total, store: shop}, rows: all}]"),
            "2: sources.1.rows: mobile has one",
        ),
        (of_sources(GOOD, "rows: all\n"), "5: rows: web has one row per key; leave the key out"),
        (of_sources(GOOD, "deduplicate_by: [number]\n"), "5: deduplicate_by: number is no field of web; its fields are id"),
        (
            of_sources(GOOD.replace("shop}", "shop, weight: total}"), "deduplicate_by: [weight]\n"),
            "2: sources.1.columns: weight is a double in web, and total of mobile a bigint; give both the same type",
        ),
        (of_sources(GOOD).replace("[store]", "[region]"), "3: grain: region is neither a field of web nor brought by a join"),
        (of_sources(GOOD, "source: web\n"), "2: sources: names all sources that the metric reads; leave 'source' out"),
        (
            of_sources(GOOD, "joins: [{dimension: shops, on: store, columns: [a]}]\n"),
            "5: joins.0.dimension: 'shops' is no source",
        ),
    ],
)
def test_sources_that_do_not_fit_are_refused(tmp_path: Path, metric: str, mistake: str) -> None:
    found = load(tmp_path, metric)
    assert any(one.startswith(f"revenue.yaml:{mistake}") for one in found), found


def test_doubles_do_not_tell_duplicates(tmp_path: Path) -> None:
    mobile = MOBILE + "    - {name: weight, type: double}\n"
    for name, text in (("web", WEB), ("mobile", mobile), ("revenue", of_sources(GOOD, "deduplicate_by: [weight]\n"))):
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ContractError, match="deduplicate_by: weight is a double, which two sources do not give exactly alike"):
        load_catalog(tmp_path, bundled=False)


def test_the_version_of_a_contract_counts_sources_and_what_makes_duplicates(tmp_path: Path) -> None:
    versions = []
    for metric in (of_sources(GOOD), of_sources(GOOD, "deduplicate_by: [order_id]\n"), of_sources("[web]")):
        assert load(tmp_path, metric) == []
        versions.append(provenance.of_contract(load_catalog(tmp_path, bundled=False).metrics["revenue"]))
    assert len(set(versions)) == 3
