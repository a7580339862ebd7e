"""The versions of contracts by name."""

from __future__ import annotations

from lakehouse.delta import provenance
from lakehouse_tests.support.partner_feed import feed_catalog
from lakehouse_tests.support.united_lake import metric
from lakehouse_tests.support.windowed_lake import TUMBLING


def test_a_metric_with_the_name_of_its_source_has_a_version_of_its_own() -> None:
    for name, named in (("totals", "totals"), ("events", "gold/events")):
        catalog = feed_catalog(metric=name)
        assert provenance.of_contracts(catalog, "events") == {
            "events": provenance.of_contract(catalog.sources["events"]),
            named: provenance.of_contract(catalog.metrics[name]),
        }


def test_a_speed_layer_is_no_other_version_of_a_metric() -> None:
    plain, live = metric(TUMBLING), metric(TUMBLING, live=True, reconcile={"threshold": 0.1})
    assert provenance.of_contract(plain) == provenance.of_contract(live)
    assert provenance.of_contract(plain) != provenance.of_contract(metric(TUMBLING, window=1))
