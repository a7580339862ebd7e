"""The usual lines of a start are left out; every other line arrives."""

from __future__ import annotations

import subprocess
import sys

import pytest

START = """
import logging, subprocess, sys
from lakehouse.spark.session import without_usual_lines
logging.getLogger("lakehouse.spark").setLevel(sys.argv[1])
with without_usual_lines():
    child = subprocess.Popen(["sh", "-c", "echo 'WARNING: Using incubator modules: jdk.incubator.vector' >&2; echo broken >&2"])
child.wait()
while sys.argv[1] != "DEBUG" and any(one.name == "jvm-output" for one in __import__("threading").enumerate()):
    pass
print("after", file=sys.stderr)
"""


@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
def test_a_normal_start_is_quiet_and_a_problem_is_shown(level: str) -> None:
    done = subprocess.run([sys.executable, "-c", START, level], capture_output=True, text=True, check=True, timeout=60)
    usual = ["WARNING: Using incubator modules: jdk.incubator.vector"] if level == "DEBUG" else []
    assert done.stderr.splitlines() == [*usual, "broken", "after"]
