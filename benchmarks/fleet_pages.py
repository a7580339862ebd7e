"""How fast pages and API answer in a deployment of many contracts: overview, search, list of metrics, gauges.

    python benchmarks/fleet_files.py --keep FOLDER          # 200 sources, 500 metrics, 1,500 series with numbers
    python benchmarks/fleet_pages.py FOLDER [--requests 200] [--pause 0.1]

``lakehouse serve`` runs in a process of its own. Printed are, in milliseconds, the first request to each address, and
of the later ones, which take turns, the median, the 99th percentile and the longest.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from statistics import median

from lakehouse_tests.support.free_port import free_port

_ADDRESSES = ("/", "/?q=metric_12", "/?owner=team_3", "/?page=4", "/metrics", "/metrics?q=metric_12&limit=50", "/prometheus")
_PATIENCE = 120


def main() -> None:
    """Print a table with a line for each address."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="the folder that fleet_files.py has kept")
    parser.add_argument("--requests", type=int, default=200, help="for each address")
    parser.add_argument("--pause", type=float, default=0.1, help="seconds between two requests")
    parser.add_argument("--wait", type=float, default=0, help="seconds before the first request: the server reads meanwhile")
    arguments = parser.parse_args()
    port = free_port()
    environment = os.environ | {
        "LAKEHOUSE_ROOT": str(arguments.folder / "lake"),
        "LAKEHOUSE_CONTRACTS": str(arguments.folder / "contracts"),
        "LAKEHOUSE_BUNDLED_CONTRACTS": "false",
        "DAGSTER_HOME": str(arguments.folder / "dagster_home"),
    }
    process = subprocess.Popen([sys.executable, "-m", "lakehouse", "serve", "--port", str(port)], env=environment)
    try:
        wait(port)
        time.sleep(arguments.wait)
        first = {address: seconds(port, address) for address in _ADDRESSES}
        later: dict[str, list[float]] = {address: [] for address in _ADDRESSES}
        for _ in range(arguments.requests):
            for address in _ADDRESSES:
                later[address].append(seconds(port, address))
                time.sleep(arguments.pause)
    finally:
        process.terminate()
        process.wait()
    print("| address | first | median | p99 | longest |\n| --- | --- | --- | --- | --- |")
    for address, taken in later.items():
        in_order = sorted(taken)
        figures = (first[address], median(taken), in_order[math.ceil(0.99 * len(taken)) - 1], in_order[-1])
        print(f"| `{address}` | {' | '.join(f'{1000 * figure:,.0f}' for figure in figures)} |", flush=True)


def wait(port: int) -> None:
    """Until the server answers."""
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        with suppress(OSError):
            seconds(port, "/page/style.css")
            return
        time.sleep(0.2)
    raise TimeoutError(port)


def seconds(port: int, address: str) -> float:
    """How long the response to a request takes, read to its end."""
    begun = time.monotonic()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{address}", timeout=_PATIENCE) as response:
        response.read()
    return time.monotonic() - begun


if __name__ == "__main__":
    main()
