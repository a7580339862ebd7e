"""A registry for each test, which no other test has asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakehouse.streams.wire_format import avro
from lakehouse_tests.support.schema_registry import RegistryServer, schema_registry

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[RegistryServer]:
    """A registry, of which this process knows nothing: its port may be that of an earlier one."""
    monkeypatch.setattr(avro, "_READERS", {})
    monkeypatch.setattr(avro, "_UNKNOWN", {})
    with schema_registry() as running:
        yield running
