"""Reads sample files for ``inference``: their format, delimiter, header position, and first records."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from lakehouse.bronze import file_formats
from lakehouse.contracts.inputs.section import Source
from lakehouse.project import foreign_formats
from lakehouse.project.questions import InferenceError, Sample

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

#: The number of records read from each file.
RECORDS = 10_000
#: The number of lines from which delimiter and header are detected, and the number of broken records reported.
_LINES, _TOLD = 100, 3
_DELIMITERS = (",", ";", "\t", "|")
_COMMENTS = ("#", "//", "--", "%")


def source_of(file: Path) -> Source:
    """Detect how to read a file.

    :raises InferenceError: for a file that is neither CSV, JSON lines nor Parquet, or has no header.
    """
    with file.open("rb") as stream:
        content = stream.read(1_000_000)
    if content[:4] == b"PAR1":
        return Source(format="parquet")
    _refuse(file, foreign_formats.of_bytes(content))
    with file.open("rb") if content[:2] == file_formats.GZIP_MAGIC else io.BytesIO(content) as stream:
        lines = file_formats.numbered_lines(file_formats.unzipped(stream))
        try:
            comment, beginning = _beginning(lines)
        except file_formats.FileProblem as problem:
            msg = f"{file}: {problem}"
            raise InferenceError(msg) from None
    if not beginning:
        msg = f"{file}: is empty; give a file with a header and at least one record"
        raise InferenceError(msg)
    text = beginning[0][1]
    if text.lstrip()[:1] == "[":
        _refuse(file, foreign_formats.of_json_array("\n".join(line for _, line in beginning[:2])))
        return Source(format="json", array=True)
    if (format_line := re.fullmatch(r"sep=(.)\s*", text)) and format_line[1] in _DELIMITERS:
        return Source(format="csv", delimiter=format_line[1], skip_lines=1)
    if text.lstrip()[:1] == "{":
        _refuse(file, foreign_formats.of_first_line(text))
        _refuse(file, foreign_formats.of_json_line(text, is_only=len(beginning) == 1))
        return Source(format="json")
    delimiter, before = _layout([line for _, line in beginning])
    header_number, header = beginning[before]
    _refuse(file, foreign_formats.of_first_line(header))
    if before + 1 < len(beginning):
        cells = [next(csv.reader([line], delimiter=delimiter), []) for _, line in beginning[before : before + 2]]
        _refuse(file, foreign_formats.of_records_alone(*cells))
    if delimiter not in header:
        _refuse(file, foreign_formats.of_fixed_width(header))
    return Source(format="csv", delimiter=delimiter, comment=comment, skip_lines=header_number - 1 if before else 0)


def _beginning(lines: Iterator[tuple[int, bytes]]) -> tuple[str, list[tuple[int, str]]]:
    """The prefix of the comments at the beginning of a text, and the first lines that are neither comments nor blank."""
    comment, beginning = "", list[tuple[int, str]]()
    for number, line in lines:
        mark = next((mark for mark in _COMMENTS if line.startswith(mark.encode())), "")
        comment = comment or ("" if beginning else mark)
        if line.strip() and not (mark and mark == comment):
            beginning.append((number, line.decode("utf-8-sig", errors="replace").rstrip("\r\n")))
        if len(beginning) == _LINES:
            break
    return comment, beginning


def _layout(lines: Sequence[str]) -> tuple[str, int]:
    """The delimiter that divides most lines equally, and the number of title lines before the header."""
    counts = {
        delimiter: [re.sub(r'"[^"]*"', "", line).count(delimiter) for line in lines]  # not those within quotes
        for delimiter in _DELIMITERS
    }
    usual = {delimiter: Counter(count for count in of if count).most_common(1) or [(0, 0)] for delimiter, of in counts.items()}
    delimiter = max(_DELIMITERS, key=lambda each: usual[each][0][::-1])
    [(fields, _)] = usual[delimiter]
    # A spreadsheet pads the lines of a title with delimiters.
    filled = [sum(bool(cell.strip()) for cell in line.split(delimiter)) for line in lines]
    header = next(
        (place for place, count in enumerate(counts[delimiter]) if count == fields and filled[place] * 2 > fields + 1), 0
    )
    is_title = not foreign_formats.has_numbers(lines[header]) and all(
        count * 2 <= fields or filled[place] * 2 <= fields + 1 for place, count in enumerate(counts[delimiter][:header])
    )
    return delimiter, header if is_title and header + 1 < len(lines) else 0


def _refuse(file: Path, reason: str | None) -> None:
    """:raises InferenceError: if there is a reason."""
    if reason is not None:
        msg = f"{file}: {reason}"
        raise InferenceError(msg)


def read(file: Path, source: Source) -> Sample:
    """The first records of a file.

    Broken records are left out and reported in ``doubts``.

    :raises InferenceError: if the file cannot be read as ``source`` describes, or most records are broken.
    """
    if source.format == "parquet":
        return _read_parquet(file)
    records: list[dict[str, Any]] = []
    broken: list[file_formats.Record] = []
    columns: dict[str, None] = {}
    lines: list[int] = []
    try:
        with file.open("rb") as stream:
            for record in file_formats.read_records(stream, source, []):
                if record.values is None:
                    broken.append(record)
                    continue
                records.append({name: None if value in ("", None) else value for name, value in record.values.items()})
                columns |= dict.fromkeys(record.values)
                lines.append(record.line_number)
                if len(records) == RECORDS:
                    break
    except file_formats.FileProblem as problem:
        msg = f"{file}: {_advised(f'{problem}')}"
        raise InferenceError(msg) from None
    if len(broken) > len(records):
        problem_of_first = _advised(f"{broken[0].problem}")
        msg = f"{file}, line {broken[0].line_number}: {problem_of_first}; give sound sample files"
        raise InferenceError(msg)
    if source.format == "csv":
        _refuse(file, foreign_formats.of_second_header(records, lines[0] if lines else 0))
    doubts = [f"line {record.line_number} {_advised(f'{record.problem}')}: it will be malformed" for record in broken[:_TOLD]]
    doubts += [f"and {len(broken) - _TOLD:,} more lines like it"] if len(broken) > _TOLD else []
    return Sample(f"{file}", list(columns), records, doubts)


def _advised(problem: str) -> str:
    """A problem of a file or record, with the remedy if a conversion helps."""
    if "not valid UTF-8" not in problem:
        return problem
    return f"{problem} (if it is Windows-1252: iconv -f WINDOWS-1252 -t UTF-8 FILE > NEW)"


def _read_parquet(file: Path) -> Sample:
    import pyarrow.parquet as pq  # noqa: PLC0415 (Arrow loads in a second)

    parquet = pq.ParquetFile(file)
    batch = next(parquet.iter_batches(RECORDS), None)
    return Sample(f"{file}", parquet.schema_arrow.names, [] if batch is None else batch.to_pylist())
