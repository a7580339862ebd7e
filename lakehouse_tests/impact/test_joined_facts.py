"""The impact of a dimension's changes on the numbers of metrics that join it."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from lakehouse.contracts.metric import MetricContract
from lakehouse.impact import analysis
from lakehouse_tests.support import dimension_lake
from lakehouse_tests.support.dimension_model import DimensionRecord, day
from lakehouse_tests.support.joined_histories import BY_TIER, MAILS, Fact, JoinedHistory
from lakehouse_tests.support.joined_lake import TOTAL

pytestmark = pytest.mark.spark

ONE, TWO, THREE = (date(2024, 1, number) for number in (1, 2, 3))


def change(key: str, at: float, tier: str) -> DimensionRecord:
    return DimensionRecord(key, day(at), "", tier, "north", "a", None, day(10))


def fact(key: str, at: float, customer: str) -> Fact:
    return Fact(key, 1, day(at), customer, "insert")


def joined(columns: list[Any], measures: list[Any], name: str = "by_tier") -> MetricContract:
    joins = [{"dimension": "customers", "on": "customer", "columns": columns}]
    return MetricContract.model_validate({"source": "events", **BY_TIER, "metric": name, "joins": joins, "measures": measures})


def starts(impact: analysis.Impact) -> list[date]:
    """The days of the metric by tier; that by mail has all days of a customer, because an address holds at all times."""
    assert {period.start for period in impact.periods if period.series == "by_mail"} in ({ONE, TWO, THREE}, set())
    return [period.start for period in impact.periods if period.series == "by_tier"]


@pytest.mark.merge
def test_a_change_affects_the_days_of_its_facts_until_the_next_change_of_the_key(lake, spark, tmp_path: Path) -> None:
    sample = JoinedHistory(
        lake, spark, [joined(["tier"], [TOTAL]), joined(["tier", {"email": "mail"}], [TOTAL, MAILS], "by_mail")]
    )
    sample.apply(sample.land([fact("a", 0.5, "1"), fact("b", 1.5, "1"), fact("c", 2.5, "1"), fact("d", 1.5, "2")]))
    sample.apply(sample.land([change("1", 0, "basic"), change("2", 0, "basic"), change("1", 2, "gold")]))

    local = tmp_path / "late.csv"
    local.write_bytes(dimension_lake.csv_file([change("1", 1, "silver")]))
    foreseen = analysis.of_file(lake, sample.catalog, "customers", f"{local}")
    assert (foreseen.applied, starts(foreseen), foreseen.moved) == (False, [TWO], [])

    restated, _ = sample.apply(sample.land([change("1", 1, "silver")]))
    assert restated == {TWO}
    source_file = analysis.of_file(lake, sample.catalog, "customers", f"customers.arrival_date=2024-01-12.{sample.delivered}.csv")
    assert (source_file.applied, starts(source_file)) == (True, [TWO])
    assert [(moved.series, moved.period) for moved in source_file.moved] == [("by_tier", "2024-01-02"), ("by_mail", "2024-01-02")]

    of_key = analysis.of_key(lake, sample.catalog, "customers", '["1","2024-01-03T00:00:00.000000Z"]')
    assert starts(of_key) == [THREE], "from that change on"
    of_days = analysis.of_days(lake, sample.catalog, "customers", ONE, ONE)
    assert starts(of_days) == []
    assert "gold/by_tier joins customers" in of_days.notes[0]
