"""Fixtures that several tests of the tables share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakehouse_tests.support import maintained_lake

if TYPE_CHECKING:
    from lakehouse.settings import Settings


@pytest.fixture
def lifted(settings: Settings) -> Settings:
    """A lake whose tables may be looked after without waiting."""
    return maintained_lake.lifted(settings)
