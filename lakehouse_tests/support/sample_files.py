"""Sample files for the tests of what is inferred, as they are written in CSV."""

from __future__ import annotations

from lakehouse.project.questions import Sample


def lines(columns: str, *rows: str) -> Sample:
    """A file of a header and its records; a blank is no value."""
    names = columns.split(",")
    return Sample("a.csv", names, [dict(zip(names, (cell or None for cell in row.split(",")), strict=True)) for row in rows])
