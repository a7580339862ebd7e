"""A real MLflow server, a process of its own, with its store and its models in a folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import requests
from tenacity import retry, stop_after_delay, wait_fixed

from lakehouse_tests.support.free_port import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def mlflow_server(folder: Path, port: int | None = None) -> Iterator[str]:
    """The address of a server that keeps everything in ``folder``; it ends with the block."""
    address = f"http://127.0.0.1:{port or free_port()}"
    store = ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--artifacts-destination", (folder / "models").as_uri()]
    where = ["--host", "127.0.0.1", "--port", address.rpartition(":")[2], "--workers", "1"]
    # Its job runner is nine more processes, which nothing here needs.
    environment = os.environ | {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    with (folder / "server.log").open("ab") as output:
        server = subprocess.Popen(
            [sys.executable, "-m", "mlflow", "server", *store, *where],
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,  # it starts processes of its own
        )
    try:
        _require_answer(address)
        yield address
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


@retry(stop=stop_after_delay(120), wait=wait_fixed(0.3), reraise=True)
def _require_answer(address: str) -> None:
    requests.get(f"{address}/health", timeout=5).raise_for_status()
