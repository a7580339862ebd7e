"""A dataset version that reads several sources is promoted when it has followed all of them, and follows them afterwards."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.gold.numbers import served_version
from lakehouse.gold.promotion import promotion
from lakehouse.gold.promotion.promotion import PromotionRefusedError
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.restatement.pending import find_pending
from lakehouse_tests.support.united_lake import FIRST, TWO_DAYS, Order, UnitedLake, metric

if TYPE_CHECKING:
    from datetime import date

    from lakehouse.contracts.series import Series
    from lakehouse.lake import Lake

pytestmark = pytest.mark.spark


def day(number: int) -> date:
    return FIRST + timedelta(days=number)


@pytest.mark.merge
def test_after_a_promotion_exactly_the_days_are_pending_that_any_source_changes(lake: Lake, spark: Any) -> None:
    doubled = [{"name": "total", "sql": "2 * sum(amount)", "type": "long", "additive": True}]
    first = metric(TWO_DAYS, window=1)
    sample = UnitedLake(lake, spark, [first, metric(TWO_DAYS, window=1, measures=doubled, dataset_version=2)])

    def promote() -> None:
        promotion.promote(lake, sample.catalog, first, 2, Run("run", "test", by="ana"), "doubled")

    def readers() -> Series:
        return served_version.daily(lake, sample.catalog, sample.metrics[0])

    sample.deliver(Order("web", "a", "1", 1, "north", 0), Order("web", "b", "2", 2, "north", 3))
    sample.deliver(Order("mobile", "a", "1", 10, "north", 0))
    sample.update(sample.land([Order("mobile", "b", "2", 20, "north", 3)]))
    with pytest.raises(PromotionRefusedError, match="silver/mobile or silver/partner_newest has changed 2024-01-04 since"):
        promote()
    sample.publish()
    lake.settings.now = lake.now() + timedelta(hours=1)
    promote()
    assert sample.published(readers()) == {day(0): {None: (22, 2)}, day(3): {None: (44, 2)}}
    assert find_pending(lake, readers()).starts == set()
    sample.update(sample.land([Order("mobile", "c", "3", 30, "north", 3)]))
    assert find_pending(lake, readers()).starts == {day(3)}
