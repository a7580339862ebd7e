"""The contract of a dimension: what it needs, what it excludes, and that other contracts keep their version."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from lakehouse.contracts.source import SourceContract
from lakehouse.delta import provenance
from lakehouse_tests.support.dimension_lake import dimension
from lakehouse_tests.support.lake import contract


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"materialization": {"reprocess_policy": "append"}, "changes": {}}, "needs 'merge'"),
        ({"primary_key": [], "synthetic_key": {"fields": ["tier"]}}, "a dimension needs a primary_key"),
        ({"changes": {"corrects_event_id": "old"}}, "is corrected by a later record about the same key and event time"),
        ({"dimension": {"untracked": ["colour"]}}, "not among model.fields: colour"),
        ({"dimension": {"untracked": ["customer_id"]}}, "customer_id is part of the primary key"),
        ({"changes": {"op": "op", "retract_words": ["D"]}}, "these words have two meanings: d"),
        ({"dimension": {"buckets": 0}}, "greater than or equal to 1"),
        ({"kind": "event"}, "only a source with 'kind: dimension' has this section"),
        (
            {"kind": "event", "dimension": {}, "changes": {"retract_words": ["undo"]}},
            "only a source with 'kind: dimension' has them",
        ),
    ],
)
def test_a_mistake_is_explained(keys: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        dimension(**keys)


@pytest.mark.parametrize("name", ["valid_to", "bucket", "key_ends"])
def test_a_column_of_the_tables_is_no_field(name: str) -> None:
    fields = [{"name": "customer_id", "type": "string"}, {"name": name, "type": "string"}]
    with pytest.raises(ValidationError, match=f"a dimension fills {name} itself"):
        dimension(model={"fields": fields}, dimension={})
    contract(model={"fields": [{"name": "id", "type": "string"}, fields[1]]})


def test_the_version_of_a_dimension_follows_its_section_and_that_of_other_sources_does_not() -> None:
    tracked = dimension(dimension={"buckets": 3, "valid_to": "until"})
    assert provenance.of_contract(tracked) != provenance.of_contract(dimension())
    assert provenance.of_contract(contract()) == "96f2d104080d", "the version of before there were dimensions"


def test_a_contract_is_the_same_after_it_was_written_and_read() -> None:
    for source in (dimension(), contract()):
        assert SourceContract.model_validate_json(source.model_dump_json()) == source
