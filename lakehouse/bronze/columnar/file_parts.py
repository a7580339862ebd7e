"""Cuts a large file into parts of whole records, so that several tasks read it at once.

Only the places of the cuts belong here; a part is read by the reader of its format. Compressed text is not cut, because it can
only be read from its beginning.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from lakehouse.bronze.file_formats import GZIP_MAGIC, MAX_LINES_OF_A_RECORD, ordered_quotes
from lakehouse.bronze.limited_lines import CutLine, length_of, limited_lines

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow.parquet as pq

    from lakehouse.contracts.inputs.section import Source

_CHUNK = 2**20


@dataclass(frozen=True)
class Part:
    """A part of a file that consists of whole records.

    ``begin`` and ``end`` (exclusive) are bytes of a text file, or row groups of a Parquet file; ``before`` is the number of
    lines, or rows, in the file before the part.
    """

    begin: int
    end: int
    before: int


def row_group_parts(file: pq.ParquetFile, size: int) -> list[Part]:
    """The parts of a Parquet file, of about ``size`` bytes without compression."""
    parts: list[Part] = []
    begin, rows, held, before = 0, 0, 0, 0
    for group in range(file.metadata.num_row_groups):
        described = file.metadata.row_group(group)
        rows, held = rows + described.num_rows, held + described.total_byte_size
        if held >= size or group == file.metadata.num_row_groups - 1:
            parts.append(Part(begin, group + 1, before))
            begin, before, rows, held = group + 1, before + rows, 0, 0
    return parts


def text_parts(stream: BinaryIO, source: Source, size: int) -> list[Part] | None:
    """The parts of a file of CSV or JSON lines, of about ``size`` bytes; None if it is compressed.

    A record of CSV has at most :data:`MAX_LINES_OF_A_RECORD` lines. If that number of preceding lines are each one record when
    read from their beginnings, then a record certainly ends there, and the reader of the next lines is not affected by an earlier
    record with broken quotes. Where there are no such lines, the part becomes longer.

    :param stream: seekable, at any position.
    """
    stream.seek(0)
    if stream.read(len(GZIP_MAGIC)) == GZIP_MAGIC:
        return None
    end = stream.seek(0, io.SEEK_END)
    complete = MAX_LINES_OF_A_RECORD if source.format == "csv" else 0
    is_whole = _whole_lines(source)
    cuts = [0]
    while cuts[-1] + size < end:
        begin = cuts[-1] + size
        cut = begin + _until_whole(section(stream, Part(begin, end, 0)), complete, is_whole)
        if cut >= end:
            break
        cuts.append(cut)
    parts, before = [], 0
    for begin, following in zip(cuts, [*cuts[1:], end]):
        parts.append(Part(begin, following, before))
        before += _line_ends(stream, begin, following) if following < end else 0
    return parts


def section(stream: BinaryIO, part: Part) -> BinaryIO:
    """The bytes of a part of a text file.

    :param stream: seekable; nothing else may read from it meanwhile.
    """
    stream.seek(part.begin)
    return io.BufferedReader(_Section(stream, part.end - part.begin), _CHUNK)


class _Section(io.RawIOBase):
    """At most a given number of the next bytes of a stream."""

    def __init__(self, stream: BinaryIO, left: int) -> None:
        self._stream = stream
        self._left = left

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        content = self._stream.read(min(len(buffer), self._left))
        buffer[: len(content)] = content
        self._left -= len(content)
        return len(content)


def _until_whole(stream: BinaryIO, complete: int, is_whole: Callable[[bytes], bool]) -> int:
    """The number of bytes up to the end of a line that follows ``complete`` whole lines; all bytes if there is no such line."""
    lines = limited_lines(stream)
    length, in_a_row = length_of(next(lines, b"")), 0  # the first may be the rest of a line
    while in_a_row < complete and (line := next(lines, b"")):
        length += length_of(line)
        in_a_row = in_a_row + 1 if is_whole(line) and not isinstance(line, CutLine) else 0
    return length


def _whole_lines(source: Source) -> Callable[[bytes], bool]:
    """A function that returns whether a line of CSV, read from its beginning, is certainly one record."""
    ordered = re.compile(ordered_quotes(source).encode())
    quote = source.quote.encode()

    def is_whole(line: bytes) -> bool:
        content = line.removesuffix(b"\n").removesuffix(b"\r")
        return b"\r" not in content and (quote not in content or ordered.fullmatch(content) is not None)

    return is_whole


def _line_ends(stream: BinaryIO, begin: int, end: int) -> int:
    stream.seek(begin)
    number = 0
    while begin < end and (content := stream.read(min(_CHUNK, end - begin))):
        number += content.count(b"\n")
        begin += len(content)
    return number
