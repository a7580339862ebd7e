"""What is inferred about a column, and the questions that samples leave open. The answers are a person's, or the defaults."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Names of two words without anything between them.
_GLUED = re.compile(
    "(order|sale|customer|client|user|account|member|product|item|article|invoice|payment|trade|claim|transaction|ticket|booking|"
    "shipment|store|shop|station|site|sensor|device|meter|event|record|case|start|end|due)"
    "(id|no|nr|num|number|code|key|date|time)"
)


def word_set(*lines: str) -> frozenset[str]:
    """Words of the names of columns, written in lines."""
    return frozenset(" ".join(lines).split())


class InferenceError(LakehouseError):
    """Sample files from which no contract follows. The message names the file, and says what to do."""


@dataclass(frozen=True)
class Sample:
    """The records of one file by column; an empty value is None.

    :param doubts: what was left out of the records.
    """

    file: str
    columns: Sequence[str]
    records: Sequence[Mapping[str, Any]]
    doubts: Sequence[str] = ()


@dataclass(frozen=True)
class InferredColumn:
    """A column of the files.

    :param name: the field that it becomes, in lower case.
    :param column: its name in the files.
    :param empty: in how many records it has no value.
    """

    name: str
    column: str
    type: str
    empty: int

    @property
    def words(self) -> list[str]:
        """The words of its name, each without a number at its end; ``orderid`` is two."""
        words: list[str] = []
        for word in self.name.split("_"):
            plain = re.sub(r"\d+$", "", word) or word
            glued = _GLUED.fullmatch(plain)
            words += glued.groups() if glued else [plain]
        return words


@dataclass(frozen=True)
class Question:
    """A choice that the samples leave open.

    :param about: what it decides, as ``--answer ABOUT=OPTION`` names it.
    :param options: what may be answered, each with what it means; the first is the default.
    """

    about: str
    text: str
    options: Mapping[str, str]

    @property
    def default(self) -> str:
        """The answer that ``--yes`` gives."""
        return next(iter(self.options))

    @property
    def lines(self) -> list[str]:
        """The question and its options as lines of text."""
        return [self.text, *(f"  {option}: {meaning}" for option, meaning in self.options.items())]
