"""The command line as people run it: a process of its own in a folder of its own.

Here is how to run a command; what it prints is asserted in ``lakehouse_tests/cli`` and ``lakehouse_tests/acceptance``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import lakehouse

if TYPE_CHECKING:
    from collections.abc import Mapping

BUNDLED_CONTRACTS = Path(lakehouse.__file__).parent / "contracts" / "bundled"


def lakehouse_command(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``lakehouse`` in ``folder``, with its lake in ``folder / "lake"``."""
    command = [sys.executable, "-m", "lakehouse", *arguments]
    env = environment_of(folder, environment)
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=env, check=False)


def inherited() -> dict[str, str]:
    """The environment of this process, without what PySpark notes in it once the process has a session of a Connect server."""
    return {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}


def environment_of(folder: Path, changes: Mapping[str, str]) -> dict[str, str]:
    """The environment of a command: its lake below ``folder``, and a wide terminal."""
    return inherited() | {"LAKEHOUSE_ROOT": str(folder / "lake"), "COLUMNS": "200", **changes}
