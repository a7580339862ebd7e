"""The lines of one block of a text file as one column of text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lakehouse.bronze.file_formats import Record

#: Longer lines are read one by one, so that the columns of a block stay small.
_LONGEST_LINE = 2**16


@dataclass(frozen=True)
class Block:
    """The records of a part of a file.

    ``texts`` are the values of those records that could be split into columns, by the file's names; ``exactly`` reads the
    n-th of them again, one by one. ``exact`` are the records that could not be split.
    """

    texts: Mapping[str, pa.StringArray]
    line_numbers: pa.Int64Array
    raw: pa.StringArray
    exactly: Callable[[int], Record]
    exact: list[Record]


def blocks_of_lines(lines: Iterator[tuple[int, bytes]], size: int) -> Iterator[list[tuple[int, bytes]]]:
    """The lines in groups of about ``size`` bytes."""
    block: list[tuple[int, bytes]] = []
    held = 0
    for line in lines:
        block.append(line)
        held += len(line[1])
        if held >= size:
            yield block
            block, held = [], 0
    if block:
        yield block


def line_texts(lines: list[tuple[int, bytes]]) -> tuple[pa.StringArray, np.ndarray]:
    """The lines without their ends, and which of them are no text or too long for a column (those are empty there)."""
    contents = [line if len(line) <= _LONGEST_LINE else None for _, line in lines]
    try:
        texts = pa.array(contents, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        texts = pa.array([_decoded(line) for line in contents], pa.string())
    odd = flags(pc.is_null(texts))
    return pc.ascii_rtrim(pc.fill_null(texts, ""), "\r\n"), odd


def flags(values: pa.BooleanArray) -> np.ndarray:
    """The values as an array of numpy, which can be changed."""
    return np.array(values.to_numpy(zero_copy_only=False), bool)


def _decoded(line: bytes | None) -> str | None:
    try:
        return None if line is None else line.decode()
    except UnicodeDecodeError:
        return None
