"""How a code location grows with its contracts: sensors, schedules, jobs, bytes of its snapshot, and seconds to load it.

    python benchmarks/fleet.py [--sources 100 200] [--metrics 250 500]

For each pair a folder of contracts is written: sources of three fields, and metrics with one measure, each with weeks and months.
The snapshot is what a code server sends to the web server and the daemon. Each pair is loaded in a fresh process.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import dagster as dg

SOURCE = """\
dataset: source_{number:03}
owner: team_{team}
description: Orders of region {number}.
primary_key: [order_id]
source: {{landing: "arrival_date={{arrival_date}}*.csv", start_date: 2024-01-01}}
clocks: {{event: sold_at, arrival: received_at}}
model:
  fields:
    - {{name: order_id, type: string, required: true}}
    - {{name: amount, type: "decimal(12,2)"}}
    - {{name: customer_id, type: int}}
"""
METRIC = """\
metric: metric_{number:03}
source: source_{source:03}
owner: team_{team}
description: Revenue {number}.
measures:
  - {{name: revenue, sql: sum(amount), type: 'decimal(14,2)', additive: true}}
publication: {{rollups: [week, month]}}
"""


def write_contracts(folder: Path, sources: int, metrics: int) -> None:
    """Write the contracts of a deployment into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(sources):
        (folder / f"source_{number:03}.yaml").write_text(SOURCE.format(number=number, team=number % 20))
    for number in range(metrics):
        text = METRIC.format(number=number, source=number % sources, team=number % 20)
        (folder / f"metric_{number:03}.yaml").write_text(text)


def main() -> None:
    """Print a table with a line for each pair; or, in a process of its own, load one deployment."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sources", type=int, nargs="+", default=[100, 200])
    parser.add_argument("--metrics", type=int, nargs="+", default=[250, 500])
    parser.add_argument("--load", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.load:
        print(json.dumps(loaded(arguments.load)))
        return
    columns = ("sensors", "schedules", "jobs", "assets", "megabytes", "contracts_s", "definitions_s", "snapshot_s")
    print(f"| sources, metrics | {' | '.join(columns)} |\n|{' --- |' * (len(columns) + 1)}")
    for sources, metrics in zip(arguments.sources, arguments.metrics):
        with tempfile.TemporaryDirectory() as scratch:
            write_contracts(Path(scratch, "contracts"), sources, metrics)
            command = [sys.executable, __file__, "--load", scratch]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                sys.exit(done.stderr[-3000:])
            found = json.loads(done.stdout.splitlines()[-1])
            print(f"| {sources}, {metrics} | {' | '.join(f'{found[column]}' for column in columns)} |", flush=True)


def loaded(folder: Path) -> dict[str, Any]:
    """Counts, bytes and seconds of one deployment."""
    from dagster._core.remote_representation.external_data import RepositorySnap  # noqa: PLC0415

    from lakehouse.contracts import load_catalog  # noqa: PLC0415
    from lakehouse.orchestration.build import build_definitions  # noqa: PLC0415
    from lakehouse.settings import Settings  # noqa: PLC0415

    times = [time.perf_counter()]
    settings = Settings(root=f"{folder}/lake", landing=f"{folder}/landing", contracts=folder / "contracts")
    catalog = load_catalog(settings.contracts, bundled=False)
    times.append(time.perf_counter())
    repository = build_definitions(settings, catalog).get_repository_def()
    times.append(time.perf_counter())
    snapshot = RepositorySnap.from_def(repository)
    size = len(dg.serialize_value(snapshot))
    times.append(time.perf_counter())
    seconds = [round(end - begin, 1) for begin, end in itertools.pairwise(times)]
    return {
        "sensors": len(repository.sensor_defs),
        "schedules": len(repository.schedule_defs),
        "jobs": len(repository.get_all_jobs()),
        "assets": len(repository.asset_graph.get_all_asset_keys()),
        "megabytes": round(size / 1e6, 1),
        **dict(zip(("contracts_s", "definitions_s", "snapshot_s"), seconds)),
    }


if __name__ == "__main__":
    main()
