"""The versions of contracts by name."""

from __future__ import annotations

from lakehouse.delta import provenance
from lakehouse_tests.support.partner_feed import feed_catalog


def test_a_metric_with_the_name_of_its_source_has_a_version_of_its_own() -> None:
    for metric, named in (("totals", "totals"), ("events", "gold/events")):
        catalog = feed_catalog(metric=metric)
        assert provenance.of_contracts(catalog, "events") == {
            "events": provenance.of_contract(catalog.sources["events"]),
            named: provenance.of_contract(catalog.metrics[metric]),
        }
