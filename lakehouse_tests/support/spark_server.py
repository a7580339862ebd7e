"""The server of ``lakehouse admin spark start``, with a state folder and a port of its own.

A run that starts its own Spark needs ten seconds of two cores for that. Tests of many processes use a server instead.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakehouse_tests.support.cli import lakehouse_command
from lakehouse_tests.support.free_port import free_port

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path


class Machine:
    """A user's state folder, and the commands that share it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.address = f"sc://127.0.0.1:{self.port}"
        self.state_file = folder / "state" / "lakehouse" / "spark.json"
        #: With these settings a process uses the server while it answers, and a Spark of its own before.
        self.auto = {"XDG_STATE_HOME": str(folder / "state"), "LAKEHOUSE_SPARK_REMOTE": "auto"}

    def spark(self, command: str, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run ``lakehouse admin spark``."""
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
