"""Reads the records of a landing file one by one: every record is returned once, a broken one with the reason.

Only the file formats belong here; the *meaning* of a record's values is decided in ``row_parser``. A fault of the file as a whole
(a broken gzip stream, a missing column) is a :class:`FileProblem`: such a file is held, and not read in part. A binary format
that the product does not read is recognized by its first bytes; the error says how to convert it.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import zlib
from collections import Counter, deque
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from lakehouse.bronze import line_limits
from lakehouse.bronze.envelopes import without_tombstones
from lakehouse.bronze.line_limits import CutLine
from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime

    from lakehouse.contracts.inputs import Source

GZIP_MAGIC = b"\x1f\x8b"
#: A quote must be closed within this many lines, and ``line_limits.MAX_RECORD_BYTES``; otherwise its first line is malformed
#: and reading continues after it.
MAX_LINES_OF_A_RECORD = 1_000
#: JSON nested deeper, or numbers longer than this, are malformed: no column could hold them, and they can exhaust a worker.
MAX_DEPTH = 100
MAX_DIGITS = 1_000

#: Delimiters that senders use in place of the contract's.
_DELIMITERS = ",;\t|"

csv.field_size_limit(line_limits.MAX_RECORD_BYTES)  # the default of 128 KiB would reject long texts that are valid


class FileProblem(LakehouseError):  # noqa: N818 (it is reported to people by this name)
    """A file that cannot be read as the contract describes it. The message states the fault, the place and the remedy."""


@dataclass(frozen=True)
class Record:
    """One record of a file. ``line_number`` counts from 1: where the record starts (in Parquet: the row's number). ``values`` (by
    the file's column names) or ``problem`` is None. ``received_at`` is set for a record that was received individually, not in a
    file.
    """

    line_number: int
    raw: str
    values: dict[str, Any] | None
    problem: str | None = None
    received_at: datetime | None = None


def unzipped(stream: BinaryIO) -> BinaryIO:
    """The stream's content, decompressed if its first two bytes are those of gzip, whatever the file's name.

    :raises FileProblem: when it is of a format that is no text, whatever lines of it the contract leaves out.
    """
    buffered = io.BufferedReader(stream)  # type: ignore[type-var]  # any object with readinto() will do
    beginning = buffered.peek(2)
    if beginning[:2] == GZIP_MAGIC:
        return gzip.GzipFile(fileobj=buffered)  # type: ignore[return-value]
    if other := foreign_format(beginning):
        raise FileProblem(f"the file {other}")
    return buffered


def read_records(stream: BinaryIO, source: Source, columns: list[str], before: int = 0) -> Iterator[Record]:
    """Yield every record of a CSV file, of JSON lines or of a JSON array (gzipped or not), in the order of the file.

    :param columns: the columns that the contract needs. ``before`` is the number of lines in the file before the stream.
    :raises FileProblem: when the file as a whole cannot be read; records before the fault may have been yielded.
    """
    lines = json_lines(stream, source, before) if source.format == "json" else numbered_lines(unzipped(stream), before)
    if source.format == "json":
        records = json_records(lines)
        yield from without_tombstones(records) if source.envelope == "debezium" else records
    else:
        yield from _csv_records(lines, source, columns)


def json_lines(stream: BinaryIO, source: Source, before: int = 0) -> Iterator[tuple[int, bytes]]:
    """The lines of a file of JSON lines, or the elements of its array, with their numbers.

    :raises FileProblem: when the file as a whole cannot be read.
    """
    return _array_elements(stream) if source.array else numbered_lines(unzipped(stream), before)


def _array_elements(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    try:
        yield from line_limits.elements(unzipped(stream))
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise FileProblem(f"the gzip stream breaks off ({error}); have the file sent again") from None
    except line_limits.BrokenArrayError as problem:
        raise FileProblem(f"{problem}") from None


def check_array(stream: BinaryIO) -> None:
    """:raises FileProblem: when a file is not one complete JSON array."""
    deque(_array_elements(stream), maxlen=0)


def check_readable(stream: BinaryIO) -> None:
    """:raises FileProblem: when a gzip stream breaks off; another stream is not read."""
    content = unzipped(stream)
    if isinstance(cast("object", content), gzip.GzipFile):
        deque(numbered_lines(content), maxlen=0)


def numbered_lines(stream: BinaryIO, before: int = 0) -> Iterator[tuple[int, bytes]]:
    """The physical lines that follow ``before`` others, with their numbers and ends, without the byte order mark.

    A line that is too long is a :class:`CutLine`.
    """
    number = before
    try:
        for number, line in enumerate(line_limits.limited_lines(stream), start=before + 1):
            has_mark = number == 1 and not isinstance(line, CutLine)
            yield number, line.removeprefix(b"\xef\xbb\xbf") if has_mark else line
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise FileProblem(f"the gzip stream breaks off after line {number} ({error}); have the file sent again") from None


def header_line(lines: Iterator[tuple[int, bytes]], source: Source) -> tuple[int, bytes]:
    """The line of a CSV file with its header, and its number; an empty line if there is none."""
    comment = source.comment.encode()
    return next(((number, line) for number, line in lines if line.strip(b"\r\n") and not _begins(line, comment)), (0, b""))


def _begins(line: bytes, comment: bytes) -> bool:
    return bool(comment) and line.startswith(comment)


def _csv_records(lines: Iterator[tuple[int, bytes]], source: Source, columns: list[str]) -> Iterator[Record]:
    lines = islice(lines, source.skip_lines, None)
    if header := csv_header(lines, source, columns):
        feed, reader = Feed(lines, source.comment), CsvReader(source, header)
        while (record := reader.record(feed)) or feed.taken:
            if record:
                yield record


class CsvReader:
    """Reads records one by one, and tracks where a broken quote makes the following lines doubtful."""

    def __init__(self, source: Source, header: list[str]) -> None:
        self._source = source
        self._header = header
        self._doubtful = 0  # up to this line there may be the rest of a record whose quotes are broken

    def record(self, feed: Feed) -> Record | None:
        """The record that starts at the feed's next line; None for a blank line, and at the end, where no line is consumed."""
        feed.begin()
        try:
            cells, problem = next(_csv_reader(feed, self._source), []), None
        except csv.Error as error:
            cells, problem = [], _syntax_problem(error, feed.taken)
            feed.give_back_all_but_first()
        raw = b"".join(line for _, line in feed.taken).rstrip(b"\r\n")
        if feed.taken and isinstance(line := feed.taken[0][1], CutLine):
            self._doubtful = feed.taken[0][0] + MAX_LINES_OF_A_RECORD  # a quote may be open at its end
            return Record(feed.taken[0][0], readable_text(line), None, line.problem)
        if not raw:  # a blank line is no record
            return None
        number = feed.taken[0][0]
        if problem and self._source.quote.encode() in raw:
            self._doubtful = number + MAX_LINES_OF_A_RECORD
        problem = problem or _content_problem(raw, len(cells), len(self._header))
        if not problem and number <= self._doubtful and not re.fullmatch(ordered_quotes(self._source), readable_text(raw)):
            problem = "holds a stray quote, and may be the rest of a record before it whose quotes are broken"
        if not problem and cells == self._source.columns:
            problem = "is a header, and source.columns says that the file has none"
        return Record(number, readable_text(raw), None if problem else dict(zip(self._header, cells, strict=True)), problem)


class Feed:
    """Lines for the CSV reader; lines that it consumed while it searched for a missing closing quote can be given back."""

    def __init__(self, lines: Iterator[tuple[int, bytes]], comment: str = "") -> None:
        """:param comment: the prefix of lines that are no records; within the quotes of a record it has no meaning."""
        self._lines, self._comment = lines, comment.encode()
        self._again: deque[tuple[int, bytes]] = deque()
        self.taken: list[tuple[int, bytes]] = []  # since the record began
        self._bytes = 0  # of these

    def begin(self) -> None:
        """Begin a record."""
        self.taken.clear()
        self._bytes = 0

    def __iter__(self) -> Feed:
        return self

    def __next__(self) -> str:
        if len(self.taken) >= MAX_LINES_OF_A_RECORD or self._bytes > line_limits.MAX_RECORD_BYTES:
            raise StopIteration
        if self.taken and isinstance(self.taken[0][1], CutLine):
            raise StopIteration
        line = self._again.popleft() if self._again else next(self._lines)
        while not self.taken and _begins(line[1], self._comment):
            line = self._again.popleft() if self._again else next(self._lines)
        if self.taken and isinstance(line[1], CutLine):  # it is a record by itself
            self._again.appendleft(line)
            raise StopIteration
        self.taken.append(line)
        self._bytes += len(line[1])
        # Bytes that are not text must not hide the end of the record; they are reported once the record is complete.
        return self.taken[-1][1].decode(errors="surrogateescape").replace("\0", "\ufffd")

    def give_back_all_but_first(self) -> None:
        self._again.extendleft(reversed(self.taken[1:]))
        del self.taken[1:]


def _csv_reader(lines: Iterable[str], source: Source) -> Iterator[list[str]]:
    return csv.reader(lines, delimiter=source.delimiter, quotechar=source.quote, strict=True)


def ordered_quotes(source: Source) -> str:
    """The regular expression of lines whose quotes only enclose whole cells; the CSV reader treats other quotes as text."""
    quote, delimiter = re.escape(source.quote), re.escape(source.delimiter)
    cell = f"(?:{quote}[^{quote}]*(?:{quote}{quote}[^{quote}]*)*{quote}|[^{quote}{delimiter}]*)"
    return f"{cell}(?:{delimiter}{cell})*"


def csv_header(lines: Iterator[tuple[int, bytes]], source: Source, columns: list[str]) -> list[str]:
    """The column names; empty for an empty file."""
    if source.columns:  # the file has no header
        return source.columns
    number, line = header_line(lines, source)
    if not line:
        return []
    if isinstance(line, CutLine):
        raise FileProblem(f"line {number}: the header is {line.problem}")
    if other := foreign_format(line):
        raise FileProblem(f"the file {other}")
    try:
        header = next(_csv_reader([line.decode()], source))
    except UnicodeDecodeError as error:
        msg = f"line {number}: not valid UTF-8 at byte {error.start + 1}; have the file sent again as UTF-8"
        raise FileProblem(msg) from None
    except csv.Error as error:
        raise FileProblem(f"line {number}: the header is not CSV ({_words(error)}); have the file sent again") from None
    _check_header(number, header, columns)
    return header


def repeated_names(header: Sequence[str]) -> set[str]:
    """The names that several columns have; a spreadsheet also saves columns without a name."""
    return {name for name, count in Counter(header).items() if count > 1}


def named_once(header: Sequence[str]) -> list[str]:
    """The columns with a name for each: a repeated name gets a number, an empty one becomes ``column``."""
    names: list[str] = []
    for cell in header:
        wanted = name = cell.strip() or "column"
        number = 1
        while name in names or (number > 1 and name in header):
            number += 1
            name = f"{wanted}_{number}"
        names.append(name)
    return names


def _check_header(number: int, header: list[str], columns: list[str]) -> None:
    twice = sorted(name for name in repeated_names(header) if name in columns)
    if twice:
        names = ", ".join(map(repr, named_once(header)))
        raise FileProblem(
            f"line {number}: the header names {_listed(twice)} twice; have the file sent again, or name the columns in the "
            f"contract: source: {{skip_lines: {number}, columns: [{names}]}}"
        )
    missing = [name for name in columns if name not in header]
    if missing:
        remedy = "have the file sent again, or take the column out of the contract"
        raise FileProblem(f"line {number}: column {_listed(missing)} is missing{_header_hint(header, missing)}; {remedy}")


def _header_hint(header: list[str], missing: list[str]) -> str:
    """What the header has in place of missing columns, if it differs only by blanks, by case or by the delimiter."""
    if len(header) == 1:
        cells = {mark: {cell.strip(' "') for cell in header[0].split(mark)} for mark in _DELIMITERS if mark in header[0]}
        fitting = [mark for mark, names in cells.items() if names.issuperset(missing)]
        return f" (source.delimiter: {fitting[0]!r} would find it in {header[0]!r})" if fitting else ""
    similar = [name for name in header if name.strip().lower() in {one.lower() for one in missing}]
    return f" (the header has {', '.join(map(repr, similar))})" if similar else ""


def _listed(names: list[str]) -> str:
    return ", ".join(name if name.isprintable() and name else repr(name) for name in names)


def _syntax_problem(error: csv.Error, taken: list[tuple[int, bytes]]) -> str:
    if "unexpected end of data" in str(error):
        return "a quote is opened and never closed"
    if len(taken) > 1:
        return f"a quote is opened and never closed as CSV has it (line {taken[-1][0]}: {_words(error)})"
    return f"not CSV: {_words(error)}"


def _words(error: csv.Error) -> str:
    return str(error).partition(" - ")[0]  # what follows is advice to programmers


def _content_problem(raw: bytes, cells: int, wanted: int) -> str | None:
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        return f"not valid UTF-8 at byte {error.start + 1} of the record"
    if b"\0" in raw:
        return "holds a NUL byte"
    if cells != wanted:
        return f"has {cells} fields where the header has {wanted}"
    return None


def json_records(lines: Iterable[tuple[int, bytes]]) -> Iterator[Record]:
    for number, line in lines:
        if isinstance(line, CutLine):
            yield Record(number, readable_text(line), None, line.problem)
            continue
        content = line.rstrip(b"\r\n")
        if not content.strip(b" \t"):  # a blank line is no record
            continue
        values, problem = None, None
        try:
            values = _json_values(content)
        except UnicodeDecodeError as error:
            problem = f"not valid UTF-8 at byte {error.start + 1} of the line"
        except UnicodeEncodeError:
            problem = "holds half of a surrogate pair, which is no text"
        except json.JSONDecodeError as error:
            problem = f"not JSON: {error.msg} at character {error.pos + 1}"
        except RecursionError:
            problem = f"nested deeper than {MAX_DEPTH} levels"
        except ValueError as error:
            problem = str(error)
        yield Record(number, readable_text(content), values, problem)


def _json_values(line: bytes) -> dict[str, Any]:
    """:raises ValueError: when the line is no object or is ambiguous; the message is the reason."""
    values = json.loads(
        line.decode(),
        object_pairs_hook=_unique,
        parse_int=_json_integer,
        parse_float=_json_number,
        parse_constant=float,
    )
    if not isinstance(values, dict):
        msg = f"a JSON {type(values).__name__} where an object is expected"
        raise ValueError(msg)  # noqa: TRY004 (a mistake of the file, not of the caller)
    _check_depth(values)
    if b"\\u" in line:
        json.dumps(values, ensure_ascii=False, default=str).encode()
    return values


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        twice = sorted(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise ValueError(f"names {', '.join(map(ascii, twice))} twice")
    return values


def _json_integer(text: str) -> int:
    _check_length(text)
    return int(text)


def _json_number(text: str) -> Decimal:
    _check_length(text)
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise ValueError(f"the number {text[:60]} is out of range") from None
    # 1.0855505414859518e+16 has as many digits as its exponent says: without a point it would pass for an integer, which a double
    # of this size is not for certain.
    return number if number.as_tuple().exponent else Decimal(f"{number}.0")


def _check_length(text: str) -> None:
    if len(text) > MAX_DIGITS:
        raise ValueError(f"holds a number of {len(text)} characters; {MAX_DIGITS} are allowed")


def _check_depth(values: dict[str, Any]) -> None:
    level: list[Any] = [values]
    for _ in range(MAX_DEPTH):
        below = (child for item in level for child in (item.values() if isinstance(item, dict) else item))
        level = [child for child in below if isinstance(child, (dict, list))]
        if not level:
            return
    raise ValueError(f"nested deeper than {MAX_DEPTH} levels")


def readable_text(line: bytes) -> str:
    """The line as text that can be stored and read by people, whatever its bytes."""
    return line.decode(errors="backslashreplace").replace("\0", "\\x00")


_TO_PARQUET = "convert it to Parquet, or to CSV or JSON lines (a file may be compressed with gzip)"
_MAGIC = {
    b"\xd0\xcf\x11\xe0": "is an old Excel workbook; save the sheet as CSV in UTF-8",
    b"Obj\x01": f"is an Avro file; {_TO_PARQUET}",
    b"ORC": f"is an ORC file; {_TO_PARQUET}",
    b"PAR1": "is a Parquet file; 'source.format: parquet' reads it",
    b"BZh": "is compressed with bzip2; unpack it, or compress it with gzip",
    b"\x28\xb5\x2f\xfd": "is compressed with zstd; unpack it, or compress it with gzip",
    b"\xfd7zXZ": "is compressed with xz; unpack it, or compress it with gzip",
    b"%PDF": "is a PDF; ask the sender for the table as CSV",
}
#: Bytes that text does not have.
_OF_NO_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1f]")


def foreign_format(content: bytes) -> str | None:
    """The sentence about a file that begins with ``content``; None if no format is recognized."""
    if content[:4] == b"PK\x03\x04":
        if b"xl/" in content or b"[Content_Types].xml" in content[:2000]:
            return "is an Excel workbook; save the sheet as CSV in UTF-8"
        return "is a zip archive; unpack it and give the files in it (a file may be compressed with gzip)"
    found = next((magic for magic in _MAGIC if content.startswith(magic)), None)
    return _MAGIC[found] if found and not (found.isalnum() and _is_text(content.partition(b"\n")[0])) else None


def _is_text(line: bytes) -> bool:
    """Whether the first line of a file is text: a header may begin with the letters of a format, such as ORCID."""
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return _OF_NO_TEXT.search(line) is None
