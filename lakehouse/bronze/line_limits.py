"""Cuts a text into lines, and a JSON array into elements, with limited memory for each.

A line may become very long when it is unpacked: of a line that is too long, only the beginning is kept. An element of an array
comes with the line on which it begins; the file is never in memory as a whole. Belongs here: where a line or an element begins
and ends. Its meaning belongs in ``file_formats``.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, BinaryIO

from lakehouse.errors import LakehouseError

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


_TOKEN = re.compile(rb'[\n\\"\[\]{},]')
_BLANK = b" \t\r\n"
_LINE_END, _TEXT, _BACKSLASH, _OPENING, _CLOSING = b'\n"\\[]'
#: The depth behind the array.
_ENDED = -1


class BrokenArrayError(LakehouseError):
    """A file that is not one complete JSON array. The message gives the place, and what to do."""


def elements(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """The elements of the array that a stream holds, as they are written, each with a number that identifies it: the line on
    which it begins, or the number after that of the element before, if that is greater because several elements share a line.

    :raises BrokenArrayError: when there is anything else, the array breaks off, or an element is too long.
    """
    scanner, mark, number = _Scanner(), b"\xef\xbb\xbf", 0
    for chunk in iter(lambda: stream.read(_CHUNK), b""):
        for line, element in scanner.elements_in(chunk.removeprefix(mark)):
            number = max(line, number + 1)
            yield number, element
        mark = b""
    scanner.end()


class _Scanner:
    """The state of a scan of JSON text: the depth of brackets, and whether it is in a string."""

    def __init__(self) -> None:
        self._depth = 0
        self._line = self._begun_at = 1
        self._in_text, self._escaped = False, -1
        self._held = bytearray()  # of the element that is being read
        self._offset = 0  # of the chunk in the stream

    def elements_in(self, chunk: bytes) -> Iterator[tuple[int, bytes]]:
        """The elements that end in the next chunk."""
        begin = 0
        for match in _TOKEN.finditer(chunk):
            place = match.start()
            token = chunk[place]
            if token == _LINE_END:
                self._pass_line(chunk[begin:place])
            elif self._in_text:
                self._read_text(token, self._offset + place)
            elif token == _TEXT:
                self._in_text = True
            elif self._separates(token, chunk[begin:place]):
                if content := bytes(self._held + chunk[begin:place]).strip(_BLANK) if self._depth else b"":
                    yield self._begun_at, content
                self._held.clear()
                begin, self._begun_at = place + 1, self._line
                self._depth = self._depth or 1  # the array has begun
                if token == _CLOSING:
                    self._depth = _ENDED
        self._held += chunk[begin:]
        self._offset += len(chunk)
        self._expect(len(self._held) <= MAX_RECORD_BYTES, "an element is longer than 128 MiB")

    def end(self) -> None:
        """:raises BrokenArrayError: if the array has not ended, or was not the only thing."""
        self._expect(self._depth == _ENDED and not self._held.strip(_BLANK), "the array breaks off, or something follows it")

    def _separates(self, token: int, before: bytes) -> bool:
        """Whether a token opens or closes the array, or separates two of its elements."""
        if not self._depth:
            self._expect(token == _OPENING and not (self._held + before).strip(_BLANK), "an array does not begin")
            return True
        if self._depth == 1 and token in b",]":
            return True
        self._expect(self._depth > 0, "something follows the array")
        self._depth += (token in b"[{") - (token in b"]}")
        return False

    def _pass_line(self, before: bytes) -> None:
        self._line += 1
        if not (self._held + before).strip(_BLANK):
            self._begun_at = self._line

    def _read_text(self, token: int, place: int) -> None:
        if place == self._escaped:
            return
        if token == _BACKSLASH:
            self._escaped = place + 1
        elif token == _TEXT:
            self._in_text = False

    def _expect(self, met: bool, problem: str) -> None:  # noqa: FBT001 (a condition)
        if not met:
            raise BrokenArrayError(f"line {self._line}: {problem}; have the file sent again")
