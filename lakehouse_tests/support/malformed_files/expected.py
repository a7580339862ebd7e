"""Compares the rows that came of a file with what its pieces say must come of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lakehouse_tests.support.malformed_files.pieces import typed_row

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lakehouse_tests.support.malformed_files.pieces import Format, Piece

Row = dict[str, Any]
#: The columns that a malformed row does not fill.
TYPED = tuple(typed_row(1))
#: What a malformed row may have, where it can be read.
IDENTIFIED_BY = ("record_key", "event_date", "corrects_key", "arrival_ts", "source_sequence")


def misfits(pieces: Iterable[Piece], rows: Iterable[Row], file_format: Format) -> list[str]:
    """What is wrong with the rows of a file; nothing, where each piece has its expected rows and there is no other row."""
    left: dict[int, Row] = {}
    wrong = []
    for row in rows:
        if row["line_number"] in left:
            wrong.append(f"line {row['line_number']} is two rows")
        left[row["line_number"]] = row
    line = 1
    for piece in pieces:
        behind = line + piece.text.count(b"\n") + 1
        found = [left.pop(number) for number in range(line, behind if piece.text + piece.end else line) if number in left]
        wrong += [f"line {line}: {problem}: {piece}: {found}" for problem in _misfit(piece, line, found, file_format)]
        line = behind if piece.end.endswith(b"\n") else behind - 1
    return wrong + [f"a row of no line: {row}" for row in left.values()]


def _misfit(piece: Piece, line: int, rows: list[Row], file_format: Format) -> Iterator[str]:
    if piece.fate == "none":
        if rows:
            yield "what is no record became a row"
        return
    lines = _lines(piece.text, file_format)
    if [text for row in rows for text in _lines(row["raw_payload"].encode(), file_format)] != lines:
        yield "its lines are not in the rows, each once"
    if piece.fate in {"sound", "malformed"} and [row["line_number"] for row in rows] != [line]:
        yield "not one row, where the record begins"
    for row in rows:
        if row["malformed_reason"] is None:
            yield from _misfit_of_sound(piece, row, file_format)
        elif piece.fate == "sound":
            yield "malformed"
        elif not row["malformed_reason"] or any(row[column] is not None for column in TYPED if column not in IDENTIFIED_BY):
            yield "malformed without a reason, or with typed values"


def _misfit_of_sound(piece: Piece, row: Row, file_format: Format) -> Iterator[str]:
    if piece.fate in {"malformed", "broken"}:
        yield "a record out of what is none"
    elif piece.fate == "sound":
        if {column: row[column] for column in TYPED} != piece.expected_row:
            yield "says something else"
    else:
        day = row["event_date"] and row["event_date"].isoformat()
        if (row["record_key"], day, row["amount"]) != _by_eye(row["raw_payload"], file_format):
            yield "says what is not there"


def _by_eye(raw: str, file_format: Format) -> tuple[str, str | None, int | None]:
    """Key, event day and amount that a text shows to somebody who looks for commas, or for JSON, and for nothing else."""
    if file_format == "csv":
        key, amount, event = raw.split(",")[:3]
    else:
        values = json.loads(raw)
        key = values["id"] if isinstance(values["id"], str) else json.dumps(values["id"], separators=(",", ":"))
        amount, event = values.get("amount"), values.get("event_time") or ""
    return key, event.strip()[:10] or None, None if amount in {None, ""} else int(str(amount).strip())


def _lines(text: bytes, file_format: Format) -> list[str]:
    """The physical lines that are not blank, as they can be shown."""
    shown = text.decode(errors="backslashreplace").replace("\0", "\\x00")
    blank = "\r" if file_format == "csv" else "\r\t "
    return [line.rstrip("\r") for line in shown.split("\n") if line.strip(blank)]
