"""Which state a table is in, from the end of its log: what a cursor may remember instead of what was read."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from lakehouse.delta import table_io

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakehouse.settings import Settings


def digest(settings: Settings, tables: Iterable[str], *said: str) -> str:
    """A digest that is another one when any of the tables was written to, deleted, made again or put back.

    :param tables: their addresses.
    :param said: what else makes it another one.
    """
    states = [f"{path} {_state(settings, path)}" for path in tables]
    return hashlib.sha256("\n".join([*states, *said]).encode()).hexdigest()[:32]


def _state(settings: Settings, path: str) -> str:
    """The table's identity, its version, and when that was committed: a table that was put back may have come to it again."""
    table = table_io.open_table(path, settings.storage_options)
    if table is None:
        return "none"
    told = [commit.get("timestamp") for commit in table.history(1)]  # the newest commit
    return f"{table.metadata().id} {table.version()} {told}"
