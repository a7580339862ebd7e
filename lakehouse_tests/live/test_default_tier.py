"""The speed layer on real Spark in each run: one of its tests, in a process that has a Spark of its own, as a stream needs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse_tests.support.cli import inherited

CHECKOUT = Path(__file__).parents[2]
TEST = "lakehouse_tests/live/test_stream.py::test_a_metric_of_whole_days_is_live_by_day"


@pytest.mark.spark
def test_a_stream_gives_the_numbers_of_the_model() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-m", "own_spark", TEST]
    environment = inherited() | {"LAKEHOUSE_TEST_SPARK": "own", "LAKEHOUSE_TEST_COSTS": ""}
    done = subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout
