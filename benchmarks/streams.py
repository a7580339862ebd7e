"""Kafka to Bronze: rows a second and the time to a commit, against plain Structured Streaming to Delta on the same topic.

python benchmarks/streams.py [--messages 1000000] [--batch 100000] [--single 30]

Starts a broker of its own. Plain Structured Streaming parses the same fields with ``from_json`` and appends to a Delta table, so
many messages a trigger; ours writes Bronze with all columns, the key log, the dispositions and the ledger.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from datetime import datetime, timezone
from importlib.util import find_spec
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

import platformdirs
from pyspark.sql import SparkSession

from lakehouse import locations
from lakehouse.lake import Lake, table_io
from lakehouse.settings import Settings
from lakehouse.spark.jars import java
from lakehouse.spark.session import spark_options
from lakehouse.streams import ingest as stream_ingest
from lakehouse.streams import service
from lakehouse.streams.client import TopicReader
from lakehouse_tests.support.kafka_broker import KafkaBroker
from lakehouse_tests.support.kafka_lake import contract

if TYPE_CHECKING:
    from collections.abc import Iterator

TOPIC, PARTITIONS = "events", 2
_MODULES = """<ivy-module version="2.0">
  <info organisation="lakehouse" module="connector"/>
  <configurations><conf name="spark"/></configurations>
  <dependencies>
    <dependency org="org.apache.spark" name="spark-sql-kafka-0-10_2.13" rev="4.2.0" conf="spark->master" transitive="false"/>
    <dependency org="org.apache.spark" name="spark-token-provider-kafka-0-10_2.13" rev="4.0.0" conf="spark->master"
      transitive="false"/>
    <dependency org="org.apache.kafka" name="kafka-clients" rev="3.9.2" conf="spark->master" transitive="false"/>
    <dependency org="org.apache.commons" name="commons-pool2" rev="2.13.1" conf="spark->master" transitive="false"/>
  </dependencies>
</ivy-module>"""


def main() -> None:
    """Print the rates of both, their ratio, and the time from a message to its row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=100_000)
    parser.add_argument("--single", type=int, default=30)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        broker = KafkaBroker(Path(folder, "kafka"))
        broker.start()
        try:
            broker.create_topic(TOPIC, PARTITIONS)
            broker.produce(TOPIC, messages(options.messages), **{"linger.ms": 20, "compression.type": "lz4"})
            lake = Lake(Settings(root=f"{folder}/lake"))
            ours = bronze_rate(lake, broker, options.messages, options.batch)
            reading_only = rows_rate(lake, broker, options.messages, options.batch)
            spark = plain_rate(Path(folder), broker, options.messages, options.batch)
            print(f"plain Structured Streaming to Delta, {options.batch:,} a trigger: {spark:10,.0f} rows/s")
            print(f"messages to rows of Bronze, nothing written:            {reading_only:10,.0f} rows/s")
            print(f"Bronze, key log, dispositions, ledger:                  {ours:10,.0f} rows/s, {ours / spark:.2f} of plain")
            print(latency(lake, broker, options.single))
        finally:
            broker.stop()


def messages(count: int, begin: int = 0) -> Iterator[dict[str, Any]]:
    """Events of ten days that arrive in order, in equal parts of the partitions."""
    for number in range(begin, begin + count):
        value = {"id": f"k{number}", "amount": number % 1000, "event_time": f"2024-01-{2 + number % 10:02}T10:00:00Z"}
        moment = 1_704_844_800_000 + number // 100
        yield {"value": json.dumps(value).encode(), "partition": number % PARTITIONS, "timestamp": moment}


def no_session() -> SparkSession:
    """Messages need no Spark."""
    raise RuntimeError


def bronze_rate(lake: Lake, broker: KafkaBroker, count: int, batch: int) -> float:
    """Rows a second through the whole ingestion."""
    source = contract(TOPIC, broker.servers, changes={})
    begun, rows = time.perf_counter(), 0
    for done in service.take(lake, source, source.source.kafka, no_session, "benchmark", service.Pace(batch)):
        rows += done.rows
    assert rows == count == table_io.rows_at_most(locations.bronze(lake, "events").open(), {})
    return count / (time.perf_counter() - begun)


def rows_rate(lake: Lake, broker: KafkaBroker, count: int, batch: int) -> float:
    """Rows a second that are read and parsed."""
    source = contract(TOPIC, broker.servers, changes={})
    now, begun, rows = datetime.now(timezone.utc), time.perf_counter(), 0
    with TopicReader(lake, source.source.kafka) as reader:
        state = reader.state()
        begin = {partition: first for partition, (first, _) in state.offsets.items()}
        end = {partition: last for partition, (_, last) in state.offsets.items()}
        while begin != end:
            read = reader.fetch(begin, end, batch, 60)
            for partition, columns in read.items():
                log = stream_ingest.message_rows.PartitionLog(TOPIC, state.topic_id, partition)
                of_log = stream_ingest.message_rows.deliveries(source, state.cluster_id, log, begin[partition], columns, now)
                rows += sum(len(part) for each in of_log for part in stream_ingest.message_rows.rows(source, each, columns))
            begin = {partition: columns.end for partition, columns in read.items()}
    assert rows == count
    return count / (time.perf_counter() - begun)


def plain_rate(folder: Path, broker: KafkaBroker, count: int, batch: int) -> float:
    """Rows a second of a streaming query that a person would write; its session is warm."""
    spark = session()
    frame = spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker.servers).option("subscribe", TOPIC)
    frame = frame.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", batch).load()
    parsed = frame.selectExpr(
        "topic", "partition", "offset", "timestamp", "cast(value as string) raw",
        "from_json(cast(value as string), 'id string, amount int, event_time timestamp') v", "to_date(timestamp) arrival_date",
    ).select("topic", "partition", "offset", "timestamp", "raw", "v.*", "arrival_date")  # fmt: skip
    spark.range(100_000).write.format("delta").save(f"{folder}/warm")
    begun = time.perf_counter()
    query = parsed.writeStream.format("delta").option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True)
    query.partitionBy("arrival_date").start(f"{folder}/plain").awaitTermination()
    seconds = time.perf_counter() - begun
    assert spark.read.format("delta").load(f"{folder}/plain").count() == count
    spark.stop()
    return count / seconds


def latency(lake: Lake, broker: KafkaBroker, count: int) -> str:
    """The time from a message to its row in Bronze and to the end of its micro-batch, one message at a time."""
    source = contract(TOPIC, broker.servers, changes={})
    to_row, to_end = [], []
    table = locations.bronze(lake, "events")
    with TopicReader(lake, source.source.kafka) as reader:
        ingest = stream_ingest.StreamIngest(lake.cached(), source, no_session, "benchmark", reader)
        ingest.micro_batch()
        for number in range(count):
            broker.produce(TOPIC, messages(1, begin=10_000_000 + number), **{"linger.ms": 0})
            begun = time.time()
            ingest.micro_batch()
            to_end.append(time.time() - begun)
            commit = max(Path(table.address, "_delta_log").glob("*.json"))
            to_row.append(commit.stat().st_mtime - begun)
    p95 = quantiles(to_row, n=20)[-1]
    return (
        f"one message at a time, {count} times: in Bronze after {median(to_row):.3f} s (p95 {p95:.3f}), "
        f"in all tables after {median(to_end):.3f} s"
    )


def session() -> SparkSession:
    """A session with Kafka's connector, as the product starts one for large work."""
    folder = Path(platformdirs.user_cache_dir("lakehouse")) / "kafka-connector-4.2.0"
    if not any(folder.glob("*.jar")):
        ivy = next(Path(str(find_spec("pyspark").origin)).parent.glob("jars/ivy-*.jar"))
        with tempfile.TemporaryDirectory() as scratch:
            Path(scratch, "ivy.xml").write_text(_MODULES)
            command = [java(), "-jar", f"{ivy}", "-ivy", f"{scratch}/ivy.xml", "-cache", f"{scratch}/cache", "-types", "jar"]
            command += ["-confs", "spark", "-retrieve", f"{folder}/[artifact]-[revision].[ext]"]
            subprocess.run(command, check=True, capture_output=True)
    options = spark_options(Lake(Settings(spark_profile="large", spark_long_lived=True)))
    options["spark.driver.extraClassPath"] += os.pathsep + os.pathsep.join(map(str, sorted(folder.glob("*.jar"))))
    builder = SparkSession.builder.appName("streams")
    for name, value in options.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


if __name__ == "__main__":
    main()
