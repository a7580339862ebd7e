"""A real Kafka broker of one node, started from the JARs that Maven has; they are fetched once, by the Ivy that PySpark includes.

``LAKEHOUSE_TEST_KAFKA_JARS`` names a folder for the JARs; by default they lie in the user's cache. A test that uses the broker is
skipped only where the JARs cannot be fetched.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import platformdirs
import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from lakehouse.lake import Lake
from lakehouse.settings import Settings
from lakehouse.spark.jars import java
from lakehouse_tests.support import tried
from lakehouse_tests.support.free_port import free_port

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

RELEASE = "4.3.0"
_MODULES = f"""<ivy-module version="2.0">
  <info organisation="lakehouse" module="kafka"/>
  <configurations><conf name="broker"/></configurations>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{RELEASE}" conf="broker->default"/>
  </dependencies>
</ivy-module>"""
_PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
log.dirs={folder}/data
auto.create.topics.enable=false
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
num.network.threads=1
num.io.threads=2
log.cleaner.enable=false
log.retention.ms=-1
broker.session.timeout.ms=1500
broker.heartbeat.interval.ms=300
"""
_READY_SECONDS = 60


def broker_jars() -> Path:
    """The folder with the broker's JARs, fetched if they are not there."""
    named = os.environ.get("LAKEHOUSE_TEST_KAFKA_JARS")
    folder = Path(named) if named else Path(platformdirs.user_cache_dir("lakehouse")) / f"kafka-{RELEASE}"
    if any(folder.glob("kafka_2.13-*.jar")):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    spark = find_spec("pyspark")
    assert spark is not None
    ivy = next(Path(str(spark.origin)).parent.glob("jars/ivy-*.jar"))
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        modules = Path(scratch, "ivy.xml")
        modules.write_text(_MODULES)
        command = [java(), "-jar", f"{ivy}", "-ivy", f"{modules}", "-cache", f"{scratch}/cache", "-types", "jar", "bundle"]
        lake = Lake(Settings()).settings.ivy_settings
        command += ["-settings", f"{lake}"] if lake else []
        command += ["-confs", "broker", "-retrieve", f"{scratch}/jars/[artifact]-[revision].[ext]"]
        printed = subprocess.run(command, capture_output=True, text=True, check=False)
        if not any(Path(scratch, "jars").glob("kafka_2.13-*.jar")):
            pytest.skip(f"the JARs of Kafka cannot be fetched: {(printed.stdout + printed.stderr)[-300:]}")
        with suppress(OSError):  # another process was quicker
            Path(scratch, "jars").replace(folder)
    return folder


@dataclass
class KafkaBroker:
    """A broker with its data below ``folder``; :meth:`start` it, and :meth:`stop` it at the end."""

    folder: Path
    port: int = field(default_factory=free_port)
    controller: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def servers(self) -> str:
        """The address for clients."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the broker, on the data that it has, and wait until it answers."""
        jars, properties = broker_jars(), self.folder / "server.properties"
        if not properties.is_file():
            self.folder.mkdir(parents=True, exist_ok=True)
            properties.write_text(_PROPERTIES.format(port=self.port, controller=self.controller, folder=self.folder))
            tool = ["kafka.tools.StorageTool", "format", "--cluster-id", "AAAAAAAAAAAAAAAAAAAAAQ", "--config", f"{properties}"]
            subprocess.run([java(), "-cp", f"{jars}/*", *tool], check=True, capture_output=True)
        options = ["-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        with (self.folder / "broker.log").open("ab") as log:
            command = [java(), *options, "-cp", f"{jars}/*", "kafka.Kafka", f"{properties}"]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, cwd=self.folder)
        self._wait()

    def _wait(self) -> None:
        admin, ends = self.admin(), time.monotonic() + _READY_SECONDS
        while time.monotonic() < ends:
            assert self.process is not None
            assert self.process.poll() is None, (self.folder / "broker.log").read_text()[-2000:]
            with suppress(KafkaException):
                if admin.list_topics(timeout=0.5).brokers:
                    return
        pytest.fail(f"the broker does not answer: {(self.folder / 'broker.log').read_text()[-2000:]}")

    def kill(self) -> None:
        """Stop the broker as a crash does."""
        assert self.process is not None
        tried.count("kills")
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """Stop the broker."""
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=10)
            self.process.kill()
            self.process.wait()

    def admin(self) -> AdminClient:
        """A client for its topics."""
        options = {"bootstrap.servers": self.servers, "reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 100, "log_level": 0}
        return AdminClient(options)

    def create_topic(self, name: str, partitions: int = 2, **config: str) -> None:
        """Create a topic."""
        admin = self.admin()
        admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(10)

    def delete_topic(self, name: str) -> None:
        """Delete a topic, and wait until it is gone."""
        admin = self.admin()
        admin.delete_topics([name])[name].result(10)
        while name in admin.list_topics(timeout=5).topics:
            time.sleep(0.05)

    def produce(self, topic: str, messages: Iterable[Mapping[str, Any]], **options: Any) -> int:
        """Send messages, whose fields are arguments of ``Producer.produce``; gives their number.

        A ``value`` that is no bytes is written as JSON.
        """
        producer = Producer({"bootstrap.servers": self.servers, "enable.idempotence": True, "linger.ms": 5, **options})
        count = 0
        for message in messages:
            count += 1
            fields = dict(message)
            if not isinstance(fields.get("value"), bytes | None):
                fields["value"] = json.dumps(fields["value"]).encode()
            while True:
                try:
                    producer.produce(topic, **fields)
                    break
                except BufferError:
                    producer.poll(0.05)
        assert producer.flush(60) == 0
        return count

    def produce_in_transaction(self, topic: str, messages: Iterable[Mapping[str, Any]], ends: str) -> None:
        """Send messages in a transaction that ends with ``commit`` or ``abort``."""
        producer = Producer({"bootstrap.servers": self.servers, "transactional.id": "tests"})
        producer.init_transactions(30)
        producer.begin_transaction()
        for message in messages:
            producer.produce(topic, **{**message, "value": json.dumps(message["value"]).encode()})
        producer.flush(30)
        if ends == "commit":
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
