"""Stopping anywhere, and two consumers at once: each message is in Bronze once, and all tables say the same (R11)."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse import locations
from lakehouse.bronze.checks import check_bronze
from lakehouse.ledger import ingestions
from lakehouse.streams.client import MessageColumns, TopicReader
from lakehouse.streams.ingest import StreamIngest, StreamLimits
from lakehouse_tests.support import tried
from lakehouse_tests.support.kafka_lake import KafkaLake, at, contract, event, write_contract
from lakehouse_tests.support.stopped_commits import stopped_after_each_commit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakehouse.lake import Lake
    from lakehouse_tests.support.kafka_broker import KafkaBroker

pytestmark = pytest.mark.merge


@pytest.fixture
def sample(lake: Lake, broker: KafkaBroker, topic: str) -> KafkaLake:
    return KafkaLake(lake, contract(topic, broker.servers))


def messages(count: int, begin: int = 0) -> Iterator[dict[str, Any]]:
    """Messages of two arrival days; every ninth is malformed."""
    for number in range(begin, begin + count):
        value = event(f"k{number % 7}", 2, number) if number % 9 else b"{broken"
        yield {"value": value, "timestamp": at(3 + number % 2, second=number % 60), "partition": number % 2}


def tables(sample: KafkaLake) -> dict[str, list[Any]]:
    """The rows of every table that an ingestion writes, without what differs from run to run."""
    lake, source = sample.lake, sample.contract.dataset
    paths = {
        "bronze": locations.bronze(lake, source),
        "keys": locations.key_log(lake, source),
        "dispositions": locations.dispositions(lake, source),
    }
    rows = {name: sorted(map(str, path.read().to_pylist())) for name, path in paths.items()}
    entries = [
        (entry.source_file, entry.ingestion_id, entry.content_hash, entry.rows, entry.malformed, entry.bytes, entry.touched_days)
        for entry in ingestions.all_of(lake, source)
    ]
    return rows | {"ledger": sorted(entries)}


def test_a_run_that_is_stopped_behind_any_commit_and_repeated_gives_the_same_tables(
    sample: KafkaLake, broker: KafkaBroker, topic: str
) -> None:
    twin = KafkaLake(sample.lake.with_settings(root=f"{sample.lake.root}-twin"), sample.contract)
    broker.produce(topic, messages(40))
    assert twin.ingest().rows == 40
    assert stopped_after_each_commit(sample.ingest) >= 5
    assert tables(sample) == tables(twin)
    broker.produce(topic, messages(30, begin=40))
    twin.ingest()
    assert stopped_after_each_commit(sample.ingest) >= 3
    assert tables(sample) == tables(twin)
    days = {entry.arrival_date for entry in ingestions.all_of(sample.lake, "events")}
    failed = [outcome for outcome in check_bronze(sample.lake, sample.contract, days) if not (outcome.passed or outcome.warns)]
    assert failed == []


class _ReaderBehindWhichAnotherRuns(TopicReader):
    """Between reading and committing, another consumer takes the same messages."""

    other: KafkaLake
    taken_by_other = 0

    def fetch(self, begin: Mapping[int, int], *args: Any, **more: Any) -> dict[int, MessageColumns]:
        read = super().fetch(begin, *args, **more)
        if not self.taken_by_other:
            self.taken_by_other = self.other.ingest(StreamLimits(max_messages=25)).rows
        return read


def test_of_two_consumers_one_looks_again(sample: KafkaLake, broker: KafkaBroker, topic: str) -> None:
    broker.produce(topic, messages(40))
    kafka = sample.contract.source.kafka
    assert kafka is not None
    with _ReaderBehindWhichAnotherRuns(sample.lake, kafka) as reader:
        reader.other = sample
        batch = StreamIngest(sample.lake, sample.contract, lambda: pytest.fail("no Spark"), "run", reader).micro_batch()
    assert (reader.taken_by_other, batch.rows) == (25, 15)
    assert sample.places() == [(partition, offset) for partition in (0, 1) for offset in range(20)]


def test_two_consumers_at_once_take_each_message_once(sample: KafkaLake, broker: KafkaBroker, topic: str) -> None:
    broker.produce(topic, messages(120))

    def consume() -> None:
        while not sample.ingest(StreamLimits(max_messages=20)).at_end:
            pass

    threads = [threading.Thread(target=consume) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sample.ingest()
    assert sample.places() == [(partition, offset) for partition in (0, 1) for offset in range(60)]
    assert sum(entry.rows for entry in ingestions.all_of(sample.lake, "events")) == 120


def test_the_offsets_survive_checkpoints_and_the_clean_up_of_the_log(sample: KafkaLake, broker: KafkaBroker, topic: str) -> None:
    broker.produce(topic, messages(10))
    sample.ingest()
    table = locations.bronze(sample.lake, "events")
    DeltaTable(table.address).alter.set_table_properties({"delta.logRetentionDuration": "interval 0 days"})
    DeltaTable(table.address).create_checkpoint()
    DeltaTable(table.address).cleanup_metadata()
    DeltaTable(table.address).vacuum(0, dry_run=False, enforce_retention_duration=False)
    broker.produce(topic, messages(4, begin=10))
    batch = sample.ingest()
    assert (batch.rows, batch.remarks) == (4, [])
    assert sample.places() == [(partition, offset) for partition in (0, 1) for offset in range(7)]


def test_offsets_that_the_log_of_bronze_lacks_are_taken_from_its_rows_and_that_is_said(
    sample: KafkaLake, broker: KafkaBroker, topic: str
) -> None:
    broker.produce(topic, messages(10))
    sample.ingest()
    table = locations.bronze(sample.lake, "events")
    rows = DeltaTable(table.address).to_pyarrow_table()
    Path(table.address).rename(f"{table}_former")
    write_deltalake(table.address, rows, partition_by=["arrival_date"])  # as a restored copy of the rows alone
    broker.produce(topic, messages(4, begin=10))
    batch = sample.ingest()
    assert batch.rows == 4
    assert "taken from its rows: 5 for partition 0, 5 for partition 1" in batch.remarks[0]
    assert sample.ingest().remarks == []


@pytest.mark.proof
def test_a_consumer_that_is_killed_at_random_takes_each_message_once(tmp_path: Path, broker: KafkaBroker, topic: str) -> None:
    lake = write_contract(tmp_path, topic, broker.servers)
    chance, sent = random.Random(7), 0
    command = [sys.executable, "-m", "lakehouse", "stream", "ingest", "events", "--batch-messages", "200"]
    environment = os.environ | {"LAKEHOUSE_ROOT": lake.root, "LAKEHOUSE_CONTRACTS": f"{lake.settings.contracts}"}
    for _ in range(3):
        sent += broker.produce(topic, messages(500, begin=sent))
        process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        table = locations.bronze(lake, "events")
        before = table.version()
        while process.poll() is None and table.version() == before:
            time.sleep(0.05)
        time.sleep(chance.random())
        process.send_signal(signal.SIGKILL)
        tried.count("kills")
        process.wait()
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    sample = KafkaLake(lake, contract(topic, broker.servers))
    assert sample.places() == [(partition, offset) for partition in (0, 1) for offset in range(sent // 2)]
    assert sum(entry.rows for entry in ingestions.all_of(lake, "events")) == sent
