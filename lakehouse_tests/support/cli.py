"""The command line as people run it: a process of its own in a folder of its own.

Here is how to run a command; what it prints is asserted in ``lakehouse_tests/cli`` and ``lakehouse_tests/acceptance``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import lakehouse

BUNDLED_CONTRACTS = Path(lakehouse.__file__).parent / "contracts" / "bundled"


def lakehouse_command(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``lakehouse`` in ``folder``, with its lake in ``folder / "lake"``."""
    env = os.environ | {"LAKEHOUSE_ROOT": str(folder / "lake"), "COLUMNS": "200", **environment}
    command = [sys.executable, "-m", "lakehouse", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=env, check=False)
