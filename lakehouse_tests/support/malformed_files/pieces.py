"""The well-formed file, the values of its records, and how a damaged one is described together with its expected rows.

A file is a sequence of pieces, and an operator that damages one knows what it did: the expectation comes from there, and
never from the code under test.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

COLUMNS = ("id", "amount", "event_time", "arrived_at", "op", "corrects", "seq")
#: Records are called by their number; the third goes over two lines in CSV, the fourth is a delete, the fifth a correction.
NUMBERS = range(1, 7)
TWO_LINES, DELETE, CORRECTION = 3, 4, 5
KEYS = "key-"

Format = Literal["csv", "json"]
Fate = Literal["none", "sound", "malformed", "broken", "open"]


@dataclass(frozen=True)
class Piece:
    """Some bytes of a file and the rows that must come of them.

    ``fate`` is *none*: no row (a header, a blank line); *sound*: one row that has ``expected_row``; *malformed*: one row with the
    text and a reason; *broken*: malformed rows that together hold every line; *open*: as broken, but a row may be sound if
    it has the values of its text.
    """

    text: bytes
    fate: Fate
    expected_row: dict[str, Any] | None = None
    end: bytes = b"\n"

    def renamed(self, keys: str) -> Piece:
        """The same with other keys, so that many files can be told apart in one lake."""
        expected_row = {
            name: value.replace(KEYS, keys) if isinstance(value, str) else value
            for name, value in (self.expected_row or {}).items()
        }
        return replace(self, text=self.text.replace(KEYS.encode(), keys.encode()), expected_row=expected_row or None)


@dataclass(frozen=True)
class Malformation:
    """A damaged file. ``pieces`` is None where the file must be held as a whole."""

    name: str
    format: Format
    content: bytes
    pieces: tuple[Piece, ...] | None


@dataclass(frozen=True)
class Base:
    """The well-formed file in one format."""

    format: Format
    head: tuple[Piece, ...]
    records: tuple[Piece, ...]

    def of(self, name: str, pieces: tuple[Piece, ...]) -> Malformation:
        """A file of these pieces."""
        return Malformation(f"{self.format}: {name}", self.format, joined(pieces), pieces)

    def replaced(self, name: str, number: int, *pieces: Piece, until: int | None = None) -> Malformation:
        """The file with other pieces in the place of a record, or of those from it ``until`` another."""
        return self.of(name, (*self.head, *self.records[: number - 1], *pieces, *self.records[until or number :]))

    def inserted(self, name: str, after: int, *pieces: Piece) -> Malformation:
        """The file with other pieces after a record; after 0 means before the first."""
        return self.of(name, (*self.head, *self.records[:after], *pieces, *self.records[after:]))

    def transformed(self, name: str, content: bytes, *, readable: bool = False) -> Malformation:
        """A file of other bytes: it has the same records, or must be held."""
        pieces = self.head + self.records if readable else None
        return Malformation(f"{self.format}: {name}", self.format, content, pieces)

    @property
    def whole(self) -> bytes:
        """The well-formed file."""
        return joined(self.head + self.records)


def joined(pieces: tuple[Piece, ...]) -> bytes:
    """The bytes of these pieces."""
    return b"".join(piece.text + piece.end for piece in pieces)


def cells(number: int) -> dict[str, str]:
    """The values of a record in the file, by column."""
    return {
        "id": f"{KEYS}{number}",
        "amount": str(11 * number),
        "event_time": "" if number == DELETE else f"2024-01-{20 + number}T12:00:00Z",
        "arrived_at": f"2024-02-01T0{number}:00:00Z",
        "op": {DELETE: "delete", CORRECTION: "correct"}.get(number, "insert"),
        "corrects": "older-5" if number == CORRECTION else "",
        "seq": 'two, "quoted" words\nand a line' if number == TWO_LINES else "0",
    }


def typed_row(number: int, **changes: Any) -> dict[str, Any]:
    """What a sound row of the record holds in its typed columns."""
    key = changes.get("id", f"{KEYS}{number}")
    day = None if number == DELETE else date(2024, 1, 20) + timedelta(days=number)
    op = {DELETE: "delete", CORRECTION: "correct"}.get(number, "insert")
    row = {
        "record_key": key,
        "id": key,
        "amount": 11 * number,
        "event_ts": datetime(2024, 1, 20 + number, 12, tzinfo=timezone.utc) if day else None,
        "event_date": day,
        "arrival_ts": datetime(2024, 2, 1, number, tzinfo=timezone.utc),
        "source_sequence": 0,
        "change_op": op,
        "is_correction": changes.get("change_op", op) == "correct",
        "corrects_key": "older-5" if number == CORRECTION else None,
        "corrected_by": None,
        "correction_reason": None,
        "corrected_field": None,
    }
    return row | changes


def csv_cells(number: int) -> list[bytes]:
    """The cells of a record's line as they are written in the file."""
    return [quoted(cell) if '"' in cell else cell.encode() for cell in cells(number).values()]


def quoted(cell: str) -> bytes:
    """A cell in quotes."""
    return ('"' + cell.replace('"', '""') + '"').encode()


def with_cell(number: int, column: str, cell: bytes) -> bytes:
    """The record's line of CSV with another cell, which is written as it is."""
    line = csv_cells(number)
    line[COLUMNS.index(column)] = cell
    return b",".join(line)


def json_text(number: int, **changes: Any) -> bytes:
    """The record's line of JSON with some values changed."""
    values = {**cells(number), "amount": 11 * number}
    return json.dumps(values | changes, ensure_ascii=False).encode()


def inside(text: bytes, inserted: bytes) -> bytes:
    """``what`` in the middle of the text."""
    middle = len(text) // 2
    return text[:middle] + inserted + text[middle:]


def full_cells(*numbers: int) -> Iterator[tuple[int, str, bytes]]:
    """Every cell that is not empty and has no quotes in CSV, as (record, column, cell)."""
    for number in numbers or NUMBERS:
        for column, cell in zip(COLUMNS, csv_cells(number)):
            if cell and not cell.startswith(b'"'):
                yield number, column, cell


HEADER = Piece(",".join(COLUMNS).encode(), "none")
CSV = Base("csv", (HEADER,), tuple(Piece(b",".join(csv_cells(number)), "sound", typed_row(number)) for number in NUMBERS))
JSON = Base("json", (), tuple(Piece(json_text(number), "sound", typed_row(number)) for number in NUMBERS))
