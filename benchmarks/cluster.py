"""A first load on a standalone cluster of one worker and of two, with a core each, over the same files.

    python benchmarks/cluster.py [--rows 10000000] [--files 40] [--days 200]

Master, workers and driver are processes on this machine, so that two workers need at least two cores, and the driver's own
work takes from them. A second worker can use no more than the cores that are idle with one: the figures tell how many were
busy on the average. Needs Linux.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from volume_files import generate

from lakehouse_tests.support.spark_cluster import spark_cluster

#: Of each worker's executor; the driver has the heap of ``volume.py``.
_MEMORY = "4g"


def _busy_seconds() -> float:
    """The processor time of all processes and of the kernel since the machine started, idle time left out."""
    user, nice, system, _, _, *interrupts = map(int, Path("/proc/stat").read_text().splitlines()[0].split()[1:8])
    return float(user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Generate the files, load them twice, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in {"rows": 10_000_000, "files": 40, "days": 200}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    arguments = parser.parse_args()
    figures = {}
    with tempfile.TemporaryDirectory() as scratch:
        landing = Path(scratch, "landing")
        days = generate(landing, arguments.rows, arguments.files, arguments.days, late=10_000, late_days=30)
        for workers in (1, 2):
            folder = Path(scratch, f"{workers}")
            folder.mkdir()
            with spark_cluster(folder, workers, memory=_MEMORY) as master:
                own = {"LAKEHOUSE_SPARK_MASTER": master, "LAKEHOUSE_SPARK_CONF": json.dumps({"spark.executor.memory": _MEMORY})}
                script = Path(__file__).with_name("volume_lakehouse.py")
                command = [sys.executable, str(script), str(landing), str(folder / "lake"), ",".join(map(str, days))]
                busy, start = _busy_seconds(), time.perf_counter()
                done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, env=os.environ | own)
                busy = (_busy_seconds() - busy) / (time.perf_counter() - start)
            figures[f"{workers} workers"] = json.loads(done.stdout.splitlines()[-1]) | {"cores busy": round(busy, 2)}
    one, two = figures.values()
    figures["ratio"] = {work: round(one[work] / two[work], 2) for work in ("first load", "late rows")}
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
