"""Reads the lines of a text with limited memory per line, however long the line becomes when it is unpacked.

The meaning of a line belongs in ``file_formats``.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterator


#: A longer line, or record of several lines, is malformed. A parsed line takes a multiple of its length in memory.
MAX_RECORD_BYTES = 2**27
#: The number of bytes of such a line that become the raw text of its row.
KEPT_BYTES = 2**17
_CHUNK = 2**20


class CutLine(bytes):
    """The beginning of a line that is longer than :data:`MAX_RECORD_BYTES`. ``length`` is the length of the whole line."""

    length: int

    @classmethod
    def of(cls, beginning: bytes, length: int) -> CutLine:
        """The cut line with this beginning."""
        line = cls(beginning[: min(KEPT_BYTES, MAX_RECORD_BYTES)])
        line.length = length
        return line

    @property
    def problem(self) -> str:
        """The reason why the line is malformed."""
        return (
            f"longer than {MAX_RECORD_BYTES:,} bytes ({self.length:,}): the raw text is its first {len(self):,} bytes; "
            "have the file sent again with shorter records"
        )


def length_of(line: bytes) -> int:
    """The number of bytes of a line in the file."""
    return line.length if isinstance(line, CutLine) else len(line)


def limited_lines(stream: BinaryIO) -> Iterator[bytes]:
    """The next lines, with their ends; a line that is too long as :class:`CutLine`."""
    limit = MAX_RECORD_BYTES
    while line := stream.readline(limit + 1):
        yield line if len(line) <= limit else _cut(stream, line)


def lines_of_block(stream: BinaryIO, size: int) -> list[bytes]:
    """The lines of :func:`limited_lines` that begin in the next ``size`` bytes, read at once; empty at the end."""
    limit = MAX_RECORD_BYTES
    content = stream.read(size)
    if not content.endswith(b"\n"):
        content += stream.readline(limit + 1)
    lines = io.BytesIO(content).readlines()
    if len(content) > limit:
        lines = [line if len(line) <= limit else _cut(stream, line) for line in lines]
    return lines


def _cut(stream: BinaryIO, beginning: bytes) -> CutLine:
    """A line of which the beginning has been read; the stream is read to the end of the line."""
    length, rest = len(beginning), beginning
    while not rest.endswith(b"\n") and (rest := stream.readline(_CHUNK)):
        length += len(rest)
    return CutLine.of(beginning, length)
