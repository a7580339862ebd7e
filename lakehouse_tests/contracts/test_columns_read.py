"""Which columns of Silver a metric reads. Its numbers are compared with plain models in the laws of ``restatement``."""

from __future__ import annotations

import pytest

from lakehouse.contracts.metric import MetricContract

COLUMNS = ["event_date", "record_key", "region", "kwh", "price", "Quality"]


@pytest.mark.parametrize(
    ("sql", "read"),
    [
        ("count(*)", {"event_date", "region"}),
        ("sum(kwh * price)", {"event_date", "region", "kwh", "price"}),
        ("sum(kwh) FILTER (WHERE `QUALITY` = 1)", {"event_date", "region", "kwh", "Quality"}),
        ("count(DISTINCT record_key)", {"event_date", "region", "record_key"}),
        ("count(distinct *)", set(COLUMNS)),
        ("max(hash(*))", set(COLUMNS)),
        ("max(hash(1, *))", set(COLUMNS)),
        ("sum(kwh) / count( * )", {"event_date", "region", "kwh"}),
        ("round(count(*) * 100 / 3)", {"event_date", "region"}),
        ("max(hash(readings.*))", set(COLUMNS)),
        ("sum((kwh)* price)", {"event_date", "region", "kwh", "price"}),
    ],
)
def test_a_metric_reads_the_columns_that_its_expressions_name(sql: str, read: set[str]) -> None:
    measures = [{"name": "number", "sql": sql, "type": "bigint"}]
    metric = MetricContract.model_validate({"metric": "m", "source": "s", "grain": ["region"], "measures": measures})
    assert set(metric.columns_read(COLUMNS)) == read
