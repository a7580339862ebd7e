"""Facts get the attributes that are valid at their event time: each fact once, and none is lost."""

from __future__ import annotations

import pytest

from lakehouse_tests.support.joined_lake import joined_lake

pytestmark = pytest.mark.spark


def test_a_number_by_an_attribute_counts_each_fact_under_the_value_at_its_event_time(lake, spark) -> None:
    sample = joined_lake(lake, spark)
    sample.customer("ann", (2, ("basic", None, None)), (3.5, ("gold", None, None)), (5, None))
    sample.customer("bob", (1, (None, None, None)))
    sample.deliver(
        7, "a,1,1.9,ann", "b,2,2,ann", "c,4,3.25,ann", "d,8,3.5,ann", "e,16,5,ann", "f,32,3,bob", "g,64,3,", "h,128,3,eve"
    )
    assert sample.publish() == [{1, 2, 3, 5}]
    assert sample.published() == {
        1: {"unknown": 1},
        2: {"basic": 2},
        3: {"basic": 4, "gold": 8, None: 32, "unknown": 192},
        5: {"unknown": 16},
    }
