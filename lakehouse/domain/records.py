"""Bytes of a landing file into records, one by one: every record comes out once, a broken one with the reason.

What a record's values *mean* is decided in ``rows``; here only the file formats are known. A fault that concerns the
file as a whole (broken gzip, a missing column) is a :class:`FileProblem`: such a file is held, not half read.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakehouse.contracts.source import Source

_GZIP_MAGIC = b"\x1f\x8b"
#: An unclosed quote is given this many lines to close; then its first line is malformed and reading goes on behind it.
MAX_LINES_OF_A_RECORD = 1_000

csv.field_size_limit(2**27)  # the default of 128 KiB would reject long texts that are in order


class FileProblem(Exception):  # noqa: N818 (it is reported to people by this name)
    """A file that cannot be read as the contract says. Its text tells what is wrong, where, and the way out."""


@dataclass(frozen=True)
class Record:
    """One record of a file.

    ``line_number`` counts from 1 and is where the record starts (in Parquet: the row's number). Either ``values`` (by
    the file's column names) or ``problem`` is None.
    """

    line_number: int
    raw: str
    values: dict[str, Any] | None
    problem: str | None = None


def unzipped(stream: BinaryIO) -> BinaryIO:
    """The stream's content, decompressed where its first two bytes say gzip, whatever the file's name."""
    buffered = io.BufferedReader(stream)  # type: ignore[type-var]  # any object with readinto() will do
    if buffered.peek(2)[:2] == _GZIP_MAGIC:
        return gzip.GzipFile(fileobj=buffered)  # type: ignore[return-value]
    return buffered


def read_records(stream: BinaryIO, source: Source, columns: list[str]) -> Iterator[Record]:
    """Yield every record of a CSV or JSON-lines file (gzipped or not), in the order of the file.

    :param columns: the columns that the contract needs.
    :raises FileProblem: when the file as a whole cannot be read; records before the fault may have been yielded.
    """
    lines = _lines(unzipped(stream))
    if source.format == "json":
        yield from _json_records(lines)
    else:
        yield from _csv_records(lines, source, columns)


def check_readable(stream: BinaryIO) -> None:
    """Read the stream to its end, decompressing.

    :raises FileProblem: where it breaks off.
    """
    for _ in _lines(unzipped(stream)):
        pass


def _lines(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """The physical lines with their numbers, without line ends; blank lines are no records and are left out."""
    number = 0
    try:
        for number, line in enumerate(stream, start=1):  # noqa: B007 (the number is wanted by the message below)
            content = line.rstrip(b"\r\n")
            if number == 1:
                content = content.removeprefix(b"\xef\xbb\xbf")
            if content:
                yield number, content
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        msg = f"the gzip stream breaks off after line {number} ({error}); have the file sent again"
        raise FileProblem(msg) from None


def _decoded(lines: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, str]]:
    for number, line in lines:
        try:
            yield number, line.decode()
        except UnicodeDecodeError as error:
            msg = f"line {number}: not valid UTF-8 at byte {error.start + 1}; have the file sent again as UTF-8"
            raise FileProblem(msg) from None


def _split(text: str, source: Source) -> list[str]:
    return next(csv.reader([text], delimiter=source.delimiter, quotechar=source.quote, strict=True))


def _csv_records(lines: Iterator[tuple[int, bytes]], source: Source, columns: list[str]) -> Iterator[Record]:
    first = next(_decoded(lines), None)
    if first is None:
        return
    try:
        header = _split(first[1], source)
    except csv.Error as error:
        msg = f"line {first[0]}: the header is not CSV ({error})"
        raise FileProblem(msg) from None
    _check_header(first[0], header, columns)

    pending: list[tuple[int, bytes]] = []  # lines read ahead in search of a closing quote, to be read again
    while True:
        number, line = pending.pop(0) if pending else next(lines, (0, b""))
        if not number:
            return
        taken = [line]
        record = _csv_record(number, line, header, source)
        if record is None:
            for following in chain(list(pending), lines):
                if len(taken) > len(pending):
                    pending.append(following)
                taken.append(following[1])
                if source.quote.encode() in following[1]:
                    record = _csv_record(number, b"\n".join(taken), header, source)
                if record is not None or len(taken) >= MAX_LINES_OF_A_RECORD:
                    break
            if record is None:
                record = Record(number, _text(line), None, "a quote is opened and never closed")
            else:
                del pending[: len(taken) - 1]
        yield record


def _check_header(number: int, header: list[str], columns: list[str]) -> None:
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        msg = f"line {number}: the header names {', '.join(twice)} twice"
        raise FileProblem(msg)
    missing = [name for name in columns if name not in header]
    if missing:
        msg = (
            f"line {number}: column {', '.join(missing)} is missing; have the file sent again, or take the column "
            "out of the contract"
        )
        raise FileProblem(msg)


def _csv_record(number: int, line: bytes, header: list[str], source: Source) -> Record | None:
    """One record, or None when a quoted field is still open at its end."""
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        return Record(number, _text(line), None, f"not valid UTF-8 at byte {error.start + 1} of the record")
    if "\0" in text:
        return Record(number, text.replace("\0", "\\x00"), None, "holds a NUL byte")
    try:
        cells = _split(text, source)
    except csv.Error as error:
        if "unexpected end of data" in str(error):
            return None
        return Record(number, text, None, f"not CSV: {error}")
    if len(cells) != len(header):
        return Record(number, text, None, f"has {len(cells)} fields where the header has {len(header)}")
    return Record(number, text, dict(zip(header, cells)))


def _json_records(lines: Iterator[tuple[int, bytes]]) -> Iterator[Record]:
    for number, line in lines:
        raw = _text(line)
        try:
            values = json.loads(line.decode(), parse_float=Decimal, parse_constant=_no_constant)
        except UnicodeDecodeError as error:
            yield Record(number, raw, None, f"not valid UTF-8 at byte {error.start + 1} of the line")
        except (ValueError, RecursionError) as error:
            yield Record(number, raw, None, f"not JSON: {error}")
        else:
            if isinstance(values, dict):
                yield Record(number, raw, values)
            else:
                yield Record(number, raw, None, f"a JSON {type(values).__name__} where an object is expected")


def _no_constant(word: str) -> NoReturn:
    msg = f"{word} is not JSON"
    raise ValueError(msg)


def _text(line: bytes) -> str:
    """The line as text that can be stored and read back by eye, whatever its bytes."""
    return line.decode(errors="backslashreplace").replace("\0", "\\x00")
