"""The data types of inference: samples, inferred columns, and open questions, answered by a person or by defaults."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Endings that nothing but an identifier has, also behind a word of another language: bestellnr, rechnungsnummer.
_NUMBERED = re.compile("(.{3,})(nr|nummer|number|numero)")
#: Names made of two words without a separator.
_GLUED = re.compile(
    "(order|sale|customer|client|user|account|member|product|item|article|invoice|payment|trade|claim|transaction|ticket|booking|"
    "shipment|store|shop|station|site|sensor|device|meter|event|record|case|start|end|due)"
    "(id|no|nr|num|number|code|key|date|time)"
)


def word_set(*lines: str) -> frozenset[str]:
    """The words of column names, given in lines."""
    return frozenset(" ".join(lines).split())


class InferenceError(LakehouseError):
    """Sample files from which no contract can be inferred. The message names the file and the remedy."""


@dataclass(frozen=True)
class Sample:
    """The records of one file by column; an empty value is None.

    :param doubts: sentences about records that were left out.
    """

    file: str
    columns: Sequence[str]
    records: Sequence[Mapping[str, Any]]
    doubts: Sequence[str] = ()


@dataclass(frozen=True)
class InferredColumn:
    """A column of the files.

    :param name: the name of its field, in lower case.
    :param column: its name in the files.
    :param empty: the number of records without a value.
    :param form: the format of its values (``source.formats``), if they need one.
    """

    name: str
    column: str
    type: str
    empty: int
    form: str | None = None

    @property
    def words(self) -> list[str]:
        """The words of the name, without trailing numbers; ``orderid`` gives two words."""
        words: list[str] = []
        for word in self.name.split("_"):
            plain = re.sub(r"\d+$", "", word) or word
            glued = _GLUED.fullmatch(plain) or _NUMBERED.fullmatch(plain)
            words += glued.groups() if glued else [plain]
        return words


@dataclass(frozen=True)
class Question:
    """A choice that the samples leave open.

    :param about: the subject of the question, as named in ``--answer ABOUT=OPTION``.
    :param options: the possible answers with their meanings; the first is the default.
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
