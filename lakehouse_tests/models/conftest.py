"""A lake with training sets and a training function, of each test its own."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from lakehouse_tests.support import trained_lake

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lakehouse.settings import Settings


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Settings]:
    """The settings of a lake with ``training_data`` v5.0 and v5.1, and an MLflow without content."""
    with trained_lake.own_modules():
        settings = trained_lake.settings_of(tmp_path)
        trained_lake.fill(settings)
        yield settings


@pytest.fixture(scope="module")
def trained_once(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """A lake with the versions v2.3 and v2.4 of ``fraud``, neither of them in use."""
    with trained_lake.own_modules():
        settings = trained_lake.settings_of(tmp_path_factory.mktemp("trained"))
        trained_lake.fill(settings)
        trained_lake.train(settings, "v2.3")
        trained_lake.train(settings, "v2.4", "v5.1", notes="learns from corrected labels", parameters={"strength": 0.5})
    return settings


@pytest.fixture
def new_lake(trained_once: Settings, tmp_path: Path) -> Iterator[Callable[[], Settings]]:
    """Makes copies of that lake. Their models stay where the first lake has them."""
    copies: list[Settings] = []

    def copy() -> Settings:
        root = tmp_path / f"lake{len(copies)}"
        shutil.copytree(trained_once.root, root)
        copies.append(trained_once.model_copy(update={"root": str(root)}))
        return copies[-1]

    return copy


@pytest.fixture
def trained_lake_settings(new_lake: Callable[[], Settings]) -> Settings:
    """A copy of that lake."""
    return new_lake()
