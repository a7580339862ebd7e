"""The key ``alerts:`` of contracts, and the mistakes that are named."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from lakehouse.contracts import ContractError, MetricContract, SourceContract, load_contract
from lakehouse.contracts.alerts import Rhythm

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = """\
dataset: shop
primary_key: id
clocks: {event: at}
model:
  fields:
    - {name: id, type: int}
"""
METRIC = """\
metric: turnover
source: shop
grain: [store]
measures:
  - {name: total, sql: sum(id), type: long}
  - {name: name, sql: max(name), type: string}
"""


def loaded(tmp_path: Path, text: str) -> SourceContract | MetricContract:
    file = tmp_path / "contract.yaml"
    file.write_text(text)
    return load_contract(file)


def test_without_settings_everything_has_its_default_bounds(tmp_path: Path) -> None:
    source = loaded(tmp_path, SOURCE)
    assert isinstance(source, SourceContract)
    assert source.alerts.lag is not None
    assert source.alerts.late_share is not None
    assert (source.alerts.lag.factor, source.alerts.lag.days) == (2, 7)
    assert (source.alerts.late_share.above, source.alerts.late_share.lasting) == (None, timedelta(hours=1))
    assert (source.alerts.silent_source, source.alerts.unfinished_after) == ("with_watermark", timedelta(hours=6))
    assert (source.alerts.watermark_stalled, source.alerts.failed_checks) == (Rhythm(), "error")
    metric = loaded(tmp_path, METRIC)
    assert isinstance(metric, MetricContract)
    assert metric.alerts.restatements is not None
    assert (metric.alerts.restatements.sigma, metric.alerts.restatements.weeks) == (2, 4)
    assert (metric.alerts.values, metric.alerts.live_tolerance) == ([], Decimal("0.1"))


def test_given_values_are_kept_exactly(tmp_path: Path) -> None:
    alerts = "alerts:\n  lag: null\n  late_share: {above: 0.07, lasting: PT30M, needs_rows: 5}\n"
    source = loaded(tmp_path, f"{SOURCE}lateness: {{watermark: P2D}}\n{alerts}")
    assert isinstance(source, SourceContract)
    assert source.alerts.lag is None
    assert source.alerts.late_share is not None
    assert (source.alerts.late_share.above, source.alerts.late_share.lasting) == (Decimal("0.07"), timedelta(minutes=30))
    metric = loaded(tmp_path, f"{METRIC}alerts:\n  values: [{{measure: total, below: 0.1, where: {{store: 5}}}}]\n")
    assert isinstance(metric, MetricContract)
    [bound] = metric.alerts.values
    assert (bound.below, bound.where) == (Decimal("0.1"), {"store": "5"})
    assert MetricContract.model_validate_json(metric.model_dump_json()) == metric, "it is kept in ops/contracts as JSON"


def test_the_least_and_the_greatest_bounds_are_taken(tmp_path: Path) -> None:
    for days in (1, 90):
        source = loaded(tmp_path, f"{SOURCE}alerts: {{lag: {{days: {days}, needs_rows: 1}}}}\n")
        assert isinstance(source, SourceContract)
        assert source.alerts.lag is not None
        assert (source.alerts.lag.days, source.alerts.lag.needs_rows) == (days, 1)
    for days in (0, 91):
        with pytest.raises(ContractError, match=r"alerts\.lag\.days"):
            loaded(tmp_path, f"{SOURCE}alerts: {{lag: {{days: {days}}}}}\n")


@pytest.mark.parametrize(
    ("text", "alerts", "message"),
    [
        (METRIC, "values: [{measure: totl, below: 1}]", "no measure is called 'totl'; there are total, name"),
        (METRIC, "values: [{measure: name, below: 1}]", "'name' is a string; only numbers have bounds"),
        (METRIC, "values: [{measure: total}]", "give below, above or both"),
        (METRIC, "values: [{measure: total, below: 2, above: 1}]", "every value would alert"),
        (METRIC, "values: [{measure: total, below: 1, where: {stor: x}}]", "stor is no grain column; there are store"),
        (METRIC, "live_tolerance: 10", "less than or equal to 1"),
        (METRIC, "restatements: {weeks: 1}", "greater than or equal to 2"),
        (SOURCE, "late_share: {above: 2}", "less than or equal to 1"),
        (SOURCE, "late_share: {lasting: P8D}", "less than or equal to 7 days"),
        (SOURCE, "lag: {factor: 1}", "greater than 1"),
        (SOURCE, "lags: {}", "alerts.lags"),
        (SOURCE, "silent_source: {factor: 1}", "greater than 1"),
        (SOURCE, "watermark_stalled: {days: 1}", "greater than or equal to 7"),
        (SOURCE, "unfinished_after: -PT1H", "greater than or equal to"),
        (SOURCE, "failed_checks: fatal", "'error' or 'warn'"),
        (METRIC, "failed_checks: fatal", "'error' or 'warn'"),
        (METRIC, "live_state: {rows: 1}", "alerts.live_state: is about the stream of the metric; add 'live: true'"),
        (METRIC, "live_unread_after: PT1M", "alerts.live_unread_after: is about the stream of the metric"),
        (f"{METRIC}live: true\n", "live_state: {}", "has no bound; give rows, bytes or both"),
        (SOURCE, "stream_lag: {messages: 1}", "only a source of 'landing: kafka' has such a lag"),
        (SOURCE, "stream_lag: {}", "has no bound; give messages, age or both"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, alerts: str, message: str) -> None:
    with pytest.raises(ContractError) as problem:
        loaded(tmp_path, f"{text}alerts: {{{alerts}}}\n")
    assert "contract.yaml" in problem.value.mistakes[0]
    assert message in problem.value.mistakes[0]
