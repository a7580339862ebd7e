"""A deployment that uses a server started by ``lakehouse spark`` gives the same tables as one with a session of its own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.delta import table_io
from lakehouse_tests.support.cli import lakehouse_command
from lakehouse_tests.support.sales_files import FIRST_SALES, LATE_SALES

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.spark, pytest.mark.acceptance]
pytest.importorskip("grpc", reason="the extra 'connect' is not installed")


class Machine:
    """A user's state folder, and the commands that share it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"sc://127.0.0.1:{self.port}"
        self.state_file = folder / "state" / "lakehouse" / "spark.json"

    def spark(self, command: str, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run ``lakehouse spark``."""
        own = {"XDG_STATE_HOME": str(self.folder / "state"), "COLUMNS": "500", **environment}
        return lakehouse_command(self.folder, "spark", command, *options, **own)

    def start(self, **environment: str) -> subprocess.CompletedProcess[str]:
        return self.spark("start", "--port", str(self.port), **environment)

    def pid(self) -> int:
        return int(json.loads(self.state_file.read_text())["pid"])


@contextmanager
def machine(folder: Path) -> Iterator[Machine]:
    """A machine whose server is stopped at the end, whatever happens."""
    folder.mkdir()
    host = Machine(folder)
    try:
        yield host
    finally:
        host.spark("stop")


def rows(home: Path, layer: str, *without: str) -> list[Any]:
    found = table_io.read(str(home / "lake" / layer))
    return sorted(repr(sorted((name, row[name]) for name in row if name not in without)) for row in found.to_pylist())


def test_the_tables_are_the_same_and_the_server_starts_once(tmp_path: Path) -> None:
    homes = {name: tmp_path / name for name in ("own session", "named", "auto")}
    for home in homes.values():
        landing = home / "lake" / "landing" / "sales"
        landing.mkdir(parents=True)
        (landing / "arrival_date=2024-11-05.csv").write_text(FIRST_SALES)
        (landing / "arrival_date=2024-11-06.csv").write_text(LATE_SALES)
    with machine(tmp_path / "machine") as host:
        export = f"export LAKEHOUSE_SPARK_REMOTE={host.address}\n"
        started = host.start()
        assert (started.stdout, started.returncode) == (export, 0), started.stderr
        pid = host.pid()
        again = host.start()
        assert (again.stdout, host.pid()) == (export, pid)
        assert "It runs already" in again.stderr
        assert f"{host.address} answers: Spark 4." in host.spark("status").stdout
        for name, remote in [("named", host.address), ("auto", "auto")]:
            state = {"XDG_STATE_HOME": str(host.folder / "state"), "PATH": os.environ["PATH"]}
            if name == "auto":
                state["JAVA_HOME"] = state["PATH"] = "/nonexistent"  # so no session of its own could start
            done = lakehouse_command(homes[name], "replay", "sales", LAKEHOUSE_SPARK_REMOTE=remote, **state)
            assert done.returncode == 0, done.stderr
            assert "stacktrace" not in done.stderr
        assert f"{host.address} has ended." in host.spark("stop").stdout
        assert host.spark("status").returncode == 1
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", host.port)) != 0
    assert lakehouse_command(homes["own session"], "replay", "sales").returncode == 0
    for layer in ("bronze/sales", "silver/sales", "gold/revenue"):
        own = ("published_at", "superseded_at", "restated_on", "run_id", "publication_id") if layer.startswith("gold") else ()
        assert rows(homes["named"], layer, *own) == rows(homes["auto"], layer, *own)
        assert rows(homes["named"], layer, *own) == rows(homes["own session"], layer, *own)


def test_remains_of_a_crash_are_recognized_and_a_start_that_fails_shows_the_log(tmp_path: Path) -> None:
    with machine(tmp_path / "machine") as host:
        failed = host.start(LAKEHOUSE_SPARK_MASTER="nonsense")
        assert failed.returncode == 1
        assert "has ended; its log" in failed.stderr
        assert "Master must either be" in failed.stderr
        assert not host.state_file.exists()

        assert host.start().returncode == 0
        crashed = host.pid()
        os.killpg(crashed, signal.SIGKILL)
        assert "is gone; its log is" in host.spark("status").stdout
        assert host.start().returncode == 0
        assert host.pid() != crashed
