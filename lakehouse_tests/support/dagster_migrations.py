"""Dagster's migration scripts are imported once a process: each new instance would import all of them again.

A pytest plugin; ``lakehouse_tests/conftest.py`` loads it.
"""

from __future__ import annotations

from functools import cache
from types import ModuleType

import alembic.util

_load = alembic.util.load_python_file
_load_once = cache(_load)


def _loaded(folder: str, file: str) -> ModuleType:
    """A module of a folder of migrations; ``env.py`` is what runs them, so it is executed each time."""
    return (_load if file == "env.py" else _load_once)(folder, file)


def pytest_configure() -> None:
    """Let alembic look there first."""
    alembic.util.load_python_file = _loaded
