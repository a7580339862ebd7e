"""Arrival days in an object store: requests and seconds of the product, beside a hand-written job, each day a process of its own.

    python benchmarks/object_store.py DATA [--days 3] [--milliseconds 30] [--only lakehouse]

DATA is the folder of the earthquake history (with ``batches``). The store is moto's server; each request to it goes through
``request_counter.py``, which counts it and adds milliseconds, as a bucket in the same region does. The hand-written job
(``handwritten.py``) has the project's session, with its tables partitioned by day and not partitioned. All times include the
start of Python, and of Spark where it starts. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
from handwritten import FIRST
from pyarrow import fs

from lakehouse_tests.support.free_port import free_port
from lakehouse_tests.support.s3_server import BUCKET, Store, s3_server

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

HERE = Path(__file__).parent
BY_HAND = {"by hand, partitioned": [], "by hand, not partitioned": ["--unpartitioned"]}


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--days", type=int, default=3)
    parser.add_argument("--milliseconds", type=float, default=30)
    parser.add_argument("--only", choices=["lakehouse", *BY_HAND], action="append")
    arguments = parser.parse_args()
    batches = arguments.data.absolute() / "batches"
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as servers:
        store = servers.enter_context(s3_server(Path(scratch)))
        proxied = servers.enter_context(counted(store, arguments.milliseconds))
        home = Path(scratch, "dagster_home")
        home.mkdir()
        (home / "dagster.yaml").write_bytes((HERE.parent / "dagster_home" / "dagster.yaml").read_bytes())
        for name in arguments.only or ["lakehouse", *BY_HAND]:
            root = f"s3://{BUCKET}/{name.replace(' ', '_').replace(',', '')}"
            environment = {**os.environ, **proxied.options, **settings(proxied, root), "DAGSTER_HOME": f"{home}"}
            days = [one_day(name, batches, root, number, environment, proxied) for number in range(arguments.days)]
            figures[name] = {"first day": days[0], "later days": days[1:], "files": files_below(store, root)}
    print(json.dumps(figures, indent=1))


@contextmanager
def counted(store: Store, milliseconds: float) -> Iterator[Store]:
    """The store behind a proxy that counts and delays requests."""
    port = free_port()
    command = [sys.executable, f"{HERE / 'request_counter.py'}", f"{port}", store.endpoint, f"{milliseconds}"]
    proxy = subprocess.Popen(command)
    proxied = Store(f"http://127.0.0.1:{port}")
    try:
        while not answers(proxied):
            time.sleep(0.2)
        yield proxied
    finally:
        proxy.terminate()
        proxy.wait()


def answers(proxied: Store) -> bool:
    """Whether the proxy listens."""
    try:
        counts(proxied)
    except httpx.TransportError:
        return False
    return True


def counts(proxied: Store) -> dict[str, Any]:
    """The requests since the last call."""
    read: dict[str, Any] = httpx.get(f"{proxied.endpoint}/__counts").json()
    return read


def settings(proxied: Store, root: str) -> Mapping[str, str]:
    """The settings of a deployment in the store."""
    return {"LAKEHOUSE_ROOT": root, "LAKEHOUSE_STORAGE_OPTIONS": json.dumps(proxied.options)}


def one_day(name: str, batches: Path, root: str, number: int, environment: Mapping[str, str], proxied: Store) -> dict[str, Any]:
    """Bring one arrival day in, and count."""
    day = f"{FIRST + timedelta(days=number)}"
    if name == "lakehouse":
        command = [sys.executable, "-m", "lakehouse", "replay", "earthquakes"]
        command += ["--landing", f"{batches}", "--from", day, "--through", day]
    else:
        command = [sys.executable, f"{HERE / 'handwritten.py'}", f"{batches}", root, "1"]
        command += ["--session", "ours", "--skip", f"{number}", *BY_HAND[name]]
    counts(proxied)
    start = time.perf_counter()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - start
    read = counts(proxied)
    print(f"{name:26} {day}  {seconds:6.1f} s  {read['requests']:6,} requests", file=sys.stderr)
    return {"seconds": round(seconds, 1), **{what: read[what] for what in ("requests", "distinct", "by kind", "by table")}}


def files_below(store: Store, root: str) -> int:
    """The number of files, those of logs included."""
    selector = fs.FileSelector(root.removeprefix("s3://"), recursive=True)
    return sum(info.is_file for info in store.files().get_file_info(selector))


if __name__ == "__main__":
    main()
