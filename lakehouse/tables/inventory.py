"""Every table that the contracts describe, by layer and name, and what it is about. Tables put beside these are not known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehouse.tables.series import Series

if TYPE_CHECKING:
    from lakehouse.contracts import Catalog
    from lakehouse.contracts.source import SourceContract
    from lakehouse.settings import Settings

_OF_A_SOURCE = (
    *(("bronze", suffix) for suffix in ("", "_decisions", "_redactions")),
    ("silver", "_quarantine"),
    *(("ops", suffix) for suffix in ("_keys", "_dispositions", "_overruled")),
)
_OF_ALL = (
    *("ingestions", "applications", "operations", "late_arrival_audit", "restatements", "publications", "inputs", "dropped"),
    *("moves", "contracts", "notices", "alerts", "backfills", "backfill_events", "watermarks", "tokens"),
)


@dataclass(frozen=True)
class LakeTable:
    """A table, whether it is there yet or not. ``silver_of`` is set of a source's silver, ``series`` of published numbers."""

    layer: str
    name: str
    silver_of: SourceContract | None = None
    series: Series | None = None

    def __str__(self) -> str:
        return f"{self.layer}/{self.name}"

    def path(self, settings: Settings) -> str:
        """The address of the table."""
        return settings.table(self.layer, self.name)


def tables(catalog: Catalog) -> list[LakeTable]:
    """All of them, layer by layer."""
    found = [LakeTable("silver", source, silver_of=contract) for source, contract in catalog.sources.items()]
    found += [LakeTable(layer, f"{source}{suffix}") for source in catalog.sources for layer, suffix in _OF_A_SOURCE]
    for daily in map(Series, catalog.metrics.values()):
        for one in (daily, *daily.rollups):
            found += [LakeTable("gold", one.name, series=one), LakeTable("gold", f"{one.name}_candidates")]
    found += [LakeTable("ops", name) for name in _OF_ALL]
    layers = ("bronze", "silver", "gold", "ops")
    return sorted(found, key=lambda one: (layers.index(one.layer), one.name))
