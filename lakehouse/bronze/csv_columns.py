"""Reads text files in blocks: parts of whole records for several tasks, lines as a column, and the columns of CSV.

A large file is cut so that several tasks read it at once; a part is read by the reader of its format. Compressed text is not cut,
because it can only be read from its beginning. Lines of CSV that may be more or less than one record are read individually.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from gzip import GzipFile
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from lakehouse.bronze import line_limits
from lakehouse.bronze.column_values import without_words
from lakehouse.bronze.file_formats import (
    GZIP_MAGIC,
    MAX_LINES_OF_A_RECORD,
    CsvReader,
    Feed,
    csv_header,
    numbered_lines,
    ordered_quotes,
)
from lakehouse.bronze.line_limits import CutLine, length_of, limited_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyarrow.parquet as pq

    from lakehouse.bronze.file_formats import Record
    from lakehouse.contracts.inputs import Source


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
        return line_limits.lines_of_block(stream, size)
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


#: Characters that the CSV reader or Arrow treats specially (Arrow removes a byte order mark at the beginning of its input).
_ODD = r"\x00\r\x{FEFF}"


def can_split(source: Source) -> bool:
    """Whether Arrow can split the source's CSV: its delimiter and quote are single bytes."""
    return source.delimiter.isascii() and source.quote.isascii()


def csv_blocks(
    stream: BinaryIO, source: Source, columns: list[str], size: int, body: tuple[Callable[[], BinaryIO], int] | None = None
) -> Iterator[Block]:
    """Every record of a CSV file, in blocks of about ``size`` bytes.

    :param stream: the file's content, decompressed.
    :param columns: the columns that the contract needs.
    :param body: a function that opens the part whose records are wanted, called after the header has been read, and the number of
        lines before the part.
    :raises FileProblem: when the file as a whole cannot be read.
    """
    before = 0

    def noted(line: tuple[int, bytes]) -> tuple[int, bytes]:
        nonlocal before
        before = line[0]
        return line

    header = csv_header(map(noted, numbered_lines(stream)), source, columns)
    if not header:
        return
    splitter = _Splitter(source, header, columns)
    rows = stream  # which must live on: a buffer that is collected closes its file
    if body:
        opened, before = body
        rows = opened()
    groups = groups_of_lines(rows, size, before)
    lines = next(groups, None)
    while lines is not None:
        following = next(groups, None)
        block, used = splitter.block(lines, is_last=following is None)
        yield block
        rest = Lines(lines.first + used, lines.contents[used:])
        lines = following and rest.followed_by(following)


class _BlockEnds(Exception):  # noqa: N818 (a signal, not a fault)
    """A record may continue after the block."""


class _Splitter:
    """Splits the lines of one file."""

    def __init__(self, source: Source, header: list[str], columns: list[str]) -> None:
        self._source = source
        self._reader = CsvReader(source, header)
        self._names = [str(position) for position in range(len(header))]  # Arrow's; those of the header may be empty
        self._wanted = {column: self._names[header.index(column)] for column in columns}
        self._suspicious = rf"[{_ODD}\x{ord(source.quote):02x}]"
        self._ordered = f"^{ordered_quotes(source)}$"

    def block(self, lines: Lines, *, is_last: bool) -> tuple[Block, int]:
        """The records that begin and end in the lines, and the number of lines that they use."""
        texts, odd = line_texts(lines.contents)
        doubtful = np.flatnonzero(odd | self._doubtful(texts))
        exact, is_record, used = self._one_by_one(lines, doubtful, is_last=is_last)
        is_record &= flags(pc.not_equal(texts, ""))
        records = np.flatnonzero(is_record)
        columns, fits = self._split(texts.filter(pa.array(is_record)))
        exact += [self._single(lines, line) for line in records[~fits].tolist()]
        records = records[fits]
        raw = texts.take(pa.array(records))
        numbers = pa.array(lines.first + records)
        return Block(columns, numbers, raw, lambda row: self._single(lines, int(records[row])), exact), used

    def _doubtful(self, texts: pa.StringArray) -> np.ndarray:
        """Whether each line may be more or less than one record: lines in which not every quote is in order."""
        doubtful = flags(pc.match_substring_regex(texts, self._suspicious))
        lines = np.flatnonzero(doubtful)
        if len(lines):
            suspicious = texts.take(pa.array(lines))
            in_order = pc.match_substring_regex(suspicious, self._ordered)
            doubtful[lines] = ~flags(pc.and_not(in_order, pc.match_substring_regex(suspicious, f"[{_ODD}]")))
        return doubtful

    def _one_by_one(self, lines: Lines, doubtful: np.ndarray, *, is_last: bool) -> tuple[list[Record], np.ndarray, int]:
        """The records that the doubtful lines begin, a mask of the lines that belong to none of them, and the number of lines
        used.

        A record that may continue after the last line is left for the next block.
        """
        records: list[Record] = []
        others, position = np.ones(len(lines.contents), bool), 0
        for line in doubtful.tolist():
            if line < position:  # it belongs to the record before
                continue
            feed = Feed(_from(lines, line, is_last=is_last))
            try:
                record = self._reader.record(feed)
            except _BlockEnds:
                others[line:] = False
                return records, others, line
            position = line + len(feed.taken)
            others[line:position] = False
            if record:
                records.append(record)
        return records, others, len(lines.contents)

    def _single(self, lines: Lines, position: int) -> Record:
        """The record of a line that is exactly one record."""
        number, line = lines.first + position, lines.contents[position]
        record = self._reader.record(Feed(iter([(number, line)])))
        if record is None:
            msg = f"line {number} is blank"
            raise ValueError(msg)
        return record

    def _split(self, texts: pa.StringArray) -> tuple[dict[str, pa.StringArray], np.ndarray]:
        """The cells, by column, of the lines that have as many cells as the header, and a mask of these lines."""
        misfits: list[int] = []

        def skip(row: Any) -> str:
            misfits.append(row.number - 1)
            return "skip"

        fits = np.ones(len(texts), bool)
        if not len(texts):
            return dict.fromkeys(self._wanted, texts), fits
        content = pc.binary_join_element_wise(texts, "", "\n").buffers()[2]
        try:
            cells = pa_csv.read_csv(
                pa.BufferReader(content),
                pa_csv.ReadOptions(column_names=self._names, use_threads=False, block_size=content.size + 1),
                pa_csv.ParseOptions(delimiter=self._source.delimiter, quote_char=self._source.quote, invalid_row_handler=skip),
                pa_csv.ConvertOptions(
                    include_columns=list(self._wanted.values()),
                    column_types=dict.fromkeys(self._wanted.values(), pa.string()),
                    strings_can_be_null=False,
                ),
            ).combine_chunks()
        except pa.ArrowInvalid:
            return self._none_fit(texts)
        fits[misfits] = False
        if len(cells) != np.count_nonzero(fits):
            return self._none_fit(texts)
        columns = {column: _array(cells[name]) for column, name in self._wanted.items()}
        return {column: without_words(texts, self._source.nulls) for column, texts in columns.items()}, fits

    def _none_fit(self, texts: pa.StringArray) -> tuple[dict[str, pa.StringArray], np.ndarray]:
        """The result that leaves all lines to the exact reader, because Arrow did not read one record per line."""
        return dict.fromkeys(self._wanted, texts.slice(0, 0)), np.zeros(len(texts), bool)


def _from(lines: Lines, first: int, *, is_last: bool) -> Iterator[tuple[int, bytes]]:
    """The lines from position ``first`` on.

    :raises _BlockEnds: at their end, unless it is the end of the file.
    """
    yield from lines.numbered(first)
    if not is_last:
        raise _BlockEnds


def _array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])


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
