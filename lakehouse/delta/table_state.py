"""A fingerprint of the state of tables, from the end of their logs: for cursors, which store it instead of what was read."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from lakehouse.delta import table_io

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakehouse.settings import Settings


def digest(settings: Settings, tables: Iterable[str], *more: str) -> str:
    """A digest that changes when any of the tables is written to, deleted, created again or restored.

    :param tables: their addresses.
    :param more: other texts that the digest depends on.
    """
    states = [f"{path} {_state(settings, path)}" for path in tables]
    return hashlib.sha256("\n".join([*states, *more]).encode()).hexdigest()[:32]


def _state(settings: Settings, path: str) -> str:
    """The table's id, version and time of commit: a restored table may reach the same version again."""
    table = table_io.open_table(path, settings.storage_options)
    if table is None:
        return "none"
    committed = [commit.get("timestamp") for commit in table.history(1)]  # the newest commit
    return f"{table.metadata().id} {table.version()} {committed}"
