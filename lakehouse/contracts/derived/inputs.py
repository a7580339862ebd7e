"""The columns that a derived metric may read from one of its inputs, and those that an expression reads.

Rules between contracts, which need all contracts, belong to ``resolution``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pydantic import Field

from lakehouse.calendar.periods import Kind
from lakehouse.contracts.base import Name, Strict

if TYPE_CHECKING:
    from collections.abc import Collection

ROW_COUNT = "row_count"
#: The first day of a row's period.
PERIOD_START = "period_start"
#: A text in an expression, and a reference written as ``input.column``.
_TEXT = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_REFERENCE = re.compile(r"(?<![\w.])([A-Za-z_]\w*)\s*\.\s*([A-Za-z_]\w*)")


class DerivedInput(Strict):
    """The published columns that a derived metric may read from an input metric. Part of the derived contract's text.

    Together with the revisions that a number names, they are all that is needed to compute the number again.
    """

    metric: Name
    grain: list[Name] = Field(default_factory=list)
    measures: list[Name] = Field(description="Those that may be read besides row_count.")
    adjusts: bool = Field(False, description="Whether changes of closed periods are booked as adjustments.")
    window: list[Name] = Field(
        default_factory=list, description="The columns of the grain that identify a window; longer periods than a day lack them."
    )

    def of(self, kind: Kind) -> DerivedInput:
        """Columns read from the input's periods of ``kind``."""
        grain = [name for name in self.grain if name not in self.window]
        return self if kind is Kind.DAY else self.model_copy(update={"grain": grain})

    @property
    def columns(self) -> list[str]:
        """The columns of the input that an expression may read."""
        return [*self.measures, ROW_COUNT]

    def is_summed(self, grain: Collection[str]) -> bool:
        """Whether several rows of the input may add up to one row of ``grain``."""
        return self.adjusts or not set(self.grain) <= set(grain)


def references(sql: str) -> list[tuple[str, str]]:
    """The ``input.column`` references of an expression, in lower case, in order, each once. Text literals are ignored."""
    code = _TEXT.sub("''", sql).replace("`", "")
    return list(dict.fromkeys((found[1].lower(), found[2].lower()) for found in _REFERENCE.finditer(code)))
