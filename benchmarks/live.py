"""From a message to its numbers: how soon it is in Bronze, in the live number, and in a restated number of the books.

python benchmarks/live.py [--messages 40] [--every 3] [--trigger PT5S]

Starts a broker of its own, ``lakehouse source stream run`` and ``lakehouse live start``, and sends one message at a time into the
newest hour of a topic with ten days of messages. The books are brought up to date in this process, by a warm Spark.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

import yaml

from lakehouse import locations
from lakehouse.contracts import load_catalog
from lakehouse.contracts.series import Series
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.restatement import days as restatement_days
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.lake import table_io
from lakehouse.ledger import applied_inputs
from lakehouse.orchestration.resources import LakeSpark
from lakehouse.silver import update as silver_update
from lakehouse_tests.support.kafka_broker import KafkaBroker
from lakehouse_tests.support.kafka_lake import write_contract

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakehouse.lake import Lake

TOPIC = "events"
_SECONDS = 120


def main() -> None:
    """Print the times of each step as median and p95."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=40)
    parser.add_argument("--history", type=int, default=100_000)
    parser.add_argument("--every", type=float, default=3.0)
    parser.add_argument("--trigger", default="PT5S")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        broker = KafkaBroker(Path(folder, "kafka"))
        broker.start()
        processes: list[subprocess.Popen[bytes]] = []
        try:
            broker.create_topic(TOPIC)
            lake = write_contract(Path(folder), TOPIC, broker.servers)
            metric = {
                "metric": "hourly",
                "source": "events",
                "window": {"size": "PT1H"},
                "measures": [{"name": "total", "sql": "sum(amount)", "type": "bigint", "additive": True}],
                "live": {"watermark": "PT10M", "trigger": options.trigger, "keep": "P9999D"},
            }
            Path(folder, "contracts", "hourly.yaml").write_text(yaml.safe_dump(metric))
            broker.produce(TOPIC, [message(number, back=options.history - number) for number in range(options.history)])
            for command in (["stream", "run", "events", "--every", "0.2"], ["live", "start", "hourly"]):
                environment = os.environ | {"LAKEHOUSE_ROOT": lake.root}
                run = [sys.executable, "-m", "lakehouse", *command]
                processes.append(subprocess.Popen(run, cwd=folder, env=environment, stdout=subprocess.DEVNULL))
            wait(lambda: live_rows(lake) >= options.history * 0.9)
            measure(lake, broker, options.messages, options.every)
        finally:
            for process in processes:
                process.terminate()
                process.wait()
            broker.stop()


def message(number: int, back: int = 0) -> dict[str, Any]:
    """An event of now, or of so many times nine seconds ago."""
    happened = time.time() - back * 9
    value = {
        "id": f"k{number}",
        "amount": 1,
        "op": "insert",
        "event_time": datetime.fromtimestamp(happened, timezone.utc).isoformat(),
    }
    return {"value": json.dumps(value).encode(), "partition": number % 2, "timestamp": int(happened * 1000)}


def measure(lake: Lake, broker: KafkaBroker, count: int, every: float) -> None:
    """Send messages, and wait for each of its numbers."""
    catalog, spark = load_catalog(Path(lake.settings.contracts), bundled=False), LakeSpark().spark_session
    metric, source = catalog.metrics["hourly"], catalog.sources["events"]
    series = Series(metric)

    def publish() -> None:
        pending = sorted(applied_inputs.pending(lake, "events"))
        silver_update.update(lake, source, lambda: spark, pending, "run", [metric])
        follows = find_pending(lake, series)
        restatement_days.restate(lake, source, series, lambda: spark, follows.starts, Run("run"), follows)

    publish()
    times: dict[str, list[float]] = {"in Bronze": [], "in the live number": [], "in the books": []}
    for number in range(count):
        rows, streamed, begun = bronze_rows(lake), live_rows(lake), time.time()
        broker.produce(TOPIC, [message(10_000_000 + number)], **{"linger.ms": 0})
        wait(lambda before=rows: bronze_rows(lake) > before)
        times["in Bronze"].append(time.time() - begun)
        if number % 4 == 0:
            began = time.time()
            publish()
            times["in the books"].append(times["in Bronze"][-1] + time.time() - began)
        wait(lambda before=streamed: live_rows(lake) > before)
        if number % 4:
            times["in the live number"].append(time.time() - begun)
        time.sleep(every * (0.5 + number % 7 / 7))
    for name, seconds in times.items():
        print(f"{name:20} median {median(seconds):6.2f} s, p95 {quantiles(seconds, n=20)[-1]:6.2f} s, of {len(seconds)} messages")


def bronze_rows(lake: Lake) -> int:
    """How many rows Bronze has, by its log."""
    table = locations.bronze(lake, "events").open()
    return 0 if table is None else table_io.rows_at_most(table, {})


def live_rows(lake: Lake) -> int:
    """How many rows the live numbers count."""
    rows = locations.live(lake, "hourly").read(["row_count"])
    return 0 if rows is None else sum(rows["row_count"].to_pylist())


def wait(until: Callable[[], bool]) -> None:
    """Wait for something."""
    ends = time.monotonic() + _SECONDS
    while not until():
        assert time.monotonic() < ends
        time.sleep(0.02)


if __name__ == "__main__":
    main()
