"""Recognizes binary formats that the product does not read by their first bytes, each with a sentence on its conversion."""

from __future__ import annotations

import re

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
#: Bytes that text does not have. A header may begin with the letters of a format, such as ORCID.
_OF_NO_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1f\x80-\xff]")


def of_magic(content: bytes) -> str | None:
    """The sentence about a file that begins with ``content``; None if no format is recognized."""
    if content[:4] == b"PK\x03\x04":
        if b"xl/" in content or b"[Content_Types].xml" in content[:2000]:
            return "is an Excel workbook; save the sheet as CSV in UTF-8"
        return "is a zip archive; unpack it and give the files in it (a file may be compressed with gzip)"
    found = next((magic for magic in _MAGIC if content.startswith(magic)), None)
    return _MAGIC[found] if found and not (found.isalnum() and not _OF_NO_TEXT.search(content)) else None
