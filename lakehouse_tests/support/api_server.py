"""The API behind a real socket, on a lake with something of everything."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import uvicorn

from lakehouse.serving import app, tokens
from lakehouse.serving.app import AccessPolicy
from lakehouse.serving.tokens import Role
from lakehouse_tests.support.api_client import at, catalog, numbers_with_weeks, publish_two_days, write_source_rows
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.numbers_without_spark import without_spark

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def running_server(folder: Path) -> Iterator[tuple[str, str]]:
    """A server on a lake with something of everything: its address, and a steward's token."""
    with without_spark():
        numbers = publish_two_days(numbers_with_weeks(lake_in(folder)))
    source = contract(lateness={"watermark": "P1D", "beyond": "quarantine"})
    rows = [(f"k{number}", at(1), at(1 + number % 3), "insert", "admitted") for number in range(20)]
    write_source_rows(numbers.lake, source, [*rows, ("late", at(1), at(5), "insert", "quarantined")])
    _, token = tokens.add(numbers.lake, "anna", Role.STEWARD)
    made = app.application_of(numbers.lake, catalog(numbers.metric, source=source), AccessPolicy(rate=1e9))
    running = uvicorn.Server(uvicorn.Config(made, port=0, log_level="error", server_header=False, proxy_headers=False))
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    until = time.monotonic() + 60
    while not running.started and time.monotonic() < until:
        time.sleep(0.05)
    assert running.started
    yield f"http://127.0.0.1:{running.servers[0].sockets[0].getsockname()[1]}", token
    running.should_exit = True
    thread.join(30)
