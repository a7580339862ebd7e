"""A Postgres server for one test: Debian's programs, a data folder of its own, reached over a local port."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from lakehouse_tests.support.free_port import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

DEBIAN_PROGRAMS = Path("/usr/lib/postgresql")


def programs() -> Path | None:
    """The folder of ``initdb`` and ``pg_ctl``; None where Postgres is not installed."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    versions = list(DEBIAN_PROGRAMS.iterdir()) if DEBIAN_PROGRAMS.is_dir() else []
    return max(versions, key=lambda version: float(version.name)) / "bin" if versions else None


needs_postgres = pytest.mark.skipif(programs() is None, reason="Postgres is not installed (Debian's package postgresql)")


@contextmanager
def postgres_server() -> Iterator[str]:
    """The address of the server's database ``dagster``, until the block ends."""
    # Not below pytest's own folder: another run of pytest takes the rights of other users away from it.
    with TemporaryDirectory(prefix="postgres-") as folder:
        yield from _server(Path(folder))


def _server(folder: Path) -> Iterator[str]:
    port = free_port()
    owner = "postgres" if os.geteuid() == 0 else None  # the server refuses to run as root
    if owner is not None:
        shutil.chown(folder, owner)

    def run(program: str, *arguments: str) -> None:
        command = [f"{programs()}/{program}", *arguments]
        subprocess.run(command, user=owner, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)

    data = str(folder / "data")
    run("initdb", "--pgdata", data, "--username", "dagster", "--auth", "trust", "--no-sync")
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
    run("pg_ctl", "--pgdata", data, "--log", str(folder / "log"), "--options", options, "--wait", "start")
    try:
        run("createdb", "--host", "127.0.0.1", "--port", f"{port}", "--username", "dagster", "dagster")
        yield f"postgresql+psycopg2://dagster@127.0.0.1:{port}/dagster"
    finally:
        run("pg_ctl", "--pgdata", data, "--mode", "immediate", "stop")
