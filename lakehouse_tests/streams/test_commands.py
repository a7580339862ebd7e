"""``lakehouse source stream`` as people run it, against a real broker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from confluent_kafka import TopicPartition

from lakehouse.contracts import load_contract
from lakehouse.lake import Lake, Table
from lakehouse.ledger import ingestions
from lakehouse.settings import Settings
from lakehouse_tests.support.forked_cli import lakehouse_command
from lakehouse_tests.support.kafka_lake import KafkaLake, at, event, write_contract
from lakehouse_tests.support.kafka_lake import contract as kafka_contract
from lakehouse_tests.support.lake import contract as contract_of_files
from lakehouse_tests.support.lake import csv_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakehouse_tests.support.kafka_broker import KafkaBroker

pytestmark = pytest.mark.merge


def messages(count: int) -> Iterator[dict[str, Any]]:
    for number in range(count):
        yield {"value": event(f"k{number}", 2, number), "timestamp": at(3), "partition": number % 2}


def started(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = os.environ | {"LAKEHOUSE_ROOT": f"{folder / 'lake'}", "LAKEHOUSE_SETTLE_SECONDS": "0.2"}
    command = [sys.executable, "-m", "lakehouse", "stream", "run", *arguments]
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    while not condition():
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)


def test_the_way_of_a_gap(tmp_path: Path, broker: KafkaBroker, topic: str) -> None:
    lake = write_contract(tmp_path, topic, broker.servers)
    sample = KafkaLake(lake, kafka_contract(topic, broker.servers))
    broker.produce(topic, messages(8))
    assert sample.ingest().rows == 8
    broker.produce(topic, messages(6))
    admin = broker.admin()
    place = TopicPartition(topic, 0, 6)
    admin.delete_records([place])[place].result(10)
    done = lakehouse_command(tmp_path, "stream", "ingest", "events", "--json")
    assert done.returncode == 1
    [gap] = json.loads(done.stdout.splitlines()[-1])["gaps"]
    assert gap == f"partition 0 of {topic}: the offsets 4 to 5 were deleted before they were read"
    status = lakehouse_command(tmp_path, "stream", "status", "events")
    shown = [line.split()[:4] for line in status.stdout.splitlines() if line.strip()[:1] in {"0", "1"}]
    assert shown == [list("0473"), list("1770")]
    assert f"{gap}; see 'lakehouse source stream accept-gap'" in status.stderr
    done = lakehouse_command(tmp_path, "stream", "accept-gap", "events", "--by", "ann", "--reason", "sent again as files")
    assert done.stdout == f"{gap}: accepted by ann.\n"
    done = lakehouse_command(tmp_path, "stream", "ingest", "events")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "New in Bronze of events: 1 row."


def test_a_contract_under_which_messages_are_read_otherwise_is_told_once(tmp_path: Path, broker: KafkaBroker, topic: str) -> None:
    write_contract(tmp_path, topic, broker.servers)
    notices = []
    for zone in ("UTC", "Asia/Tokyo", "Asia/Tokyo"):
        path = tmp_path / "contracts" / "events.yaml"
        content = yaml.safe_load(path.read_text())
        content["clocks"]["timezone"] = zone
        path.write_text(yaml.safe_dump(content))
        broker.produce(topic, messages(2))
        done = lakehouse_command(tmp_path, "stream", "ingest", "events")
        assert done.returncode == 0
        notices.append("clocks.timezone: was UTC and is Asia/Tokyo: rows since" in done.stderr)
    assert notices == [False, True, False]


def test_a_running_stream_takes_messages_as_they_come_and_ends_on_a_signal(
    tmp_path: Path, broker: KafkaBroker, topic: str
) -> None:
    lake = write_contract(tmp_path, topic, broker.servers)
    process = started(tmp_path, "events", "--every", "0.2")

    def rows() -> int:
        return sum(entry.rows for entry in ingestions.all_of(lake, "events"))

    for count in (3, 5):
        broker.produce(topic, messages(count))
        wait_until(lambda count=count: rows() >= count, process)  # type: ignore[misc]
    wait_until(lambda: rows() == 8, process)
    process.send_signal(signal.SIGTERM)
    printed, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert printed.splitlines()[-1] == "Stopped. New in Bronze of events: 8 rows."


def test_a_running_stream_of_files_takes_those_that_are_stable(tmp_path: Path) -> None:
    landing = tmp_path / "lake" / "landing" / "events"
    landing.mkdir(parents=True)
    (tmp_path / "contracts").mkdir()
    path = tmp_path / "contracts" / "events.yaml"
    path.write_text(yaml.safe_dump(contract_of_files().model_dump(mode="json", exclude_unset=True)))
    assert load_contract(path)
    lake = Lake(Settings(root=f"{tmp_path / 'lake'}"))
    process = started(tmp_path, "events", "--every", "0.2")
    for day in ("2024-01-02", "2024-01-03"):
        (landing / f"arrival_date={day}.csv").write_bytes(csv_file([f"a,1,{day}T10:00:00Z,{day}T12:00:00Z,insert,,1"]))
        wait_until(lambda day=day: any(f"{day}" in entry.source_file for entry in ingestions.all_of(lake, "events")), process)  # type: ignore[misc]
    process.send_signal(signal.SIGINT)
    printed, _ = process.communicate(timeout=60)
    assert printed.splitlines()[-1] == "Stopped. New in Bronze of events: 2 rows."
    assert Table(f"{tmp_path}/lake/bronze/events").version() >= 2


def test_a_topic_that_does_not_exist_is_said_in_a_sentence(tmp_path: Path, broker: KafkaBroker) -> None:
    write_contract(tmp_path, "nowhere", broker.servers)
    done = lakehouse_command(tmp_path, "stream", "ingest", "events")
    assert done.returncode == 1
    assert done.stderr == f"the brokers at {broker.servers} have no topic nowhere: create it, or correct source.kafka.topic\n"
