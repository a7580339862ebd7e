"""A folder that all processes of a test run share, for what is made once a run: the Spark server, prepared lakes.

A pytest plugin. What a run that was killed has left is removed by the next one.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

_RUN = pytest.StashKey[str]()
_PREFIX = "lakehouse-tests-"


def of(config: pytest.Config) -> Path:
    """The folder of this run."""
    return Path(config.workerinput["run_folder"] if hasattr(config, "workerinput") else config.stash[_RUN])


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Make the folder, in the process that controls the run."""
    if not hasattr(config, "workerinput"):
        _remove_what_was_left()
        config.stash[_RUN] = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker where the folder is."""
    node.workerinput["run_folder"] = node.config.stash[_RUN]


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop what still runs, and remove the folder."""
    if not hasattr(config, "workerinput") and _RUN in config.stash:
        _remove(Path(config.stash[_RUN]))


def _remove_what_was_left() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        owner = folder.name.removeprefix(_PREFIX).split("-")[0]
        if owner.isdigit() and not psutil.pid_exists(int(owner)):
            with suppress(OSError):
                _remove(folder)


def _remove(folder: Path) -> None:
    if (folder / "spark.json").exists():
        from lakehouse.spark import connect  # noqa: PLC0415 (a run without Spark does not import it)

        connect.stop(folder)
    shutil.rmtree(folder, ignore_errors=True)
