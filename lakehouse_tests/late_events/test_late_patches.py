"""The action ``update`` patches published numbers where that is exact and few rows of a window are late: the same numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given

from lakehouse.contracts.series import Series
from lakehouse.gold.publication import write_audit_publish
from lakehouse.gold.restatement import patched_days
from lakehouse.gold.restatement.pending import find_pending
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.late_lake import CORNERS, LateLake, histories, late
from lakehouse_tests.support.laws import law
from lakehouse_tests.support.windowed_lake import FIRST, TUMBLING, Event

if TYPE_CHECKING:
    from datetime import date

    from lakehouse.lake import Lake

pytestmark = pytest.mark.spark

_TOTAL = {"name": "total", "sql": "coalesce(sum(amount), 0)", "type": "bigint", "additive": True}
ADDITIVE = {**TUMBLING, "measures": [_TOTAL]}


def patched(sample: LateLake) -> set[date]:
    """The days that the first metric would patch now."""
    series = Series(sample.metrics[0])
    starts = sorted(find_pending(sample.lake, series).starts)
    return set(patched_days.numbers(sample.session, sample.lake, write_audit_publish.read(sample.lake, series, starts), starts))


@pytest.mark.merge
def test_a_window_is_patched_while_few_of_its_rows_are_late(lake: Lake, spark: Any) -> None:
    sample = LateLake(lake, spark, [late(ADDITIVE, "update", 600, patch={"below": 0.3})])
    sample.deliver_at(0, *(Event(f"order {number}", number) for number in range(5)), Event("next", 75))
    sample.land_at(1, Event("first", 30))
    sample.update("orders")
    assert patched(sample) == {FIRST}, "one of five"
    sample.publish()
    sample.land_at(2, Event("second", 31))
    sample.update("orders")
    assert patched(sample) == set(), "two of six"
    sample.publish()
    assert sample.seen() == sample.by_model()


@pytest.mark.merge
def test_a_day_with_rows_that_do_not_count_is_computed_again(lake: Lake, spark: Any) -> None:
    sample = LateLake(lake, spark, [late(ADDITIVE, "update", 30, patch={"below": 1})])
    sample.deliver_at(0, *(Event(f"order {number}", number) for number in range(5)), Event("next", 75))
    sample.deliver_at(1, Event("later", 130))
    sample.deliver_at(2, Event("beyond", 30, 100))
    sample.land_at(3, Event("within", 80), Event("on time", 140))
    sample.update("orders")
    assert patched(sample) == set()
    sample.publish()
    assert sample.seen() == sample.by_model()


@pytest.mark.merge
@law(25)
@example(history=CORNERS)
@given(history=histories())
def test_patched_and_computed_numbers_are_the_same(tmp_path_factory, spark, history) -> None:
    metrics = [late({**ADDITIVE, "metric": action}, action, 90, patch={"below": 1}) for action in ("update", "recompute")]
    sample = LateLake(lake_in(tmp_path_factory.mktemp("lake")), spark, metrics)
    for arrived, events in history:
        sample.deliver_at(arrived, *events)
        updated, recomputed = sample.seen()
        assert updated == recomputed == sample.expected(metrics[0])
    assert sample.unlike_published() == []
