"""Lines of JSON damaged in the ways of printers, templates and other dialects."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lakehouse_tests.support.malformed_files.csv_lines import BYTES, CONTROLS
from lakehouse_tests.support.malformed_files.pieces import COLUMNS, CSV, JSON, NUMBERS, Piece, cells, inside, json_text, typed_row
from lakehouse_tests.support.malformed_files.values import NEVER_CHANGED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakehouse_tests.support.malformed_files.pieces import Malformation

NO_OBJECTS = {
    "null": b"null",
    "true": b"true",
    "number": b"17",
    "fraction": b"-1.5e3",
    "text": b'"key-1"',
    "empty list": b"[]",
    "empty object": b"{}",
    "list of values": json.dumps(list(cells(1).values())).encode(),
    "list of the record": b"[" + json_text(1) + b"]",
    "record within": b'{"record": ' + json_text(1) + b"}",
    "text of the record": json.dumps(json_text(1).decode()).encode(),
    "opening brace": b"{",
    "closing brace": b"}",
    "opening bracket": b"[",
    "comma": b",",
    "line of CSV": CSV.records[0].text,
    "header of CSV": CSV.head[0].text,
    "comment": b"// the next part",
    "vertical tab": b"\x0b",
    "form feed": b"\x0c",
    "no-break space": "\u00a0".encode(),
    "byte order mark": "\ufeff".encode(),
    "NUL": b"\0",
    "0xff": b"\xff",
    "bare word": b"undefined",
    "html": b"<html>",
    "many brackets": b"[" * 100_000,
    "many braces": b'{"a":' * 50_000,
    "many digits": b"9" * 100_000,
}
BLANKS = {"empty": b"", "spaces": b"  ", "tab": b" \t ", "carriage return": b"\r"}
#: Bare words in the place of a value, where no column could hold what they mean. NaN and Infinity, which Python writes so, are
#: values: ``bronze/test_formats_agree``.
BARE = {
    "nan": b"nan",
    "None": b"None",
    "True": b"True",
    "undefined": b"undefined",
    "nothing": b"",
    "leading zero": b"011",
    "plus": b"+11",
    "no digit before the point": b".5",
    "no digit behind the point": b"11.",
    "hexadecimal": b"0x1F",
    "underscore": b"1_000",
    "thousands": b"1,000",
    "single quotes": b"'11'",
    "unclosed quote": b'"11',
    "fullwidth digits": "\uff11\uff11".encode(),
    "unknown escape": b'"\\x41"',
    "short escape": b'"\\u12"',
    "lone surrogate": b'"\\ud800"',
    "surrogates the wrong way": b'"\\udc00\\ud800"',
    "5000 digits": b"9" * 5_000,
    "5000 decimals": b"0." + b"9" * 5_000,
    "exponent beyond all": b"1e99999999999999999999",
    "deep list": b"[" * 200 + b"]" * 200,
    "deep object": b'{"a":' * 200 + b"1" + b"}" * 200,
    "very deep list": b"[" * 100_000 + b"]" * 100_000,
    "open list": b"[1, 2",
    "call": b"Date(1706702400000)",
    "template": b"{{ value }}",
    "duplicate within": b'{"a": 1, "a": 2}',
}
#: Values of JSON that an integer, a time or a word is not.
OTHER_TYPES: dict[str, Any] = {
    "true": True,
    "list": [11],
    "object": {"value": 11},
    "fraction": 11.5,
    "list of nothing": [],
    "object of nothing": {},
    "time in milliseconds": 1705924800000,
    "large": 10**400,
}


def malformations() -> Iterator[Malformation]:
    """All of this module's."""
    for operator in (_between, _values, _names, _dialects, _bytes, _cuts, _glued, _layouts):
        yield from operator()


def _between() -> Iterator[Malformation]:
    for turn, (name, text) in enumerate(NO_OBJECTS.items()):
        place = 1 + turn % 6  # a byte order mark before the first record would be in order
        yield JSON.inserted(f"line of {name} behind {place}", place, Piece(text, "malformed"))
        number = 2 + turn % 5
        yield JSON.replaced(f"{name} in the place of {number}", number, Piece(text, "malformed"))
    for place in range(7):
        for name, text in BLANKS.items():
            yield JSON.inserted(f"blank line ({name}) behind {place}", place, Piece(text, "none"))
    for number in NUMBERS:
        yield JSON.replaced(f"record {number} comes twice", number, *[JSON.records[number - 1]] * 2)


def _values() -> Iterator[Malformation]:
    for turn, (name, bare) in enumerate(BARE.items()):
        for column in ("id", "amount", "seq"):  # also in one that no column is made of: the line is no JSON
            number = NUMBERS[turn % 6]
            text = json_text(number, **{column: "@"}).replace(b'"@"', bare)
            yield JSON.replaced(f"{name} as {column} of {number}", number, Piece(text, "malformed"))
    for turn, (name, value) in enumerate(OTHER_TYPES.items()):
        for column in ("amount", "event_time", "arrived_at", "op"):
            number = NUMBERS[turn % 6]
            piece = Piece(json_text(number, **{column: value}), "malformed")
            yield JSON.replaced(f"{name} as {column} of {number}", number, piece)
        yield JSON.replaced(f"{name} as id of 2", 2, Piece(json_text(2, id=value), "open"))
    empty: dict[str, dict[str, Any] | None] = {
        "id": None,
        "event_time": None,
        "amount": {"amount": None},
        "arrived_at": NEVER_CHANGED,
        "op": {"change_op": "insert"},
        "corrects": {},
        "seq": {},
    }
    for column, changes in empty.items():
        fate, row = ("malformed", None) if changes is None else ("sound", typed_row(2, **changes))
        yield JSON.replaced(f"null as {column}", 2, Piece(json_text(2, **{column: None}), fate, row))
        without = {name: value for name, value in cells(2).items() if name != column}
        yield JSON.replaced(f"record without {column}", 2, Piece(json.dumps(without).encode(), fate, row))
    more = typed_row(6, id="7")
    yield JSON.replaced("number as id", 6, Piece(json_text(6, id=7), "sound", more))
    yield JSON.replaced("another column", 6, Piece(json_text(6, other={"a": [1, None]}), "sound", typed_row(6)))


def _names() -> Iterator[Malformation]:
    for turn, column in enumerate(COLUMNS):
        number = NUMBERS[turn % 6]
        text = json_text(number)
        name = f'"{column}"'.encode()
        for title, twice in {
            "again": text[:-1] + b", " + name + b": null}",
            "first": b"{" + name + b': "x", ' + text[1:],
        }.items():
            yield JSON.replaced(f"{column} named {title} in {number}", number, Piece(twice, "malformed"))
        for title, other in {"without quotes": column.encode(), "in single quotes": f"'{column}'".encode()}.items():
            yield JSON.replaced(f"name {column} {title}", number, Piece(text.replace(name, other, 1), "malformed"))
    for title, other in {
        "capitals": b'"ID"',
        "space": b'"id "',
        "surrogate": b'"\\ud800"',
        "cyrillic": '"\u0456d"'.encode(),
    }.items():
        yield JSON.replaced(f"name of the key: {title}", 1, Piece(JSON.records[0].text.replace(b'"id"', other), "malformed"))


def _dialects() -> Iterator[Malformation]:
    for number in NUMBERS:
        text = JSON.records[number - 1].text
        for name, other in {
            "trailing comma": text[:-1] + b",}",
            "comma behind": text + b",",
            "two commas": text.replace(b", ", b",, ", 1),
            "no commas": text.replace(b", ", b" ", 3),
            "no colons": text.replace(b": ", b" ", 3),
            "equals signs": text.replace(b": ", b" = "),
            "semicolons": text.replace(b", ", b"; "),
            "semicolon behind": text + b";",
            "single quotes": text.replace(b'"', b"'"),
            "curly quotes": text.replace(b'"', "\u201c".encode(), 2),
            "escaped quotes": text.replace(b'"', b'\\"'),
            "comment behind": text + b" // checked",
            "comment within": text[:-1] + b" /* checked */}",
            "two braces": b"{" + text + b"}",
            "no braces": text[1:-1],
            "brace lost": text[:-1],
            "brace of another kind": text[:-1] + b"]",
            "parentheses": b"(" + text + b")",
            "function": b"callback(" + text + b")",
            "line number before": b"%d " % number + text,
            "record separator": b"\x1e" + text,
            "no-break space": text.replace(b": ", ": ".replace(" ", "\u00a0").encode(), 1),
        }.items():
            yield JSON.replaced(f"{name} in {number}", number, Piece(other, "malformed"))


def _bytes() -> Iterator[Malformation]:
    for turn, (name, odd_bytes) in enumerate(BYTES.items()):
        number = NUMBERS[turn % 6]
        text = JSON.records[number - 1].text
        for place, other in {
            "inside": text.replace(b"key-", b"key" + odd_bytes + b"-"),
            "before": odd_bytes + text,
            "behind": text + odd_bytes,
        }.items():
            yield JSON.replaced(f"{name} {place} of {number}", number, Piece(other, "malformed"))
    for turn, (name, control) in enumerate(CONTROLS.items()):
        number = 2 + turn % 5
        key = inside(cells(number)["id"].encode(), control.encode())
        text = JSON.records[number - 1].text.replace(cells(number)["id"].encode(), key)
        allowed = control >= " " and control != "\x1b[31m"
        piece = Piece(text, "sound", typed_row(number, id=key.decode())) if allowed else Piece(text, "malformed")
        yield JSON.replaced(f"{name} in the id of {number}", number, piece)
        if control != "\t":
            yield JSON.replaced(
                f"{name} before {number}", number, Piece(control.encode() + JSON.records[number - 1].text, "malformed")
            )

    for name, escaped in {"NUL": b"\\u0000", "line end": b"\\n", "pair of surrogates": b"\\ud83d\\ude00"}.items():
        text = JSON.records[0].text.replace(b"key-", b"key-" + escaped)
        yield JSON.replaced(f"escaped {name} in the id of 1", 1, Piece(text, "open"))


def _cuts() -> Iterator[Malformation]:
    for number, record in zip(NUMBERS, JSON.records):
        for eighth in range(1, 8):
            at = len(record.text) * eighth // 8
            for name, rest in {"end": record.text[:at], "begin": record.text[at:]}.items():
                yield JSON.replaced(f"{name} of {number} cut off at {eighth}/8", number, Piece(rest, "malformed"))
                if name == "end":
                    cut = Piece(rest, "malformed", end=b"")
                    yield JSON.replaced(f"file cut off in {number} at {eighth}/8", number, cut, until=6)
            halves = Piece(record.text[:at] + b"\n" + record.text[at:], "broken")
            yield JSON.replaced(f"line end in {number} at {eighth}/8", number, halves)


def _glued() -> Iterator[Malformation]:
    for name, glue in {
        "nothing": b"",
        "space": b" ",
        "comma": b", ",
        "CR": b"\r",
        "tab": b"\t",
        "line separator": b"\xe2\x80\xa8",
    }.items():
        for number in NUMBERS[:-1]:
            both = JSON.records[number - 1].text + glue + JSON.records[number].text
            yield JSON.replaced(f"{number} and {number + 1} glued by {name}", number, Piece(both, "malformed"), until=number + 1)


def _layouts() -> Iterator[Malformation]:
    objects = [json.loads(record.text) for record in JSON.records]
    for name, text in {
        "one list": json.dumps(objects),
        "one list over lines": json.dumps(objects, indent=2),
        "objects over lines": "\n".join(json.dumps(item, indent=2) for item in objects),
        "columns": json.dumps({column: [item[column] for item in objects] for column in COLUMNS}),
        "one line": " ".join(json.dumps(item) for item in objects),
        "CR as line end": "\r".join(json.dumps(item) for item in objects),
        "YAML": "\n".join("- " + "\n  ".join(f"{name}: {value!r}" for name, value in item.items()) for item in objects),
    }.items():
        yield JSON.of(name, (Piece(text.encode(), "broken"),))
    listed = [replace(record, text=record.text + b",", fate="malformed", expected_row=None) for record in JSON.records[:-1]]
    brackets = Piece(b"[", "malformed"), Piece(b"]", "malformed")
    yield JSON.of("list with a record a line", (brackets[0], *listed, JSON.records[-1], brackets[1]))
    for name, end in {"CRLF": b"\r\n", "CR CR LF": b"\r\r\n"}.items():
        yield JSON.of(f"{name} everywhere", tuple(replace(record, end=end) for record in JSON.records))
    yield JSON.of("space at each end", tuple(replace(record, text=record.text + b" ") for record in JSON.records))
    yield JSON.of("LF CR everywhere", (*(replace(r, text=b"\r" + r.text) for r in JSON.records), Piece(b"\r", "none", end=b"")))
    yield JSON.of("no line end at the end", (*JSON.records[:-1], replace(JSON.records[-1], end=b"")))
    yield JSON.of("nothing", (Piece(b"", "none", end=b""),))
    yield JSON.of("only line ends", (Piece(b"\n\r\n \n", "none", end=b""),))
