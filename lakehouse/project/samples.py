"""Reads sample files for ``inference``: their format, delimiter and first records."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

from lakehouse.bronze import file_formats
from lakehouse.contracts.inputs.section import Source
from lakehouse.project import foreign_formats
from lakehouse.project.questions import InferenceError, Sample

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: So many records of each file are read.
RECORDS = 10_000
_DELIMITERS = (",", ";", "\t", "|")
_COMMENTS = ("#", "//", "--", "%")


def source_of(file: Path) -> Source:
    """How a file is to be read.

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
            comment, first = _first_line(lines)
        except file_formats.FileProblem as problem:
            msg = f"{file}: {problem}"
            raise InferenceError(msg) from None
    if not first:
        msg = f"{file}: is empty; give a file with a header and at least one record"
        raise InferenceError(msg)
    text = first.decode("utf-8-sig", errors="replace")
    if text.lstrip()[:1] == "[":
        return Source(format="json", array=True)
    if (format_line := re.fullmatch(r"sep=(.)\s*", text)) and format_line[1] in _DELIMITERS:
        return Source(format="csv", delimiter=format_line[1], skip_lines=1)
    _refuse(file, foreign_formats.of_first_line(text))
    if text.lstrip()[:1] == "{":
        _refuse(file, foreign_formats.of_json_line(text))
        return Source(format="json")
    counts = {delimiter: text.count(delimiter) for delimiter in _DELIMITERS}
    if not any(counts.values()):
        _refuse(file, foreign_formats.of_fixed_width(text))
    return Source(format="csv", delimiter=max(_DELIMITERS, key=lambda delimiter: counts[delimiter]), comment=comment)


def _first_line(lines: Iterator[tuple[int, bytes]]) -> tuple[str, bytes]:
    """What comments at the beginning of a text begin with, and the first line behind them."""
    comment = ""
    for _, line in lines:
        beginning = next((mark for mark in _COMMENTS if line.startswith(mark.encode())), "")
        if not line.strip() or (beginning and comment in ("", beginning)):
            comment = comment or beginning
        else:
            return comment, line
    return comment, b""


def _refuse(file: Path, reason: str | None) -> None:
    """:raises InferenceError: if there is a reason."""
    if reason is not None:
        msg = f"{file}: {reason}"
        raise InferenceError(msg)


def read(file: Path, source: Source) -> Sample:
    """The first records of a file.

    :raises InferenceError: if it cannot be read as ``source`` describes, or a record is broken.
    """
    if source.format == "parquet":
        return _read_parquet(file)
    records: list[dict[str, Any]] = []
    columns: dict[str, None] = {}
    try:
        with file.open("rb") as stream:
            for record in file_formats.read_records(stream, source, []):
                if record.values is None:
                    msg = f"{file}, line {record.line_number}: {record.problem}; give sound sample files"
                    raise InferenceError(msg)
                records.append({name: None if value in ("", None) else value for name, value in record.values.items()})
                columns |= dict.fromkeys(record.values)
                if len(records) == RECORDS:
                    break
    except file_formats.FileProblem as problem:
        msg = f"{file}: {problem}"
        raise InferenceError(msg) from None
    return Sample(f"{file}", list(columns), records)


def _read_parquet(file: Path) -> Sample:
    import pyarrow.parquet as pq  # noqa: PLC0415 (Arrow loads in a second)

    parquet = pq.ParquetFile(file)
    batch = next(parquet.iter_batches(RECORDS), None)
    return Sample(f"{file}", parquet.schema_arrow.names, [] if batch is None else batch.to_pylist())
