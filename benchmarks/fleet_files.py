"""How soon files become numbers in a deployment of many contracts: a file of one source, then a file of each source.

    python benchmarks/fleet_files.py [--sources 200] [--metrics 500] [--files 200] [--keep FOLDER]

The contracts are those of ``fleet.py``. ``dagster dev`` runs in a process of its own; a file has twenty rows of one day. Printed
are the seconds until the daily numbers of all concerned metrics are published, the number of runs, and the greatest memory of all
processes. Compare with a small deployment: ``--sources 2 --metrics 5 --files 2``.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import psutil
from fleet import write_contracts

from lakehouse_tests.support.deployment import Deployment

if TYPE_CHECKING:
    from collections.abc import Collection

_PATIENCE = 1800


class Memory(threading.Thread):
    """The greatest memory of all processes below this one, in bytes."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.greatest = 0

    def run(self) -> None:
        while True:
            with suppress(psutil.Error):
                used = sum(process.memory_info().rss for process in psutil.Process().children(recursive=True))
                self.greatest = max(self.greatest, used)
            time.sleep(1)


def main() -> None:
    """Print a line for one file, and one for a file of each source."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sources", type=int, default=200)
    parser.add_argument("--metrics", type=int, default=500)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--keep", type=Path, help="a new folder for the deployment; default: a temporary one")
    arguments = parser.parse_args()
    memory = Memory()
    memory.start()
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.keep or Path(scratch)
        write_contracts(folder / "contracts", arguments.sources, arguments.metrics)
        environment = {"LAKEHOUSE_CONTRACTS": str(folder / "contracts"), "LAKEHOUSE_BUNDLED_CONTRACTS": "false"}
        deployment = Deployment(folder, **environment)
        landing = deployment.root / "landing"
        for number in range(arguments.sources):
            (landing / f"source_{number:03}").mkdir(parents=True)
        with deployment.running():
            os.environ["DAGSTER_HOME"] = str(deployment.home)
            instance = dg.DagsterInstance.get()
            time.sleep(60)  # until each sensor has looked at all tables once
            before = processor_seconds()
            time.sleep(60)
            idle = processor_seconds() - before
            print(
                f"{arguments.sources} sources, {arguments.metrics} metrics: {idle:.1f} s of processor time a minute", flush=True
            )
            for numbers, day in (([1], 5), (range(arguments.files), 8)):
                begun, before = time.monotonic(), len(instance.get_runs())
                for number in numbers:
                    write_file(landing / f"source_{number:03}", number, day)
                metrics = [f"metric_{at:03}" for at in range(arguments.metrics) if at % arguments.sources in {*numbers}]
                wait(instance, metrics, f"2024-02-{day - 1:02}")
                seconds, runs = time.monotonic() - begun, len(instance.get_runs()) - before
                gigabytes = memory.greatest / 1e9
                print(
                    f"{len(numbers)} files: {len(metrics)} daily numbers after {seconds:.1f} s, {runs} runs, {gigabytes:.1f} GB",
                    flush=True,
                )
                while any(not run.is_finished for run in instance.get_runs()):
                    time.sleep(1)
                print(f"  all runs have ended after {time.monotonic() - begun:.1f} s", flush=True)


def processor_seconds() -> float:
    """The processor time of all processes below this one that live."""
    spent = 0.0
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            times = process.cpu_times()
            spent += times.user + times.system
    return spent


def write_file(folder: Path, number: int, day: int) -> None:
    """A file of twenty rows of the day before its arrival."""
    times = f"2024-02-{day - 1:02}T10:00:00Z,2024-02-{day:02}T06:00:00Z"
    rows = [f"o{number}_{day}_{row},{row + 1}.50,{row},{times}" for row in range(20)]
    text = "\n".join(["order_id,amount,customer_id,sold_at,received_at", *rows])
    (folder / f"arrival_date=2024-02-{day:02}.csv").write_text(f"{text}\n")


def wait(instance: dg.DagsterInstance, metrics: Collection[str], day: str) -> None:
    """Until a day of each metric is published."""
    missing, end = set(metrics), time.monotonic() + _PATIENCE
    while missing and time.monotonic() < end:
        missing = {name for name in missing if day not in instance.get_materialized_partitions(dg.AssetKey(["gold", name]))}
        time.sleep(1)
    if missing:
        msg = f"{len(missing)} numbers are missing after {_PATIENCE} seconds"
        raise TimeoutError(msg)


if __name__ == "__main__":
    main()
