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


def test_sums_of_doubles_are_told_to_be_no_money() -> None:
    changes, doubles = given(watermark=True, kind="double")
    assert changes == "publication.after_close: 'adjust' needs measures that are decimals or integers"
    assert doubles == "measures[0].sql: use decimals for money: a double holds 16 digits, and has no adjustments"


@pytest.mark.parametrize(
    ("sequence", "told"),
    [
        ("updated_ms", True),
        ({"column": "changed_at", "type": "text"}, True),
        ("version", False),
        ("lsn", False),
        ("attempt", False),
    ],
)
def test_a_sequence_that_may_hold_times_is_told_to_have_no_bound(sequence: Any, told: bool) -> None:
    fields = [{"name": "id", "type": "string"}]
    terms = {"dataset": "shop", "primary_key": ["id"], "clocks": {"event": "at"}, "model": {"fields": fields}}
    source = SourceContract.model_validate({**terms, "order": {"sequence": sequence}})
    assert [text.split(":")[0] for text in effect.on_source(source)] == ["order.sequence"] * told
