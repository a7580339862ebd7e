"""The dataset version that readers see, and how it guards each commit of daily numbers. No Spark."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from lakehouse import locations
from lakehouse.calendar.periods import Kind
from lakehouse.contracts.series import Series
from lakehouse.delta import row_writer
from lakehouse.gold.numbers import served_version
from lakehouse.ledger import publications
from lakehouse.ledger.publications import Restatement
from lakehouse_tests.support.api_client import catalog
from lakehouse_tests.support.late_lake import late
from lakehouse_tests.support.numbers_without_spark import metric
from lakehouse_tests.support.windowed_lake import TUMBLING

if TYPE_CHECKING:
    from lakehouse.lake import Lake


def test_a_dataset_version_is_served_under_the_name_that_readers_know() -> None:
    first, second, other = metric(), metric(dataset_version=2), metric("orders", dataset_version=2)
    contracts = catalog(other, first, second)
    served = served_version.version(contracts, first, 2)
    assert (served.metric, served.name) == (second, "total")
    assert served_version.version(contracts, second, 1).metric == first
    with pytest.raises(served_version.UnservedVersionError, match=r"'dataset_version: 3' \(there are \[1, 2\]\)"):
        served_version.version(contracts, first, 3)


def test_the_days_of_a_metric_are_those_of_the_promoted_version(lake: Lake) -> None:
    first, second = metric(), metric(dataset_version=2)
    contracts = catalog(first, second)
    assert served_version.daily(lake, contracts, first) == Series(first)
    table = locations.gold(lake, Series(first))
    row_writer.append(table, pa.table({"total": [1]}), once=row_writer.Once(served_version.SERVED, 2))
    assert served_version.daily(lake, contracts, first) == Series(second, called="total")
    assert served_version.daily(lake, contracts, second) == Series(second)


def test_only_days_that_readers_see_take_part_in_a_promotion() -> None:
    second = metric(dataset_version=2, publication={"rollups": ["week"]})
    assert served_version.transaction(Series(metric()), None) == (served_version.SERVED, 1)
    assert served_version.transaction(Series(second), None) is None, "a version beside the served one"
    assert served_version.transaction(Series(second, Kind.WEEK, "total"), None) is None
    with pytest.raises(served_version.MovedError, match="shows v1 now, but these numbers were computed with v2"):
        served_version.transaction(Series(second, called="total"), None)


def test_a_further_table_that_was_created_again_is_followed_from_its_beginning(lake: Lake) -> None:
    series, now = Series(late(TUMBLING, "update")), datetime(2024, 2, 1, tzinfo=timezone.utc)
    table = locations.late_rows(lake, "orders")
    row_writer.append(table, pa.table({"record_key": ["a"]}))

    def run(number: int, commit: str) -> None:
        versions, commits = {"orders_late": 0, "of_another_contract": 2}, {"orders_late": commit}
        entry = Restatement(series.name, "run", now + timedelta(hours=number), number, number, [])
        publications.record_restatement(lake, replace(entry, followed_further=versions, further_commits=commits))

    assert served_version.followed_further(lake, series) == {}
    run(0, served_version.commit_at(table, 0))
    assert served_version.followed_further(lake, series) == {"orders_late": 0, "of_another_contract": 2}
    run(1, "a commit that was lost")
    assert served_version.followed_further(lake, series) == {"of_another_contract": 2}
