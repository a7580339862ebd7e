"""A deployment that uses a server started by ``lakehouse admin spark`` gives the same tables as one with a session of its own."""

from __future__ import annotations

import os
import signal
import socket
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.lake import Table
from lakehouse_tests.support import tried
from lakehouse_tests.support.cli import lakehouse_command
from lakehouse_tests.support.sales_files import FIRST_DAY, FIRST_SALES, LATE_SALES, SECOND_DAY
from lakehouse_tests.support.spark_server import machine

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.merge, pytest.mark.proof]
pytest.importorskip("grpc", reason="the extra 'connect' is not installed")


def bronze(home: Path) -> list[dict[str, Any]]:
    return Table(str(home / "lake" / "bronze" / "sales")).read(["arrival_date"]).to_pylist()


def rows(home: Path, layer: str, *without: str) -> list[Any]:
    found = Table(str(home / "lake" / layer)).read()
    return sorted(repr(sorted((name, row[name]) for name in row if name not in without)) for row in found.to_pylist())


def test_the_tables_are_the_same_and_the_server_starts_once(tmp_path: Path) -> None:
    with_server, alone = homes = [tmp_path / name for name in ("with server", "alone")]
    for home in homes:
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
        # The first day by the server's address, the second by the server's record, where no Java could start another one.
        named = {"LAKEHOUSE_SPARK_REMOTE": host.address}
        recorded = host.auto | {"JAVA_HOME": "/nonexistent", "PATH": "/nonexistent"}
        for day, environment in ((FIRST_DAY, named), (SECOND_DAY, recorded)):
            done = lakehouse_command(with_server, "replay", "sales", "--from", f"{day}", "--through", f"{day}", **environment)
            assert done.returncode == 0, done.stderr
            assert "stacktrace" not in done.stderr
            assert {row["arrival_date"] for row in bronze(with_server)} == {FIRST_DAY, day}
        assert f"{host.address} has ended." in host.spark("stop").stdout
        assert host.spark("status").returncode == 1
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", host.port)) != 0
    assert lakehouse_command(alone, "replay", "sales").returncode == 0
    for layer in ("bronze/sales", "silver/sales", "gold/revenue"):
        own = ("published_at", "superseded_at", "restated_on", "run_id", "publication_id") if layer.startswith("gold") else ()
        assert rows(with_server, layer, *own) == rows(alone, layer, *own)


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
        tried.count("kills")
        assert "is gone; its log is" in host.spark("status").stdout
        assert host.start().returncode == 0
        assert host.pid() != crashed
