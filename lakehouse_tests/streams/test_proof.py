"""The proof: a million messages; producer, consumer and live stream killed ten times.

Each message is in Bronze once, silver and the books equal the model, live numbers are what Spark counts of the messages, and the
reconciliation explains every difference to the last row.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pytest
import yaml

from lakehouse import locations
from lakehouse.contracts.loader import completed
from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.series import Series
from lakehouse.dispositions import account
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.reproduction import recompute
from lakehouse.gold.restatement import days as restatement_days
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.ledger import applied_inputs, ingestions
from lakehouse.live import batches as live_batches
from lakehouse.live import stream
from lakehouse.live.reconcile import reconcile
from lakehouse.silver import update as silver_update
from lakehouse_tests.support import kafka_producer, tried
from lakehouse_tests.support.kafka_lake import contract, write_contract
from lakehouse_tests.support.reconciliation_model import causes_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse_tests.support.kafka_broker import KafkaBroker

pytestmark = [pytest.mark.proof, pytest.mark.spark, pytest.mark.own_spark]
HOURLY = {
    "metric": "hourly",
    "source": "events",
    "window": {"size": "PT1H"},
    "measures": [{"name": "total", "sql": "sum(amount)", "type": "bigint", "additive": True}],
    "live": {"watermark": "PT10M", "trigger": "PT1S", "keep": "P9999D"},
}
COUNT = int(os.environ.get("LAKEHOUSE_TEST_MESSAGES", "1000000"))
KILLS = 10


def kill(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()
    tried.count("kills")


def test_a_million_messages_and_ten_kills(spark: SparkSession, tmp_path: Path, broker: KafkaBroker, topic: str) -> None:
    lake = write_contract(tmp_path, topic, broker.servers)
    (tmp_path / "contracts" / "hourly.yaml").write_text(yaml.safe_dump(HOURLY))
    source, chance, begun = contract(topic, broker.servers), random.Random(19), time.monotonic()
    environment = os.environ | {"LAKEHOUSE_ROOT": lake.root}
    producing = [sys.executable, "-m", "lakehouse_tests.support.kafka_producer", broker.servers, topic, f"{COUNT}"]
    slowly, at_once = f"{COUNT // 100}", f"{COUNT}"
    consuming = [sys.executable, "-m", "lakehouse", "stream", "run", "events", "--every", "0.2", "--batch-messages", "20000"]

    streaming = [sys.executable, "-m", "lakehouse", "live", "start", "hourly"]

    def start(command: list[str]) -> subprocess.Popen[bytes]:
        with (tmp_path / "output.log").open("ab") as output:
            return subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=output, stderr=output)

    killed: Counter[str] = Counter()
    batches_before, live = 0, start(streaming)
    for _ in range(KILLS):
        processes = {"producer": start([*producing, slowly]), "consumer": start(consuming)}
        time.sleep(chance.uniform(4, 14))
        for name, process in processes.items():
            if process.poll() is None:
                kill(process)
                killed[name] += 1
            process.wait()
        if batches(lake) > batches_before:  # Spark needs a while to start
            kill(live)
            killed["live"] += 1
            batches_before, live = batches(lake), start(streaming)
    kill(live)
    assert start([*producing, at_once]).wait() == 0
    assert start([*consuming[:3], "stream", "ingest", "events"]).wait() == 0, (tmp_path / "output.log").read_text()[-2000:]
    seconds = time.monotonic() - begun

    sent = [kafka_producer.record(number) for number in range(COUNT)]
    columns = ["kafka_partition", "kafka_offset", "malformed_reason"]
    bronze = locations.bronze(lake, "events").read(columns)
    assert bronze is not None
    numbers = pc.add(pc.multiply(bronze["kafka_offset"], 2), bronze["kafka_partition"]).to_numpy()
    assert len(numbers) == len(set(numbers.tolist())) == COUNT
    assert numbers.max() == COUNT - 1
    assert bronze["malformed_reason"].null_count == COUNT
    entries = ingestions.all_of(lake, "events")
    assert sum(entry.rows for entry in entries) == COUNT

    silver_update.update(lake, source, lambda: spark, sorted(applied_inputs.pending(lake, "events")), "run")
    lives = {record.key: (record.day, record.amount) for record in sent}  # in the order of arrival: the last one stays
    silver = locations.silver(lake, "events").read(["record_key", "event_date", "amount"])
    assert silver is not None
    rows = dict(zip(silver["record_key"].to_pylist(), zip(silver["event_date"].to_pylist(), silver["amount"].to_pylist())))
    assert len(rows) == len(silver)
    assert rows == lives
    counts = account.counts(account.table(lake, source))
    assert {day: of_day.total() for day, of_day in counts.items()} == Counter(record.arrived.date() for record in sent)
    explained = check_books_and_live(spark, lake, source, sent)
    kinds = Counter(record.kind for record in sent)
    print(  # noqa: T201 (what the proof has counted)
        f"\n{COUNT:,} messages ({', '.join(f'{kinds[kind]:,} {kind}' for kind in sorted(kinds))}); "
        f"killed: {', '.join(f'{name} {times} times' for name, times in sorted(killed.items()))}; "
        f"Bronze {len(numbers):,} rows, each message once, in {len(entries):,} deliveries; silver {len(rows):,} keys, all as "
        f"in the model; {seconds:.0f} s until Bronze had all; rows that the books count differently than the stream, by cause: "
        f"{', '.join(f'{cause} {rows:+,}' for cause, rows in sorted(explained.items()))}, none unexplained"
    )


def batches(lake: Lake) -> int:
    """How many batches the live stream has begun."""
    return len(live_batches.log(lake).read())


def check_books_and_live(
    spark: SparkSession, lake: Lake, source: SourceContract, sent: Sequence[kafka_producer.Sent]
) -> Counter[str]:
    """Publish, finish the stream, and reconcile every day; gives the rows by which live numbers and books differ, by cause."""
    metric = completed(MetricContract.model_validate(HOURLY), {"events": source})
    series = Series(metric)
    stream.run(lambda: spark, lake, metric, source, ends=True)
    recompute.remember_contract(lake, metric, source)
    pending = find_pending(lake, series)
    restatement_days.restate(lake, source, series, lambda: spark, pending.starts, Run("run"), pending)
    expected: dict[datetime, list[int]] = defaultdict(list)
    for record in {record.key: record for record in sent}.values():
        expected[record.happened.replace(minute=0, second=0)].append(record.amount)
    rows = locations.gold(lake, series).read(["window_start", "total", "row_count"], {"is_latest": [True]})
    assert rows is not None
    books = {row["window_start"]: (row["total"], row["row_count"]) for row in rows.to_pylist()}
    assert books == {start: (sum(amounts), len(amounts)) for start, amounts in expected.items()}
    explained: Counter[str] = Counter()
    counted = 0
    for day in sorted({start.date() for start in books}):
        for entry in reconcile(lambda: spark, lake, metric, source, day).entries:
            assert "unexplained" not in entry.causes, entry
            assert Decimal(entry.live or 0) + sum(causes_of(entry).values()) == Decimal(entry.books or 0), entry
            if entry.measure == "row_count":
                counted += int(entry.live or 0)
                explained.update({cause: int(value) for cause, value in causes_of(entry).items()})
    assert counted + sum(explained.values()) == sum(count for _, count in books.values()) == len({record.key for record in sent})
    assert {"late_dropped", "duplicate"} <= set(explained) <= {"late_dropped", "duplicate", "corrected"}
    return explained
