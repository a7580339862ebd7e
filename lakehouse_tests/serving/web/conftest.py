"""Fixtures of the pages' tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakehouse_tests.support.api_client import asked, catalog
from lakehouse_tests.support.page_client import SOURCE, shop

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from starlette.testclient import TestClient

    from lakehouse_tests.support.numbers_without_spark import Desk


@pytest.fixture(name="told")
def _told(tmp_path: Path) -> Desk:
    return shop(tmp_path)


@pytest.fixture(name="client")
def _client(told: Desk) -> Iterator[TestClient]:
    with asked(told.settings, catalog(told.metric, source=SOURCE)) as client:
        client.headers["Origin"] = "http://localhost"
        yield client
