"""The section ``late_events`` of a metric's contract: defaults, and what it demands of the source."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from lakehouse.contracts.loader import load_catalog
from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.publication import LateAction, LateEvents
from lakehouse.contracts.yaml_file import ContractError
from lakehouse.delta import provenance

SOURCE: dict[str, Any] = {
    "dataset": "orders",
    "primary_key": ["id"],
    "model": {"fields": [{"name": "id", "type": "string"}, {"name": "amount", "type": "int"}]},
    "clocks": {"event": "at", "arrival": "seen", "watermark": {"strategy": "bounded", "max_lateness": "PT1H"}},
}
METRIC: dict[str, Any] = {
    "metric": "total",
    "source": "orders",
    "measures": [{"name": "total", "sql": "sum(amount)", "type": "bigint"}],
    "late_events": {"allowed_lateness": "PT5M"},
}


def mistakes(folder: Path, *contracts: dict[str, Any]) -> list[str]:
    for number, content in enumerate(contracts):
        (folder / f"{number}.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    with pytest.raises(ContractError) as problem:
        load_catalog(folder, bundled=False)
    return list(problem.value.mistakes)


def test_the_tolerance_is_zero_where_late_rows_never_count() -> None:
    five = timedelta(minutes=5)
    assert {action.value: LateEvents(allowed_lateness=five, action=action).tolerance for action in LateAction} == {
        "drop": timedelta(0),
        "side_output": timedelta(0),
        "update": five,
        "recompute": five,
    }


def test_the_contract_of_a_metric_without_late_events_has_the_hash_of_before() -> None:
    plain = {key: value for key, value in METRIC.items() if key != "late_events"}
    assert "late_events" not in MetricContract.model_validate(plain).model_dump(exclude_none=True)
    hashes = {
        provenance.of_contract(MetricContract.model_validate(content)) for content in (plain, {**plain, "late_events": None})
    }
    assert hashes == {"9895b33ca0a4"}
    assert provenance.of_contract(MetricContract.model_validate(METRIC)) not in hashes


@pytest.mark.parametrize(
    ("source", "metric", "text"),
    [
        ({"clocks": {"event": "at", "arrival": "seen"}}, {}, "orders has no watermark that an event could be late against"),
        (
            {"materialization": {"reprocess_policy": "overwrite_all"}, "changes": {}},
            {},
            "under 'reprocess_policy: overwrite_all' of orders a whole delivery replaces another",
        ),
        ({}, {"source": None, "sources": ["orders", "others"]}, "rows of several sources meet several watermarks"),
        ({}, {"late_events": {"action": "ignore"}}, "Input should be 'drop', 'side_output', 'update' or 'recompute'"),
    ],
)
def test_what_does_not_fit_is_said_with_the_line(
    tmp_path: Path, source: dict[str, Any], metric: dict[str, Any], text: str
) -> None:
    content = {key: value for key, value in {**METRIC, **metric}.items() if value is not None}
    [mistake] = mistakes(tmp_path, SOURCE | source, SOURCE | {"dataset": "others"}, content)
    assert text in mistake
    assert "2.yaml:" in mistake
    assert "late_events" in mistake


def test_a_derived_metric_has_none(tmp_path: Path) -> None:
    derived = {
        "metric": "double",
        "from": ["total"],
        "measures": [{"name": "double", "sql": "2 * total.total", "type": "bigint"}],
        "late_events": {},
    }
    found = mistakes(tmp_path, SOURCE, METRIC, derived)
    assert any("a derived metric reads no rows" in mistake for mistake in found)


def test_a_topic_of_the_side_output_changes_no_number() -> None:
    address = {"topic": "late-orders", "servers": "broker:9092"}
    of_terms = [{"allowed_lateness": "PT5M"}, {"allowed_lateness": "PT5M", "topic": address}]
    hashes = [provenance.of_contract(MetricContract.model_validate({**METRIC, "late_events": terms})) for terms in of_terms]
    assert hashes[0] == hashes[1]
    with pytest.raises(ValidationError, match="is secret and has no place in a contract"):
        LateEvents.model_validate({"topic": {**address, "options": {"sasl.password": "x"}}})
    with pytest.raises(ValidationError, match="is no name of a topic"):
        LateEvents.model_validate({"topic": {**address, "topic": "late orders"}})
