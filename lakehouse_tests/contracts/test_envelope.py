"""``source.envelope``: what a contract with one may not say as well."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from lakehouse.contracts.source import SourceContract
from lakehouse.delta import provenance

PLAIN: dict[str, Any] = {
    "dataset": "orders",
    "primary_key": ["id"],
    "model": {"fields": [{"name": "id", "type": "int"}]},
    "clocks": {"event": "at"},
}
FEED = PLAIN | {"source": {"format": "json", "envelope": "debezium"}}


def test_an_envelope_orders_the_changes() -> None:
    assert SourceContract.model_validate(FEED).by_sequence
    assert not SourceContract.model_validate(PLAIN).by_sequence


@pytest.mark.parametrize(
    ("envelope", "columns"),
    [
        ("debezium", ["id", "at"]),
        ("sqlserver", ["id", "at", "__$operation", "__$start_lsn", "__$seqval"]),
        ("delta_feed", ["id", "at", "_change_type", "_commit_version"]),
    ],
)
def test_a_file_must_have_the_columns_of_the_envelope(envelope: str, columns: list[str]) -> None:
    contract = SourceContract.model_validate(PLAIN | {"source": {"format": "json", "envelope": envelope}})
    assert contract.columns_read == columns


@pytest.mark.parametrize(
    ("changes", "mistake"),
    [
        ({"changes": {"op": "op"}}, "changes.op: 'source.envelope: debezium' says it already"),
        ({"changes": {"delete_words": ["x"]}}, "changes.delete_words: 'source.envelope: debezium' says it already"),
        ({"changes": {"corrects_event_id": "other"}}, "changes.corrects_event_id: 'source.envelope: debezium' says it"),
        ({"order": {"sequence": "lsn"}}, "order.sequence: 'source.envelope: debezium' says it already"),
        ({"source": {"format": "csv", "envelope": "debezium"}}, "debezium is read from JSON lines; set 'format: json'"),
        ({"source": {"envelope": "oracle"}}, "'debezium', 'sqlserver' or 'delta_feed'"),
        ({"materialization": {"reprocess_policy": "append"}}, "source.envelope: needs 'reprocess_policy: merge'"),
        ({"primary_key": [], "synthetic_key": {"fields": ["id"]}}, "synthetic_key: a change feed has the key of its table"),
        (
            {"kind": "dimension"},
            "clocks.event: the changes of a dimension begin when the database made them; name __source_ts_ms",
        ),
        (
            {
                "kind": "dimension",
                "source": {"envelope": "sqlserver"},
                "model": {"fields": [{"name": "id", "type": "int"}, {"name": "at", "type": "timestamp"}]},
            },
            "name the column with the time of the commit, and leave it out of model.fields",
        ),
    ],
)
def test_a_contradiction_is_named(changes: dict[str, Any], mistake: str) -> None:
    with pytest.raises(ValidationError, match=mistake):
        SourceContract.model_validate(FEED | changes)


def test_who_corrected_may_stand_in_a_column_of_the_row() -> None:
    contract = SourceContract.model_validate(FEED | {"changes": {"corrected_by": "editor"}})
    assert "editor" in contract.columns_read


def test_a_contract_without_an_envelope_has_the_version_of_before_there_were_any() -> None:
    contract = SourceContract.model_validate(PLAIN | {"order": {"sequence": "lsn"}})
    assert '"envelope"' in contract.model_dump_json()
    assert provenance.of_contract(contract) == "3f04248ef018"
