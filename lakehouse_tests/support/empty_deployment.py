"""An empty deployment for ticks of sensors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import pytest

from lakehouse.lake import Lake
from lakehouse.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(name="deployment")
def _lake(tmp_path: Path) -> Lake:
    (tmp_path / "landing").mkdir()
    return Lake(Settings(root=str(tmp_path / "lake"), landing=str(tmp_path / "landing")))


@pytest.fixture(name="instance")
def _instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture(name="instance")
def instance_on_disk(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    """An instance without settings, whose storage is Dagster's own."""
    (tmp_path / "home").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "home")) as instance:
        yield instance
