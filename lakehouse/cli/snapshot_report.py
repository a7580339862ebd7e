"""The comparison of two snapshots as a table for people and as JSON for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lakehouse.cli.console import data_table, number_column, out
from lakehouse.text import json_value

if TYPE_CHECKING:
    from lakehouse.snapshots.comparison import RowsComparison


def print_comparison(compared: RowsComparison, before: str, after: str) -> None:
    """Print the content of two snapshots line by line, and the number of differing keys."""
    lines: list[tuple[str, Any, Any]] = [("rows", *compared.rows), ("keys", *compared.keys)]
    for field in compared.fields:
        if field.filled[0] != field.filled[1] or field.total is None:
            lines.append((f"{field.name}, rows with a value", *field.filled))
        if field.total is not None:
            lines.append((f"{field.name}, total", *field.total))
    table = data_table()
    table.add_column("")
    for heading, values in ((before, [line[1] for line in lines]), (after, [line[2] for line in lines])):
        number_column(table, heading, map(_shown, values))
    number_column(table, "difference", (_difference(line[1], line[2]) for line in lines))
    for name, *sides in lines:
        table.add_row(name, *map(_shown, sides), _difference(*sides))
    out.print(table)
    if compared.equal:
        out.print("Both have the same content.")
        return
    only = f"{compared.only_before:,} keys only in {before}, {compared.only_after:,} only in {after}"
    out.print(f"{only}, {compared.changed:,} with other content.", soft_wrap=True, highlight=False)


def as_json_text(compared: RowsComparison) -> str:
    """The comparison as one JSON object: pairs of values, before and after."""
    fields = {
        field.name: {"filled": list(field.filled), "total": None if field.total is None else list(map(json_value, field.total))}
        for field in compared.fields
    }
    names = ("rows", "keys", "only_before", "only_after", "changed", "equal")
    return json.dumps({name: getattr(compared, name) for name in names} | {"fields": fields})


def _shown(value: Any) -> str:
    return "none" if value is None else f"{value:,}"


def _difference(before: Any, after: Any) -> str:
    if before == after:
        return ""
    return "" if before is None or after is None else f"{after - before:+,}"
