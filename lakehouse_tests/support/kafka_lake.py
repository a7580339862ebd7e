"""A lake of one source whose records are the messages of a topic of a real broker; only silver may need Spark."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from lakehouse import locations
from lakehouse.lake import Lake
from lakehouse.settings import Settings
from lakehouse.streams.client import TopicReader
from lakehouse.streams.ingest import MicroBatch, StreamIngest, StreamLimits
from lakehouse_tests.support import lake as support_lake

if TYPE_CHECKING:
    from pathlib import Path

    from lakehouse.contracts.source import SourceContract
    from lakehouse_tests.support.reference_model import Record


def contract(topic: str, servers: str, kafka: dict[str, Any] | None = None, **changes: Any) -> SourceContract:
    """The source of ``support.lake``, from a topic; messages have no arrival time of their own."""
    source = {"landing": "kafka", "format": "json", "start_date": "2024-01-01"}
    fields = {
        "source": {**source, "kafka": {"topic": topic, "servers": servers, **(kafka or {})}},
        "clocks": {"event": "event_time", "max_ahead": "P3D"},
    }
    return support_lake.contract(**{**fields, **changes})


def milliseconds(moment: datetime) -> int:
    """A time as Kafka has it."""
    return int(moment.timestamp() * 1000)


def at(day: int, hour: int = 12, second: int = 0) -> int:
    """A time of January 2024 as Kafka has it."""
    return milliseconds(datetime(2024, 1, day, hour, 0, second, tzinfo=timezone.utc))


def event(key: str, day: int, amount: int = 1, op: str = "insert", **more: Any) -> dict[str, Any]:
    """The value of a message: an event of a day of January 2024."""
    return {"id": key, "amount": amount, "event_time": f"2024-01-{day:02}T10:00:00Z", "op": op, **more}


def message_of(record: Record) -> dict[str, Any]:
    """The message for a record of the reference model."""
    value = {"id": record.key, "amount": record.amount, "op": record.op, "corrects": record.corrects}
    value["event_time"] = f"{record.day}T10:00:00Z" if record.day else None
    return {"value": value, "key": record.key, "timestamp": milliseconds(record.arrival)}


@dataclass
class KafkaLake:
    """One source from one topic in one lake."""

    lake: Lake
    contract: SourceContract

    def ingest(self, limits: StreamLimits | None = None, run_id: str = "run") -> MicroBatch:
        """One micro-batch, by a reader of its own."""
        kafka = self.contract.source.kafka
        assert kafka is not None
        with TopicReader(self.lake, kafka) as reader:
            return StreamIngest(self.lake, self.contract, _no_session, run_id, reader).micro_batch(limits)

    def bronze(self, *columns: str) -> list[dict[str, Any]]:
        """All rows of Bronze, by partition and offset."""
        found = locations.bronze(self.lake, self.contract.dataset).read(["kafka_partition", "kafka_offset", *columns])
        rows = [] if found is None else found.to_pylist()
        return sorted(rows, key=lambda row: (row["kafka_partition"], row["kafka_offset"]))

    def places(self) -> list[tuple[int, int]]:
        """Partition and offset of every row of Bronze."""
        return [(row["kafka_partition"], row["kafka_offset"]) for row in self.bronze()]


def _no_session() -> Any:
    pytest.fail("messages need no Spark on their way to Bronze")


def write_contract(folder: Path, topic: str, servers: str, **fields: Any) -> Lake:
    """Write the contract of the source into a deployment below ``folder``; gives the settings of the deployment."""
    written = contract(topic, servers, **fields).model_dump(mode="json", exclude_unset=True)
    contracts = folder / "contracts"
    contracts.mkdir()
    (contracts / "events.yaml").write_text(yaml.safe_dump(written))
    return Lake(Settings(root=f"{folder / 'lake'}", contracts=contracts))
