"""What has come and is not in the numbers yet: event days that wait for silver, and how far metrics have followed it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakehouse.ledger import decisions, progress, redactions, restatements, store
from lakehouse.tables import silver

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

    from lakehouse.settings import Settings


@dataclass(frozen=True)
class Waiting:
    """As of some versions of the tables that tell it: ``followed`` is the version of silver that each series is at."""

    days: frozenset[date] = frozenset()
    silver_version: int = -1
    followed: Mapping[str, int] = field(default_factory=dict)
    versions: tuple[int, ...] = ()


def read(settings: Settings, source: str, opened: store.Reused, known: Waiting | None) -> Waiting:
    """What waits now.

    :param opened: the tables, kept open from one look to the next.
    :param known: what was read before; it is given again where no table has changed.
    """
    ledger = ("ingestions", "applications", "operations", "restatements")
    paths = [settings.table("ops", name) for name in ledger]
    paths += [decisions.path(settings, source), redactions.path(settings, source), silver.path(settings, source)]
    with store.reusing_tables(opened):
        tables = [store.open_table(path, settings.storage_options) for path in paths]
        versions = tuple(-1 if table is None else table.version() for table in tables)
        if known is not None and known.versions == versions:
            return known
        return Waiting(frozenset(progress.pending(settings, source)), versions[-1], restatements.followed(settings), versions)
