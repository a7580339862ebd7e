"""A lake with training sets and a training function, of each test its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakehouse_tests.support import trained_lake

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakehouse.settings import Settings


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Settings]:
    """The settings of a lake with ``training_data`` v5.0 and v5.1, and an MLflow without content."""
    with trained_lake.own_modules():
        settings = trained_lake.settings_of(tmp_path)
        trained_lake.fill(settings)
        yield settings
