"""What a derived metric may read of one of its inputs, and which of it an expression reads.

The rules between contracts, which need all of them, belong to ``resolution``.
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
#: The first day of the period that a row is a number of.
PERIOD_START = "period_start"
#: A text in an expression, and what is written as ``input.column``.
_TEXT = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_REFERENCE = re.compile(r"(?<![\w.])([A-Za-z_]\w*)\s*\.\s*([A-Za-z_]\w*)")


class DerivedInput(Strict):
    """A metric that a derived one is made of, as far as its published columns are read; part of the derived contract's text.

    With the revisions that a number names this is all that is needed to compute it again.
    """

    metric: Name
    grain: list[Name] = Field(default_factory=list)
    measures: list[Name] = Field(description="Those that may be read besides row_count.")
    adjusts: bool = Field(False, description="Whether changes of closed periods are booked as adjustments.")
    window: list[Name] = Field(
        default_factory=list, description="The columns of the grain that identify a window; longer periods than a day lack them."
    )

    def of(self, kind: Kind) -> DerivedInput:
        """What is read of its periods of a kind."""
        grain = [name for name in self.grain if name not in self.window]
        return self if kind is Kind.DAY else self.model_copy(update={"grain": grain})

    @property
    def columns(self) -> list[str]:
        """The columns that an expression may read of it."""
        return [*self.measures, ROW_COUNT]

    def is_summed(self, grain: Collection[str]) -> bool:
        """Whether several of its rows may add up to one of a grain."""
        return self.adjusts or not set(self.grain) <= set(grain)


def references(sql: str) -> list[tuple[str, str]]:
    """What an expression reads as ``input.column``, in lower case, in order, each once; texts are no references."""
    code = _TEXT.sub("''", sql).replace("`", "")
    return list(dict.fromkeys((found[1].lower(), found[2].lower()) for found in _REFERENCE.finditer(code)))
