"""What a contract may say of the speed layer, and what its mistakes are told."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from lakehouse.contracts.loader import ContractError, load_catalog
from lakehouse.contracts.metric import MetricContract
from lakehouse_tests.support.contract_texts import EVENTS_SOURCE, TOTAL_METRIC

if TYPE_CHECKING:
    from pathlib import Path

_DERIVED = "metric: per_row\nfrom: [total]\nmeasures:\n  - {name: share, sql: total.total, type: double}\nlive: true\n"


def load(folder: Path, text: str) -> MetricContract:
    (folder / "events.yaml").write_text(EVENTS_SOURCE)
    (folder / "total.yaml").write_text(text)
    return load_catalog(folder, bundled=False).metrics["total"]


def test_live_true_has_all_defaults_and_false_is_none(tmp_path: Path) -> None:
    live = load(tmp_path, f"{TOTAL_METRIC}live: true\nreconcile: {{threshold: 0.02}}\n")
    assert live.live is not None
    assert (live.live.watermark, live.live.trigger) == (timedelta(minutes=10), timedelta(seconds=5))
    assert live.reconcile is not None
    assert live.reconcile.threshold == 0.02
    assert MetricContract.model_validate(live.model_dump(mode="json")).model_dump() == live.model_dump()
    odd = load(tmp_path, f"{TOTAL_METRIC}live: {{open_for: PT0.005S}}\n").live
    assert odd is not None
    assert odd.watermark == timedelta(milliseconds=5)
    assert load(tmp_path, f"{TOTAL_METRIC}live: false\n").live is None
    assert load(tmp_path, TOTAL_METRIC).live is None


@pytest.mark.parametrize(
    ("more", "mistake"),
    [
        ("live: {delay: PT1M}", "5: live.delay: unknown key"),
        ("live: {open_for: PT0.0005S}", "5: live.open_for: Spark counts in milliseconds"),
        ("live: true\nwindow: 7", "5: live: the stream has no windows of 7 days"),
        ("live: true\nwindow: {gap: PT30M, key: id}", "5: live: the stream has no sessions"),
        ("reconcile: {threshold: 0.1}", "5: reconcile: compares live numbers with published ones; add 'live: true'"),
        ("live: true\nreconcile: {threshold: -1}", "6: reconcile.threshold: Input should be greater than or equal to 0"),
    ],
)
def test_a_mistake_names_line_and_field(tmp_path: Path, more: str, mistake: str) -> None:
    with pytest.raises(ContractError) as raised:
        load(tmp_path, f"{TOTAL_METRIC}{more}\n")
    assert f"{raised.value}".startswith(f"{tmp_path}/total.yaml:{mistake}")


@pytest.mark.parametrize(
    ("sql", "mistake"),
    [
        ("count(distinct amount)", "counts distinct values, which Spark refuses over a stream; take approx_count_distinct"),
        ("percentile_cont(0.5) WITHIN GROUP (ORDER BY amount)", "sorts the rows of a group, which Spark refuses over a stream"),
    ],
)
def test_what_a_stream_cannot_compute_is_refused(tmp_path: Path, sql: str, mistake: str) -> None:
    with pytest.raises(ContractError, match="the measure total") as raised:
        load(tmp_path, f"{TOTAL_METRIC}live: true\n".replace("sum(amount)", sql))
    assert f"{raised.value}".startswith(f"{tmp_path}/total.yaml:5: live: the measure total {mistake}")


def test_only_a_metric_of_one_source_without_joins_is_live(tmp_path: Path) -> None:
    (tmp_path / "derived.yaml").write_text(_DERIVED)
    with pytest.raises(ContractError, match="live: a derived metric reads no rows, so there is nothing to stream"):
        load(tmp_path, TOTAL_METRIC)
    keys = {"metric": "total", "measures": [{"name": "total", "sql": "sum(amount)", "type": "long"}], "live": True}
    with pytest.raises(ValueError, match="live: the stream reads one source"):
        MetricContract.model_validate({**keys, "sources": ["web", "mobile"]})
    joins = [{"dimension": "stores", "on": ["store"], "columns": ["region"]}]
    with pytest.raises(ValueError, match="live: the stream does not join dimensions"):
        MetricContract.model_validate({**keys, "source": "web", "joins": joins})
