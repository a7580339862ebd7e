"""The proof: a million messages, producer and consumer killed ten times; each message once, and silver equals the model."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pytest

from lakehouse import locations
from lakehouse.delta import table_io
from lakehouse.dispositions import account
from lakehouse.ledger import applied_inputs, ingestions
from lakehouse.silver import update as silver_update
from lakehouse_tests.support import kafka_producer
from lakehouse_tests.support.kafka_lake import contract, write_contract

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse_tests.support.kafka_broker import KafkaBroker

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.acceptance]
COUNT = int(os.environ.get("LAKEHOUSE_TEST_MESSAGES", "1000000"))
KILLS = 10


def test_a_million_messages_and_ten_kills(spark: SparkSession, tmp_path: Path, broker: KafkaBroker, topic: str) -> None:
    settings = write_contract(tmp_path, topic, broker.servers)
    source, chance, begun = contract(topic, broker.servers), random.Random(19), time.monotonic()
    environment = os.environ | {"LAKEHOUSE_ROOT": settings.root}
    producing = [sys.executable, "-m", "lakehouse_tests.support.kafka_producer", broker.servers, topic, f"{COUNT}"]
    slowly, at_once = f"{COUNT // 100}", f"{COUNT}"
    consuming = [sys.executable, "-m", "lakehouse", "stream", "run", "events", "--every", "0.2", "--batch-messages", "20000"]

    def start(command: list[str]) -> subprocess.Popen[bytes]:
        with (tmp_path / "output.log").open("ab") as output:
            return subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=output, stderr=output)

    killed: Counter[str] = Counter()
    for _ in range(KILLS):
        processes = {"producer": start([*producing, slowly]), "consumer": start(consuming)}
        time.sleep(chance.uniform(4, 14))
        for name, process in processes.items():
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                killed[name] += 1
            process.wait()
    assert start([*producing, at_once]).wait() == 0
    assert start([*consuming[:3], "stream", "ingest", "events"]).wait() == 0, (tmp_path / "output.log").read_text()[-2000:]
    seconds = time.monotonic() - begun

    sent = [kafka_producer.record(number) for number in range(COUNT)]
    columns = ["kafka_partition", "kafka_offset", "malformed_reason"]
    bronze = table_io.read(locations.bronze(settings, "events"), columns)
    assert bronze is not None
    numbers = pc.add(pc.multiply(bronze["kafka_offset"], 2), bronze["kafka_partition"]).to_numpy()
    assert len(numbers) == len(set(numbers.tolist())) == COUNT
    assert numbers.max() == COUNT - 1
    assert bronze["malformed_reason"].null_count == COUNT
    entries = ingestions.all_of(settings, "events")
    assert sum(entry.rows for entry in entries) == COUNT

    silver_update.update(settings, source, lambda: spark, sorted(applied_inputs.pending(settings, "events")), "run")
    lives = {record.key: (record.day, record.amount) for record in sent}  # in the order of arrival: the last one stays
    silver = table_io.read(locations.silver(settings, "events"), ["record_key", "event_date", "amount"])
    assert silver is not None
    rows = dict(zip(silver["record_key"].to_pylist(), zip(silver["event_date"].to_pylist(), silver["amount"].to_pylist())))
    assert len(rows) == len(silver)
    assert rows == lives
    counts = account.counts(account.table(settings, source))
    assert {day: of_day.total() for day, of_day in counts.items()} == Counter(record.arrived.date() for record in sent)
    kinds = Counter(record.kind for record in sent)
    print(  # noqa: T201 (what the proof has counted)
        f"\n{COUNT:,} messages ({', '.join(f'{kinds[kind]:,} {kind}' for kind in sorted(kinds))}); "
        f"killed: {', '.join(f'{name} {times} times' for name, times in sorted(killed.items()))}; "
        f"Bronze {len(numbers):,} rows, each message once, in {len(entries):,} deliveries; silver {len(rows):,} keys, all as "
        f"in the model; {seconds:.0f} s until Bronze had all"
    )
