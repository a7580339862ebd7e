"""A deployment that uses a Spark Connect server gives the same tables as one with a session of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest

from lakehouse.ledger import store
from lakehouse.settings import Settings
from lakehouse.tables.session import spark_options
from lakehouse_tests.acceptance.test_automation import FIRST, LATE
from lakehouse_tests.cli.test_commands import lakehouse_command

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.spark, pytest.mark.acceptance]
pytest.importorskip("grpc", reason="the extra 'connect' is not installed")


@contextmanager
def connect_server(log: Path) -> Iterator[str]:
    """A server of this machine's Spark; gives its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    command = [str(submit), "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    for name, value in spark_options(Settings()).items():
        command += ["--conf", f"{name}={value}"]
    command += ["--conf", f"spark.connect.grpc.binding.port={port}", "spark-internal"]
    with log.open("w") as said, subprocess.Popen(command, stdout=said, stderr=said, start_new_session=True) as server:
        try:
            for _ in range(120):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.5)
            else:
                pytest.fail(f"the server did not start:\n{log.read_text()[-2000:]}")
            yield f"sc://127.0.0.1:{port}"
        finally:
            os.killpg(server.pid, 9)


def rows(home: Path, layer: str, *without: str) -> list[Any]:
    found = store.read(str(home / "lake" / layer))
    return sorted(repr(sorted((name, row[name]) for name in row if name not in without)) for row in found.to_pylist())


def test_the_tables_are_the_same(tmp_path: Path) -> None:
    homes = {name: tmp_path / name for name in ("own session", "connect")}
    for home in homes.values():
        landing = home / "lake" / "landing" / "sales"
        landing.mkdir(parents=True)
        (landing / "arrival_date=2024-11-05.csv").write_text(FIRST)
        (landing / "arrival_date=2024-11-06.csv").write_text(LATE)
    with connect_server(tmp_path / "server.log") as address:
        done = lakehouse_command(homes["connect"], "replay", "sales", LAKEHOUSE_SPARK_REMOTE=address)
        assert done.returncode == 0, done.stderr
    assert lakehouse_command(homes["own session"], "replay", "sales").returncode == 0
    for layer in ("bronze/sales", "silver/sales", "gold/revenue"):
        own = ("published_at", "superseded_at", "restated_on", "run_id", "publication_id") if layer.startswith("gold") else ()
        assert rows(homes["connect"], layer, *own) == rows(homes["own session"], layer, *own)
