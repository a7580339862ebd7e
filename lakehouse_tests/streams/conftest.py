"""The broker that the tests of a process share, and a topic of its own for each test."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest

from lakehouse.streams import avro
from lakehouse_tests.support.kafka_broker import KafkaBroker
from lakehouse_tests.support.schema_registry import RegistryServer, schema_registry

if TYPE_CHECKING:
    from collections.abc import Iterator


_NUMBERS = count(1)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker that answers."""
    running = KafkaBroker(tmp_path_factory.mktemp("kafka"))
    running.start()
    yield running
    running.stop()


@pytest.fixture
def topic(broker: KafkaBroker) -> str:
    """A new topic of two partitions."""
    name = f"events-{next(_NUMBERS)}"
    broker.create_topic(name)
    return name


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[RegistryServer]:
    """A registry, of which this process knows nothing: its port may be that of an earlier one."""
    monkeypatch.setattr(avro, "_READERS", {})
    monkeypatch.setattr(avro, "_UNKNOWN", {})
    with schema_registry() as running:
        yield running
