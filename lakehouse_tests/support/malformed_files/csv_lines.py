"""Lines of CSV damaged in the ways of editors, exports and transfers: quotes, cells, bytes, line ends, cuts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lakehouse_tests.support.malformed_files.pieces import (
    COLUMNS,
    CSV,
    HEADER,
    NUMBERS,
    TWO_LINES,
    Piece,
    csv_cells,
    full_cells,
    inside,
    typed_row,
    with_cell,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakehouse_tests.support.malformed_files.pieces import Fate, Malformation

BYTES = {
    "0xff": b"\xff",
    "half of a letter": b"\xc3",
    "latin-1": "\u00e9".encode("latin-1"),
    "surrogate": b"\xed\xa0\x80",
    "overlong slash": b"\xc0\xaf",
    "beyond Unicode": b"\xf5\x80\x80\x80",
    "lone continuation": b"\x80",
    "half of a pair in UTF-16": b"\xd8\x3d\xde",
    "NUL": b"\0",
    "NULs": b"\0\0\0\0",
}
CONTROLS = {
    "bell": "\x07",
    "backspace": "\x08",
    "substitute": "\x1a",
    "escape": "\x1b[31m",
    "delete": "\x7f",
    "vertical tab": "\x0b",
    "form feed": "\x0c",
    "file separator": "\x1c",
    "next line": "\x85",
    "line separator": "\u2028",
    "byte order mark": "\ufeff",
    "replacement": "\ufffd",
    "non-character": "\uffff",
    "tab": "\t",
    "semicolon": ";",
}
BLANKS = {"empty": b"", "carriage return": b"\r", "carriage returns": b"\r\r"}
NO_RECORDS = {
    "space": b" ",
    "tabs": b"\t\t",
    "vertical tab": b"\x0b",
    "no-break space": "\u00a0".encode(),
    "commas": b",,,,,,",
    "comma": b",",
    "quotes": b'""',
    "NUL": b"\0",
    "byte order mark": "\ufeff".encode(),
    "comment": b"# end of part 1",
    "header": HEADER.text,
    "header behind a byte order mark": "\ufeff".encode() + HEADER.text,
    "header in quotes": b",".join(b'"%s"' % name.encode() for name in COLUMNS),
    "footer": b"6 rows",
    "conflict": b"<<<<<<< HEAD",
    "empty JSON": b"{}",
}


def malformations() -> Iterator[Malformation]:
    """All of this module's."""
    for operator in (_quotes, _cells, _delimiters, _bytes, _controls, _line_ends, _between, _cuts, _glued):
        yield from operator()


def _quotes() -> Iterator[Malformation]:
    for number in NUMBERS:
        for column, cell in zip(COLUMNS, csv_cells(number)):
            # The next quote is the third record's own, with text behind it: what was opened is not closed there.
            line = with_cell(number, column, b'"' + cell)
            yield CSV.replaced(f"unclosed quote in {column} of {number}", number, Piece(line, _of_lines(number, "malformed")))
    for number, column, cell in full_cells():
        closed = with_cell(number, column, b'"' + cell + b'"x')
        yield CSV.replaced(
            f"text behind the quote in {column} of {number}", number, Piece(closed, _of_lines(number, "malformed"))
        )
        stray = with_cell(number, column, inside(cell, b'"'))
        fate: Fate = "open" if column in {"id", "corrects", "seq"} else "malformed"
        yield CSV.replaced(f"stray quote in {column} of {number}", number, Piece(stray, fate))
    text = csv_cells(TWO_LINES)[-1]
    for name, other in {
        "closing quote lost": text[:-1],
        "opening quote lost": text[1:],
        "one of two quotes lost": text.replace(b'""', b'"', 1),
        "quote behind the line end": text.replace(b"\n", b'\n"'),
        "quote inside of the second line": text.replace(b"a line", b'a "line" of'),
    }.items():
        yield CSV.replaced(name, TWO_LINES, Piece(with_cell(TWO_LINES, "seq", other), "broken"))
    first, second = text.split(b"\n")
    closed = Piece(with_cell(TWO_LINES, "seq", first + b'"'), "sound", typed_row(TWO_LINES))
    yield CSV.replaced("quote before the line end", TWO_LINES, closed, Piece(second, "malformed"))
    # The second line looks like a record of its own; that a quote is astray in it tells that it is none.
    likely = b"and a,1,2024-01-05,2024-02-01T00:00:00Z,insert,,0"
    for name, other in {
        "in the first": b'"two, "quoted" words\n' + likely + b'"',
        "in the second": b'"two, ""quoted"" words\n' + likely + b'" ',
        "in both": b'"two, "quoted" words\n' + likely + b'"" ',
    }.items():
        text = with_cell(TWO_LINES, "seq", other)
        yield CSV.replaced(f"second line like a record, a stray quote {name}", TWO_LINES, Piece(text, "broken"))


def _cells() -> Iterator[Malformation]:
    for number in NUMBERS:
        line = csv_cells(number)
        for kept in range(1, 7):
            yield CSV.replaced(f"first {kept} cells of {number}", number, Piece(b",".join(line[:kept]), "malformed"))
        for lost in range(6):
            rest = b",".join(line[:lost] + line[lost + 1 :])
            yield CSV.replaced(f"record {number} without {COLUMNS[lost]}", number, Piece(rest, "malformed"))
        for at in (0, 3, 7):
            for name, more in {"empty": b"", "x": b"x", "quoted": b'",,"'}.items():
                longer = b",".join([*line[:at], more, *line[at:]])
                yield CSV.replaced(f"extra cell {name} at {at} of {number}", number, Piece(longer, "malformed"))


def _delimiters() -> Iterator[Malformation]:
    for name, delimiter in {"semicolon": b";", "tab": b"\t", "bar": b"|", "fullwidth comma": "\uff0c".encode()}.items():
        for number in NUMBERS:
            line = delimiter.join(csv_cells(number))
            yield CSV.replaced(f"{name} as delimiter in {number}", number, Piece(line, _of_lines(number, "malformed")))


def _bytes() -> Iterator[Malformation]:
    for turn, (name, what) in enumerate(BYTES.items()):
        for column in COLUMNS:
            number = NUMBERS[turn % 6]
            cell = csv_cells(number)[COLUMNS.index(column)]
            piece = Piece(with_cell(number, column, inside(cell, what)), "malformed")
            yield CSV.replaced(f"{name} in {column} of {number}", number, piece)


def _controls() -> Iterator[Malformation]:
    for turn, (name, control) in enumerate(CONTROLS.items()):
        number = (1, 2, 3, 5, 6)[turn % 5]
        line = dict(zip(COLUMNS, csv_cells(number)))
        for column in ("amount", "event_time", "arrived_at", "op"):
            piece = Piece(with_cell(number, column, inside(line[column], control.encode())), "malformed")
            yield CSV.replaced(f"{name} in {column} of {number}", number, piece)
        for place, key in {"inside": inside(line["id"], control.encode()), "before": control.encode() + line["id"]}.items():
            # A text is what it is, to the last character: here is no reader that knows better.
            piece = Piece(with_cell(number, "id", key), "sound", typed_row(number, id=key.decode()))
            yield CSV.replaced(f"{name} {place} of the id of {number}", number, piece)


def _line_ends() -> Iterator[Malformation]:
    for number, column, cell in full_cells():
        fate: Fate = "open" if column in {"id", "seq"} else "broken"
        piece = Piece(with_cell(number, column, inside(cell, b"\n")), fate)
        yield CSV.replaced(f"line end in {column} of {number}", number, piece)
        piece = Piece(with_cell(number, column, b"\r" + cell), _of_lines(number, "malformed"))
        yield CSV.replaced(f"carriage return in {column} of {number}", number, piece)
    for name, end in {"CRLF": b"\r\n", "CR CR LF": b"\r\r\n"}.items():
        everywhere = tuple(replace(piece, end=end) for piece in CSV.head + CSV.records)
        yield CSV.of(f"{name} everywhere", everywhere)
        for behind in range(7):
            mixed = tuple(replace(piece, end=end) if at == behind else piece for at, piece in enumerate(CSV.head + CSV.records))
            yield CSV.of(f"{name} behind {behind}", mixed)
    yield CSV.of("no line end at the end", (*CSV.head, *CSV.records[:-1], replace(CSV.records[-1], end=b"")))
    turned = (replace(piece, text=b"\r" + piece.text, fate=_of_lines(at, "malformed")) for at, piece in _numbered())
    yield CSV.of("LF CR everywhere", (*CSV.head, *turned, Piece(b"\r", "none", end=b"")))


def _numbered() -> Iterator[tuple[int, Piece]]:
    yield from zip(NUMBERS, CSV.records)


def _between() -> Iterator[Malformation]:
    for behind in range(7):
        for name, text in BLANKS.items():
            yield CSV.inserted(f"blank line ({name}) behind {behind}", behind, *[Piece(text, "none")] * 2)
        for name, text in NO_RECORDS.items():
            yield CSV.inserted(f"line of {name} behind {behind}", behind, Piece(text, "malformed"))
    yield CSV.of("blank lines before the header", (Piece(b"", "none"), Piece(b"\r", "none"), *CSV.head, *CSV.records))
    for number, record in _numbered():
        for times in (2, 3):
            yield CSV.replaced(f"record {number} comes {times} times", number, *[record] * times)


def _cuts() -> Iterator[Malformation]:
    for number, record in _numbered():
        for eighth in range(1, 8):
            at = len(record.text) * eighth // 8
            for name, rest in {"end": record.text[:at], "begin": record.text[at:]}.items():
                piece = Piece(rest, "open" if rest.count(b",") >= 6 else "broken")
                yield CSV.replaced(f"{name} of {number} cut off at {eighth}/8", number, piece)
                if name == "end":
                    yield CSV.replaced(f"file cut off in {number} at {eighth}/8", number, replace(piece, end=b""), until=6)


def _glued() -> Iterator[Malformation]:
    # Where the two lines come first, their closing quote is in the way: what follows it belongs to a broken record.
    for name, glue in {"": b"", " by a space": b" ", " by a comma": b",", " by a tab": b"\t", " by CR": b"\r"}.items():
        for number in NUMBERS[:-1]:
            both = CSV.records[number - 1].text + glue + CSV.records[number].text
            piece = Piece(both, "broken" if TWO_LINES in {number, number + 1} else "malformed")
            yield CSV.replaced(f"records {number} and {number + 1} glued{name}", number, piece, until=number + 1)
        for number in NUMBERS[:-2]:
            three = glue.join(record.text for record in CSV.records[number - 1 : number + 2])
            piece = Piece(three, "broken" if number <= TWO_LINES else "malformed")
            yield CSV.replaced(f"records {number} to {number + 2} glued{name}", number, piece, until=number + 2)


def _of_lines(number: int, fate: Fate) -> Fate:
    """The fate of a damaged record; where its two lines fall apart, each is a row."""
    return "broken" if number == TWO_LINES else fate
