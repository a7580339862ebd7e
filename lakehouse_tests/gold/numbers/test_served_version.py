"""The dataset version that readers see, and how it guards each commit of daily numbers. No Spark, no tables."""

from __future__ import annotations

import pytest

from lakehouse.calendar.periods import Kind
from lakehouse.contracts.series import Series
from lakehouse.gold.numbers import served_version
from lakehouse_tests.support.api_client import catalog
from lakehouse_tests.support.numbers_without_spark import metric


def test_a_dataset_version_is_served_under_the_name_that_readers_know() -> None:
    first, second, other = metric(), metric(dataset_version=2), metric("orders", dataset_version=2)
    contracts = catalog(other, first, second)
    served = served_version.version(contracts, first, 2)
    assert (served.metric, served.name) == (second, "total")
    assert served_version.version(contracts, second, 1).metric == first
    with pytest.raises(served_version.UnservedVersionError, match=r"'dataset_version: 3' \(there are \[1, 2\]\)"):
        served_version.version(contracts, first, 3)


def test_only_days_that_readers_see_take_part_in_a_promotion() -> None:
    second = metric(dataset_version=2, publication={"rollups": ["week"]})
    assert served_version.transaction(Series(metric()), None) == (served_version.SERVED, 1)
    assert served_version.transaction(Series(second), None) is None, "a version beside the served one"
    assert served_version.transaction(Series(second, Kind.WEEK, "total"), None) is None
    with pytest.raises(served_version.MovedError, match="shows v1 now, but these numbers were computed with v2"):
        served_version.transaction(Series(second, called="total"), None)
