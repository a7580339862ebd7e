"""What follows from keys that a contract leaves out."""

from __future__ import annotations

from typing import Any

import pytest

from lakehouse.contracts import effect
from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.source import SourceContract


def given(watermark: bool, kind: str, **publication: Any) -> list[str]:
    clocks: dict[str, Any] = {"event": "at"}
    clocks |= {"watermark": {"strategy": "bounded", "max_lateness": "P3D"}} if watermark else {}
    fields = [{"name": "id", "type": "string"}, {"name": "amount", "type": kind}]
    shop = SourceContract.model_validate(
        {"dataset": "shop", "primary_key": ["id"], "clocks": clocks, "model": {"fields": fields}}
    )
    measure = {"name": "total", "sql": "count(*) + sum( Amount)", "type": "double" if kind == "double" else "decimal(38,2)"}
    metric = MetricContract.model_validate({"metric": "m", "source": "shop", "measures": [measure], "publication": publication})
    return [text.split(":")[0] + ": " + text.split("; ")[-1] for text in effect.on_metric(metric, {"shop": shop})]


def test_a_metric_that_promises_what_final_means_needs_no_advice() -> None:
    assert given(watermark=True, kind="decimal(12,2)", after_close="adjust") == []


def test_final_by_the_calendar_and_final_that_changes_are_told() -> None:
    by_calendar, changes = given(watermark=False, kind="decimal(12,2)", final_after=9)
    assert by_calendar == (
        "publication: publication: a number is final 9 days after its period by the calendar, whether or not everything has "
        "arrived, because shop has no clocks.watermark"
    )
    assert changes == "publication.after_close: 'adjust' books the change in the open day"


def test_one_measure_that_cannot_be_booked_is_enough() -> None:
    measures = [{"name": "a", "sql": "count(*)", "type": "long"}, {"name": "b", "sql": "avg(amount)", "type": "double"}]
    metric = MetricContract.model_validate({"metric": "m", "source": "shop", "measures": measures})
    assert [
        text for text in effect.on_metric(metric, {}) if text.endswith("'adjust' needs measures that are decimals or integers")
    ]


def test_sums_of_doubles_are_told_to_be_no_money() -> None:
    changes, doubles = given(watermark=True, kind="double")
    assert changes == "publication.after_close: 'adjust' needs measures that are decimals or integers"
    assert doubles == "measures[0].sql: use decimals for money: a double holds 16 digits, and has no adjustments"


@pytest.mark.parametrize(
    ("sequence", "is_named"),
    [
        ("updated_ms", True),
        ({"column": "changed_at", "type": "text"}, True),
        ({"column": "changed_at", "type": "time"}, False),
        ("version", False),
        ("lsn", False),
        ("attempt", False),
    ],
)
def test_a_sequence_that_may_hold_times_is_told_to_have_no_bound(sequence: Any, is_named: bool) -> None:
    fields = [{"name": "id", "type": "string"}]
    terms = {"dataset": "shop", "primary_key": ["id"], "clocks": {"event": "at"}, "model": {"fields": fields}}
    source = SourceContract.model_validate({**terms, "order": {"sequence": sequence}})
    assert [text.split(":")[0] for text in effect.on_source(source)] == ["order.sequence"] * is_named


def dated(dataset: str, zone: str, kind: str) -> dict[str, Any]:
    fields = [{"name": "id", "type": "string"}, {"name": "customer", "type": "string"}, {"name": "at", "type": kind}]
    clocks = {"event": "at", "timezone": zone, "naive_times": "in_timezone", "watermark": {"strategy": "bounded"}}
    clocks["watermark"] |= {"max_lateness": "P3D"}
    return {"dataset": dataset, "primary_key": ["id"], "clocks": clocks, "model": {"fields": fields}}


@pytest.mark.parametrize(
    ("zone", "customers_know", "shop_knows", "is_named"),
    [
        ("UTC", "date", "timestamp", True),
        ("UTC", "timestamp", "date", True),
        ("UTC", "string", "timestamp", True),
        ("UTC", "timestamp", "timestamp", False),
        ("America/New_York", "date", "date", False),
    ],
)
def test_days_that_begin_at_different_times_on_the_two_sides_of_a_join_are_told(
    zone: str, customers_know: str, shop_knows: str, is_named: bool
) -> None:
    shop = SourceContract.model_validate(dated("shop", zone, shop_knows))
    customers = SourceContract.model_validate(dated("customers", "America/New_York", customers_know) | {"kind": "dimension"})
    metric = MetricContract.model_validate(
        {
            "metric": "m",
            "source": "shop",
            "joins": [{"dimension": "customers", "on": "customer", "columns": ["customer"]}],
            "measures": [{"name": "n", "sql": "count(*)", "type": "bigint"}],
            "publication": {"after_close": "adjust"},
        }
    )
    advice = list(effect.on_metric(metric, {"shop": shop, "customers": customers}))
    assert ["joins[0]: a day of customers begins at midnight in America/New_York, a day of shop" in text for text in advice] == (
        [True] if is_named else []
    )


@pytest.mark.parametrize(("zone", "is_named"), [("America/New_York", True), ("UTC", False)])
def test_a_derived_metric_over_days_that_begin_at_different_times_is_told(zone: str, is_named: bool) -> None:
    sources = {name: SourceContract.model_validate(dated(name, of, "timestamp")) for name, of in (("shop", "UTC"), ("web", zone))}
    measures = [{"name": "n", "sql": "count(*)", "type": "bigint"}]
    inputs = [{"metric": "sales", "source": "shop"}, {"metric": "visits", "source": "web"}]
    ratio = {"measures": [measures[0] | {"sql": "sales.n / visits.n"}], "from": ["sales", "visits"], "metric": "ratio"}
    doubled = {"measures": [measures[0] | {"sql": "2 * ratio.n"}], "from": ["ratio"], "metric": "doubled"}
    metrics = {each["metric"]: MetricContract.model_validate({"measures": measures} | each) for each in (*inputs, ratio, doubled)}
    expected = (
        "from: a day of sales begins at midnight in UTC, a day of visits at midnight in America/New_York, so that numbers of one "
        "date cover different hours; set the same 'clocks.timezone' if both mean the same days"
    )
    assert list(effect.on_metric(metrics["ratio"], sources, metrics)) == [expected] * is_named
    assert list(effect.on_metric(metrics["doubled"], sources, metrics)) == [], "its one input is told about its own"
    doubled["from"] = ["ratio", "sales"]
    both = list(effect.on_metric(MetricContract.model_validate(doubled), sources, metrics))
    assert [text.startswith("from: a day of ratio begins at midnight in UTC and America/New_York") for text in both] == (
        [True] * is_named
    )
    assert list(effect.on_metric(metrics["ratio"], sources, {})) == []
