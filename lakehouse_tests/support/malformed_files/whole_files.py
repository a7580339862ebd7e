"""Files damaged as a whole: the header, the encoding, the compression. Such a file is held, or is read as if undamaged."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from lakehouse_tests.support.malformed_files.pieces import COLUMNS, CSV, HEADER, JSON, Malformation, Piece, joined

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakehouse_tests.support.malformed_files.pieces import Base

BOM = "\ufeff".encode()
HELD_HEADERS = {
    "capitals": HEADER.text.upper(),
    "semicolons": HEADER.text.replace(b",", b";"),
    "spaces behind commas": HEADER.text.replace(b",", b", "),
    "space before": b" " + HEADER.text,
    "comment sign": b"#" + HEADER.text,
    "second byte order mark": BOM * 2 + HEADER.text,
    "unclosed quote": b'"' + HEADER.text,
    "text behind a quote": HEADER.text.replace(b"op", b'"op"x'),
    "0xff": HEADER.text + b"\xff",
    "latin-1": HEADER.text + ",caf\u00e9".encode("latin-1"),
    "carriage return": HEADER.text.replace(b",op", b"\r,op"),
    "NUL": HEADER.text.replace(b"op", b"o\0p"),
    "cyrillic o": HEADER.text.replace(b"op,", "\u043ep,".encode()),
    "line end": HEADER.text.replace(b",op", b"\n,op"),
    "name over two columns": HEADER.text.replace(b"event_time", b"event,time"),
    "names of other columns": b"a,b,c,d,e,f,g",
    "numbers": b"1,2,3,4,5,6,7",
    "JSON": b'["id","amount"]',
    "twice on a line": HEADER.text + b"," + HEADER.text,
    "only a space": b" ",
    "only commas": b",,,,,,",
    "title above": b"Events of January\n" + HEADER.text,
    "page of an error": b"<html><body>503 Service Unavailable</body></html>",
}


def malformations() -> Iterator[Malformation]:
    """All of this module's."""
    yield from _headers()
    for base in (CSV, JSON):
        yield from _encodings(base)
        yield from _compressed(base)


def _headers() -> Iterator[Malformation]:
    body = joined(CSV.records)
    for name, header in HELD_HEADERS.items():
        yield CSV.transformed(f"header: {name}", header + b"\n" + body)
    for name in COLUMNS:
        others = [column for column in COLUMNS if column != name]
        shorter = ",".join(others).encode() + b"\n"
        if name != "seq":
            yield CSV.transformed(f"header without {name}", shorter + body)
            yield CSV.transformed(f"header with {name} renamed", HEADER.text.replace(name.encode(), b"x") + b"\n" + body)
        if name != "seq":
            yield CSV.transformed(f"header with {name} twice", HEADER.text + f",{name}\n".encode() + body)
    yield CSV.transformed("no header", body)
    yield CSV.transformed("header at the end", body + HEADER.text + b"\n")
    # The contract does not read the last column: this header will do, but no record fits it.
    for name, text in {
        "one column short": HEADER.text.removesuffix(b",seq"),
        "one column long": HEADER.text + b",x",
        "one column without a name": HEADER.text + b",",
        "two columns without names": HEADER.text + b",,",
        "seq twice": HEADER.text + b",seq",
    }.items():
        misfits = (replace(record, fate="malformed", expected_row=None) for record in CSV.records)
        yield CSV.of(f"header: {name}", (replace(HEADER, text=text), *misfits))
    for name, text in {"in quotes": b",".join(b'"%s"' % column.encode() for column in COLUMNS)}.items():
        yield CSV.of(f"header: {name}", (replace(HEADER, text=text), *CSV.records))
    for name, content in {
        "only the header": HEADER.text,
        "only line ends": b"\n\r\n\n",
        "nothing": b"",
        "only a mark": BOM,
    }.items():
        yield CSV.of(name, (Piece(content, "none", end=b""),))
    for length in (1, 5, 20, len(HEADER.text) - len("rects,seq")):
        yield CSV.transformed(f"cut off in the header at {length}", HEADER.text[:length])


def _encodings(base: Base) -> Iterator[Malformation]:
    text = base.whole.decode()
    for name in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "cp037"):
        yield _unreadable(base, f"in {name}", text.encode(name))
    yield base.transformed("byte order mark", BOM + base.whole, readable=True)
    yield base.transformed("byte order mark in gzip", gzip.compress(BOM + base.whole, mtime=0), readable=True)
    if base is CSV:
        yield base.transformed("CR as line end", base.whole.replace(b"\n", b"\r"))
        yield base.transformed("next line as line end", text.replace("\n", "\x85").encode())
        yield base.transformed("no line ends", base.whole.replace(b"\n", b""))


def _compressed(base: Base) -> Iterator[Malformation]:
    whole = gzip.compress(base.whole, mtime=0)
    half = len(base.whole) // 2
    members = gzip.compress(base.whole[:half], mtime=0) + gzip.compress(base.whole[half:], mtime=0)
    for name, content in {
        "gzip": whole,
        "gzip of two members": members,
        "gzip of an unwritten end": gzip.compress(base.whole + b"\n\n", mtime=0),
        "gzip with zeros behind": whole + bytes(512),
        "gzip of another time": whole[:4] + b"\xff\xff\xff\xff" + whole[8:],
        "gzip of another system": whole[:8] + b"\x02\x07" + whole[10:],
    }.items():
        yield base.transformed(name, content, readable=True)
    for length in (2, 3, 9, 10, 11, 30, len(whole) // 2, len(whole) - 9, len(whole) - 8, len(whole) - 4, len(whole) - 1):
        yield base.transformed(f"gzip cut off at {length}", whole[:length])
    for name, content in {
        "gzip with text behind": whole + b"key-7,1\n",
        "gzip with the file behind": whole + base.whole,
        "gzip with a cut member behind": whole + whole[:20],
        "gzip with another checksum": whole[:-8] + b"\0\0\0\0" + whole[-4:],
        "gzip with another length": whole[:-4] + b"\0\0\0\1",
        "gzip of another method": whole[:2] + b"\7" + whole[3:],
        "gzip with half of a header": whole[:3] + b"\x08" + whole[4:],
    }.items():
        yield base.transformed(name, content)
    random = Random(f"gzip {base.format}")
    for turn in range(12):
        at = random.randrange(12, len(whole) - 8)
        yield base.transformed(f"gzip with byte {at} another ({turn})", whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    yield _unreadable(base, "gzip in gzip", gzip.compress(whole, mtime=0), whole)
    for name, content in {
        "gzip of another magic": b"\x1f\x8c" + whole[2:],
        "first byte of gzip lost": whole[1:],
        "deflate without gzip": zlib.compress(base.whole),
        "byte order mark before gzip": BOM + whole,
        "gzip read as latin-1": whole.decode("latin-1").encode(),
        "one byte of gzip": whole[:1],
    }.items():
        yield _unreadable(base, name, content)


def _unreadable(base: Base, name: str, content: bytes, read: bytes | None = None) -> Malformation:
    """Bytes that are no text of this format: without a header, each line is on its own.

    :param read: the bytes that are read, where they are others than those of the file.
    """
    if base.format == "csv":
        return base.transformed(name, content)
    piece = Piece((read or content).removeprefix(BOM), "broken", end=b"")
    return Malformation(f"{base.format}: {name}", base.format, content, (piece,))
