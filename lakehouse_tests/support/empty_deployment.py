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
