"""Messages that Bronze or the key log has lost: read again from the topic, derived again from Bronze, or named."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition

from lakehouse import locations
from lakehouse.ledger.ingestions import LostRowsError
from lakehouse_tests.support.kafka_lake import KafkaLake, at, contract, event

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakehouse.lake import Lake
    from lakehouse_tests.support.kafka_broker import KafkaBroker

pytestmark = pytest.mark.merge


@pytest.fixture
def sample(lake: Lake, broker: KafkaBroker, topic: str) -> KafkaLake:
    return KafkaLake(lake, contract(topic, broker.servers))


def messages(begin: int, end: int, key: str = "k") -> Iterator[dict[str, Any]]:
    """Messages of two arrival days and partitions; every ninth is malformed."""
    for number in range(begin, end):
        value = event(f"{key}{number % 7}", 2, number) if number % 9 else b"{broken"
        yield {"value": value, "timestamp": at(3 + number // 2 % 2, second=number % 60), "partition": number % 2}


def content(sample: KafkaLake, table: str) -> list[str]:
    """The rows of a table; of the dispositions not what decided them, which was another row before."""
    rows = getattr(locations, table)(sample.lake, "events").read().to_pylist()
    return sorted(str({name: value for name, value in row.items() if name != "decided_by"}) for row in rows)


@pytest.mark.parametrize("table", ["bronze", "key_log"])
def test_what_a_restored_copy_lacks_comes_again_as_it_was(
    sample: KafkaLake, broker: KafkaBroker, topic: str, table: str, tmp_path: Path
) -> None:
    path = getattr(locations, table)(sample.lake, "events").address
    broker.produce(topic, messages(0, 20))
    sample.ingest()
    shutil.copytree(path, tmp_path / "copy")
    broker.produce(topic, messages(20, 50))
    sample.ingest()
    broker.produce(topic, messages(50, 55))
    sample.ingest()
    before = {name: content(sample, name) for name in ("bronze", "key_log", "dispositions")}
    shutil.rmtree(path)
    shutil.copytree(tmp_path / "copy", path)
    broker.produce(topic, messages(55, 60, "another"))
    assert sample.ingest().rows == 5
    assert len(sample.places()) == len(set(sample.places())) == 60
    for name, rows in before.items():
        now = content(sample, name)
        assert set(rows) <= set(now), name
        assert len(now) == len(set(now))
    assert sample.ingest().rows == 0


def test_messages_that_the_brokers_have_deleted_are_named(
    sample: KafkaLake, broker: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    path = Path(locations.bronze(sample.lake, "events").address)
    broker.produce(topic, messages(0, 20))
    sample.ingest()
    shutil.copytree(path, tmp_path / "copy")
    broker.produce(topic, messages(20, 30))
    sample.ingest()
    shutil.rmtree(path)
    shutil.copytree(tmp_path / "copy", path)
    admin, place = broker.admin(), TopicPartition(topic, 0, 12)
    admin.delete_records([place])[place].result(10)
    with pytest.raises(
        LostRowsError, match=r"bronze/events has lost the \d rows of \d ingested files .*restore a newer copy of bronze"
    ):
        sample.ingest()
    assert len([partition for partition, _ in sample.places() if partition == 1]) == 15, "the other partition is read again"
