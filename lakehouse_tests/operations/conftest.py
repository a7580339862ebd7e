"""Fixtures of an empty deployment, in which nothing waits before it is tried again."""

from __future__ import annotations

import pytest

from lakehouse.operations import delivery
from lakehouse_tests.support.empty_deployment import _instance, _lake

__all__ = ["_instance", "_lake"]


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch) -> None:
    monkeypatch.setattr(delivery, "PAUSES", (0.0, 0.0))
