"""The server listens before it has read a number, and what it reads of a source is read once for all values."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from starlette.testclient import TestClient

from lakehouse.lake.table_cache import TableCache
from lakehouse.serving import app, published_cache
from lakehouse_tests.support.api_client import catalog
from lakehouse_tests.support.numbers_without_spark import metric

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest
    from deltalake import DeltaTable

    from lakehouse.lake import Lake


def test_it_answers_while_the_numbers_are_still_being_read(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go = threading.Event(), threading.Event()
    real = published_cache.snapshot.read

    def slow(*arguments: Any) -> Any:
        begun.set()
        go.wait(30)
        return real(*arguments)

    monkeypatch.setattr(published_cache.snapshot, "read", slow)
    with TestClient(app.application_of(lake, catalog(metric())), base_url="http://localhost") as client:
        assert begun.wait(10), "it reads what first requests need"
        assert client.get("/metrics").status_code == 200
        go.set()
        assert client.get("/health").status_code == 200


def test_the_overview_looks_at_a_table_at_most_once_for_each_thing_it_shows(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []
    real = TableCache._newest

    def counted(cache: TableCache, path: str, default: Callable[[], DeltaTable | None]) -> DeltaTable | None:
        looks.append(path)
        return real(cache, path, default)

    with TestClient(app.application_of(lake, catalog(metric())), base_url="http://localhost") as client:
        client.get("/")
        monkeypatch.setattr(TableCache, "_newest", counted)
        client.get("/")
        fresh = len(looks)
        monkeypatch.setattr("lakehouse.serving.responses.monotonic", lambda: 1e9)
        client.get("/")
    assert fresh <= len(looks)
    ingestions = [path for path in looks[fresh:] if path.endswith("ops/ingestions")]
    assert 1 <= len(ingestions) <= 4, "pending changes, the source, its rows that wait, and its arrivals"
