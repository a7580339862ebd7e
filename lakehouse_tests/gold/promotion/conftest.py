"""Fixtures of the tests of promotion."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakehouse_tests.support.two_dataset_versions import three_days

if TYPE_CHECKING:
    from lakehouse.lake import Lake


@pytest.fixture
def filled(lake: Lake) -> Lake:
    """A lake in which both dataset versions have published three days and differ on the second."""
    return three_days(lake)
