"""One of the sources of a metric: the mapping of its columns to the metric's, and whether periods wait for it.

Whether the sources fit each other belongs to ``fit``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from lakehouse.contracts.base import Name, Strict

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from lakehouse.contracts.source import SourceContract


class MetricSource(Strict):
    """A source whose rows a metric reads. The first source defines the column names."""

    source: Name = Field(description="The source, as its contract names it.")
    columns: dict[Name, Name] = Field(
        default_factory=dict,
        description="Columns that this source has under another name: the column of the metric, and that of this source.",
    )
    required: bool = Field(True, description="Whether a period becomes final only after this source has passed it.")
    rows: Literal["newest", "all"] | None = Field(
        None, description="Of this source, if it is under 'append': the metric's 'rows', unless it is given here."
    )

    @property
    def silver(self) -> str:
        """The name of the source's silver table that the metric reads."""
        return f"{self.source}_newest" if self.rows == "newest" else self.source

    def column(self, name: str) -> str:
        """The column of this source for the metric's column ``name``."""
        return self.columns.get(name, name)

    def names(self, column: str) -> list[str]:
        """The metric's columns for ``column`` of this source; empty if another column replaces it."""
        own = [] if column in self.columns else [column]
        return [*own, *(name for name, mapped in self.columns.items() if mapped == column)]

    def read_of(self, contract: SourceContract) -> SourceContract:
        """The contract of the source's silver table that the metric reads, given the source's ``contract``."""
        return contract.newest if self.rows == "newest" else contract


def with_first_source(content: Any) -> Any:
    """Set the first of a metric's ``sources`` as its ``source``, which pages and groups show."""
    if not isinstance(content, dict) or content.get("source") or not isinstance(content.get("sources"), list):
        return content
    entries = [entry if isinstance(entry, dict) else {"source": entry} for entry in content["sources"]]
    first = next((entry.get("source") for entry in entries), None)
    return {**content, "sources": entries, **({"source": first} if first else {})}


def problems(sources: Sequence[MetricSource], deduplicate_by: Sequence[str], derived_from: Collection[str]) -> list[str]:
    """The mistakes in a metric's sources that need no other contract to be seen, each as ``field: what to do``."""
    names = [entry.source for entry in sources]
    twice = sorted({name for name in names if names.count(name) > 1})
    again = sorted({name for name in deduplicate_by if deduplicate_by.count(name) > 1})
    mistakes = {
        f"sources: name each source once: {', '.join(twice)}": bool(twice),
        "sources: a metric reads sources or is made of other metrics; keep 'sources' or 'from'": bool(sources and derived_from),
        "sources: at least one has to be required; else a period would become final with nothing in it": (
            bool(sources) and not any(entry.required for entry in sources)
        ),
        f"sources: {names[0] if names else ''} comes first and gives the names of the columns; leave its 'columns' out": (
            bool(sources) and bool(sources[0].columns)
        ),
        "deduplicate_by: removes what several sources have; name them with 'sources:', or leave the key out": (
            bool(deduplicate_by) and len(sources) < 2  # noqa: PLR2004 (several)
        ),
        f"deduplicate_by: name each column once: {', '.join(again)}": bool(again),
    }
    return [text for text, is_wrong in mistakes.items() if is_wrong]
