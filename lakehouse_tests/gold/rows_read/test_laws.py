"""Laws of metrics with several sources over a real lake: numbers equal a model, and exactly the days that differ are restated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

from lakehouse.contracts.series import Series
from lakehouse_tests.support.hypothesis_settings import derandomized
from lakehouse_tests.support.lake_settings import lake_settings
from lakehouse_tests.support.united_lake import Order, UnitedLake, deliveries

if TYPE_CHECKING:
    from datetime import date

pytestmark = pytest.mark.spark


def differing(before: dict[date, Any], after: dict[date, Any]) -> set[date]:
    return {start for start in {*before, *after} if before.get(start) != after.get(start)}


@given(history=deliveries())
@derandomized(6)
def test_after_each_arrival_the_numbers_are_those_of_the_model_and_the_restated_days_those_that_differ(
    history: list[list[Order]], tmp_path_factory: pytest.TempPathFactory, spark: Any
) -> None:
    lake = UnitedLake(lake_settings(tmp_path_factory.mktemp("lake")), spark)
    before = lake.model()
    for delivery in history:
        restated = lake.apply(lake.land(delivery))
        after = lake.model()
        for definition, was, now, days in zip(lake.metrics, before, after, restated):
            assert lake.published(Series(definition)) == now, definition.name
            assert days == differing(was, now), definition.name
        [weekly] = Series(lake.metrics[0]).rollups
        assert lake.published(weekly) == lake.weekly()
        before = after
    assert lake.unlike_published() == []
