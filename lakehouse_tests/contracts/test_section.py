"""The section ``source`` of a contract: a topic of Kafka, and what does not fit it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from lakehouse.contracts.inputs import OF_A_MESSAGE
from lakehouse.delta import provenance
from lakehouse.delta.columns import bronze_columns
from lakehouse_tests.support import kafka_lake, lake


def test_a_source_of_files_has_the_columns_and_the_version_of_before_there_were_topics() -> None:
    assert not {name for name, _ in OF_A_MESSAGE} & {name for name, _ in bronze_columns(lake.contract())}
    assert set(OF_A_MESSAGE) <= set(bronze_columns(kafka_lake.contract("t", "a:1")))


def test_where_a_topic_is_read_is_not_part_of_the_version_of_a_contract() -> None:
    version = provenance.of_contract(kafka_lake.contract("t", "a:1"))
    assert version == "9cb293399c0e", "a contract keeps the version of before there were registered schemas"
    assert provenance.of_contract(kafka_lake.contract("t", "b:1", {"options": {"fetch.wait.max.ms": 10}})) == version
    assert provenance.of_contract(kafka_lake.contract("t", "a:1", {"tombstones": "delete"})) != version
    assert provenance.of_contract(kafka_lake.contract("u", "a:1")) != version
    avro, moved = ({"values": {"format": "avro", "registry": f"http://{host}"}} for host in ("a", "b"))
    of_avro = provenance.of_contract(kafka_lake.contract("t", "a:1", avro))
    assert of_avro != version
    assert provenance.of_contract(kafka_lake.contract("t", "a:1", moved)) == of_avro


@pytest.mark.parametrize(
    ("kafka", "changes", "text"),
    [
        ({"options": {"group.id": "x"}}, {}, "group.id: leave it out, because the offsets are kept in Bronze"),
        ({"options": {"sasl.password": "x"}}, {}, "sasl.password: is secret and has no place in a contract"),
        ({"topic": "a*"}, {}, "is no name of a topic"),
        ({"values": {"format": "avro", "registry": "registry:8081"}}, {}, "should match pattern '^https?://'"),
        ({"values": {"format": "avro", "registry": "http://u:p@registry"}}, {}, "set LAKEHOUSE_SCHEMA_REGISTRY_OPTIONS"),
        ({"values": {"format": "json", "registry": "http://registry"}}, {}, "should be 'avro'"),
        (
            {},
            {"materialization": {"reprocess_policy": "overwrite_all"}, "changes": {}},
            "under overwrite_all a delivery replaces others",
        ),
        ({"tombstones": "delete"}, {"changes": {}}, "needs 'changes.op'"),
        (
            {},
            {"model": {"fields": [{"name": "id", "type": "string"}, {"name": "kafka_key", "type": "string"}]}},
            "kafka_key another",
        ),
    ],
)
def test_what_does_not_fit_a_topic_is_refused(kafka: dict[str, Any], changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ValidationError) as problem:
        kafka_lake.contract("t", "a:1", kafka, **changes)
    assert text in str(problem.value)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ({"landing": "kafka", "format": "json"}, "give both or neither"),
        ({"kafka": {"topic": "t", "servers": "a:1"}, "format": "json"}, "give both or neither"),
        ({"landing": "kafka", "kafka": {"topic": "t", "servers": "a:1"}}, "messages are read as JSON"),
        ({"landing": "kafkas"}, "must name the arrival day once"),
    ],
)
def test_a_topic_and_landing_go_together(source: dict[str, Any], text: str) -> None:
    with pytest.raises(ValidationError) as problem:
        lake.contract(source=source)
    assert text in str(problem.value)
