"""The lines of one block of a text file as one column of text."""

from __future__ import annotations

from dataclasses import dataclass
from gzip import GzipFile
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.bronze import limited_lines
from lakehouse.bronze.file_formats import numbered_lines
from lakehouse.bronze.limited_lines import CutLine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lakehouse.bronze.file_formats import Record

#: Longer lines are read one by one, so that the columns of a block stay small.
_LONGEST_LINE = 2**16


@dataclass(frozen=True)
class Block:
    """The records of a part of a file.

    ``texts`` are the values of the records that could be split into columns, by the file's names; ``exactly`` reads the n-th of
    them again, individually. ``exact`` are the records that could not be split. ``received_at`` is when each of the split records
    arrived, if they were received individually.
    """

    texts: Mapping[str, pa.StringArray]
    line_numbers: pa.Int64Array
    raw: pa.StringArray
    exactly: Callable[[int], Record]
    exact: list[Record]
    received_at: pa.TimestampArray | None = None


class Lines(NamedTuple):
    """Consecutive lines of a file with their ends; ``first`` is the number of the first line."""

    first: int
    contents: list[bytes]

    def numbered(self, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """The lines from a position on, with their numbers."""
        return ((self.first + position, self.contents[position]) for position in range(start, len(self.contents)))

    def followed_by(self, others: Lines) -> Lines:
        """These lines together with the next lines of the file."""
        return Lines(self.first, self.contents + others.contents) if self.contents else others


def groups_of_lines(stream: BinaryIO, size: int, before: int = 0) -> Iterator[Lines]:
    """The next lines of a text file, in groups of about ``size`` bytes.

    :param stream: the file's content, decompressed.
    :param before: the number of lines read before.
    :raises FileProblem: when the gzip stream breaks off.
    """
    while contents := _following(stream, size, before):
        yield Lines(before + 1, contents)
        before += len(contents)


def _following(stream: BinaryIO, size: int, before: int) -> list[bytes]:
    if before and not isinstance(cast("object", stream), GzipFile):
        return limited_lines.lines_of_block(stream, size)
    contents, held = [], 0
    for _, line in numbered_lines(stream, before):  # which handles the byte order mark, and reports where gzip breaks off
        contents.append(line)
        held += len(line)
        if held >= size:
            break
    return contents


def line_texts(lines: list[bytes]) -> tuple[pa.StringArray, np.ndarray]:
    """The lines without their ends, and a mask of the lines that are no text or too long for a column (their text is empty)."""
    is_short = max(map(len, lines)) <= _LONGEST_LINE and CutLine not in map(type, lines)
    short = lines if is_short else [None if len(line) > _LONGEST_LINE or isinstance(line, CutLine) else line for line in lines]
    try:
        texts = pa.array(short, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        texts = pa.array([_decoded(line) for line in short], pa.string())
    odd = flags(pc.is_null(texts))
    return pc.ascii_rtrim(pc.fill_null(texts, ""), "\r\n"), odd


def flags(values: pa.BooleanArray) -> np.ndarray:
    """The values as a NumPy array that can be changed."""
    return np.array(values.to_numpy(zero_copy_only=False), bool)


def _decoded(line: bytes | None) -> str | None:
    try:
        return None if line is None else line.decode()
    except UnicodeDecodeError:
        return None
