"""Splits blocks of a CSV file into columns; lines that may be more or less than one record are read individually."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from lakehouse.bronze.columnar.conversion import without_words
from lakehouse.bronze.columnar.text_lines import Block, Lines, flags, groups_of_lines, line_texts
from lakehouse.bronze.file_formats import CsvReader, Feed, csv_header, numbered_lines, ordered_quotes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakehouse.bronze.file_formats import Record
    from lakehouse.contracts.inputs.section import Source

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
