"""A lake with training sets and a training function, of each test its own."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from lakehouse_tests.support import trained_lake as trained

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lakehouse.lake import Lake


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[Lake]:
    """A lake with ``training_data`` v5.0 and v5.1, and an MLflow without content."""
    with trained.own_modules():
        lake = trained.settings_of(tmp_path)
        trained.fill(lake)
        yield lake


@pytest.fixture(scope="module")
def trained_once(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake with the versions v2.3 and v2.4 of ``fraud``, neither of them in use."""
    with trained.own_modules():
        lake = trained.settings_of(tmp_path_factory.mktemp("trained"))
        trained.fill(lake)
        trained.train(lake, "v2.3")
        trained.train(lake, "v2.4", "v5.1", notes="learns from corrected labels", parameters={"strength": 0.5})
    return lake


@pytest.fixture
def new_lake(trained_once: Lake, tmp_path: Path) -> Iterator[Callable[[], Lake]]:
    """Makes copies of that lake. Their models stay where the first lake has them."""
    copies: list[Lake] = []

    def copy() -> Lake:
        root = tmp_path / f"lake{len(copies)}"
        shutil.copytree(trained_once.root, root)
        copies.append(trained_once.with_settings(root=str(root)))
        return copies[-1]

    return copy


@pytest.fixture
def trained_lake(new_lake: Callable[[], Lake]) -> Lake:
    """A copy of that lake."""
    return new_lake()
