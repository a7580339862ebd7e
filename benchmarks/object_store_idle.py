"""What an idle deployment in an object store requests in a minute: ``dagster dev``, nothing arrives.

    python benchmarks/object_store_idle.py DATA [--days 4] [--sources 0] [--minutes 2] [--milliseconds 30]

DATA is the folder of the earthquake history (with ``batches``). By default there are the two bundled sources, and some arrival
days of one of them; with ``--sources`` those of ``fleet.py``, each with a metric and a file. The requests are counted by
``request_counter.py`` once all files are published and no run has started for two minutes. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

from fleet import write_contracts
from fleet_files import write_file
from handwritten import FIRST
from object_store import counted, counts, settings

from lakehouse_tests.support.deployment import Deployment
from lakehouse_tests.support.s3_server import BUCKET, s3_server

_QUIET, _PATIENCE = 120, 1800


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--days", type=int, default=4)
    parser.add_argument("--sources", type=int, default=0)
    parser.add_argument("--minutes", type=int, default=2)
    parser.add_argument("--milliseconds", type=float, default=30)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as servers:
        folder = Path(scratch)
        store = servers.enter_context(s3_server(folder))
        proxied = servers.enter_context(counted(store, arguments.milliseconds))
        environment = {**proxied.options, **settings(proxied, f"s3://{BUCKET}/lake")}
        if arguments.sources:
            write_contracts(folder / "contracts", arguments.sources, arguments.sources)
            environment |= {"LAKEHOUSE_CONTRACTS": str(folder / "contracts"), "LAKEHOUSE_BUNDLED_CONTRACTS": "false"}
            (folder / "files").mkdir()
            for number in range(arguments.sources):
                write_file(folder / "files", number, 5)
                (file,) = (folder / "files").iterdir()
                store.put(f"lake/landing/source_{number:03}/{file.name}", file.read_bytes())
                file.unlink()
        else:
            for number in range(arguments.days):
                name = f"arrival_date={FIRST + timedelta(days=number)}.csv.gz"
                store.put(f"lake/landing/earthquakes/{name}", (arguments.data / "batches" / name).read_bytes())
        deployment = Deployment(folder / "deployment", **environment)
        del deployment.environment["LAKEHOUSE_SENSOR_SECONDS"]  # of tests
        with deployment.running():
            wait(deployment)
            counts(proxied)
            time.sleep(60 * arguments.minutes)
            read = counts(proxied)
    kinds = {name: read[name] for name in ("requests", "by kind", "by table", "MB received")}
    print(json.dumps({"minutes": arguments.minutes, "requests a minute": read["requests"] / arguments.minutes} | kinds, indent=1))


def wait(deployment: Deployment) -> None:
    """Until runs have been made, and none has been at work for two minutes."""
    end, quiet_since = time.monotonic() + _PATIENCE, None
    while time.monotonic() < end:
        runs = deployment.runs()
        is_quiet = runs and all(run["status"] in {"SUCCESS", "FAILURE", "CANCELED"} for run in runs)
        quiet_since = (quiet_since or time.monotonic()) if is_quiet else None
        print(f"{len(runs)} runs", file=sys.stderr)
        if quiet_since is not None and time.monotonic() - quiet_since >= _QUIET:
            return
        time.sleep(5)
    raise TimeoutError(os.fspath(deployment.folder))


if __name__ == "__main__":
    main()
