"""Markdown with escaped texts and with tables aligned to their cells.

The content of a document belongs to the reports.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lakehouse.reports.formatting import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Characters with a meaning everywhere; ``_`` has one only next to a space; ``://`` and ``www.`` would become links.
_MEANING = re.compile(r"[\\`*{}\[\]<>#|!~&$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|:(?=//)|(?<=www)\.", re.IGNORECASE)


def escape(text: object) -> str:
    """Text on one line, with Markdown's characters escaped."""
    return _MEANING.sub(lambda sign: "\\" + sign.group(), plain(text))


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = ()) -> list[str]:
    """A table, aligned so that it is also readable as text.

    :param rows: the cells, not yet escaped.
    :param right: the headings of numeric columns.
    """
    lines = [[escape(cell) for cell in row] for row in (heads, *rows)]
    widths = [max(3, *(len(line[at]) for line in lines)) for at in range(len(heads))]
    numeric = [head in right for head in heads]
    shown = [
        " | ".join(cell.rjust(width) if right else cell.ljust(width) for cell, width, right in zip(line, widths, numeric))
        for line in lines
    ]
    rule = " | ".join("-" * (width - 1) + ":" if right else "-" * width for width, right in zip(widths, numeric))
    return [f"| {line} |" for line in (shown[0], rule, *shown[1:])] + [""]
