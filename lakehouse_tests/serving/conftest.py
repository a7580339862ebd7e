"""Fixtures of the pages' tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakehouse_tests.support.api_client import api_client, catalog
from lakehouse_tests.support.page_client import SOURCE, numbers_and_quarantined_rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from starlette.testclient import TestClient

    from lakehouse_tests.support.numbers_without_spark import ScriptedNumbers


@pytest.fixture(name="numbers")
def _numbers(tmp_path: Path) -> ScriptedNumbers:
    return numbers_and_quarantined_rows(tmp_path)


@pytest.fixture(name="client")
def _client(numbers: ScriptedNumbers) -> Iterator[TestClient]:
    with api_client(numbers.lake, catalog(numbers.metric, source=SOURCE)) as client:
        client.headers["Origin"] = "http://localhost"
        yield client
