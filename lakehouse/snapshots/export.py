"""Files of rows: Parquet, CSV, or a new Delta table, written piece by piece.

A file gets its name when it is complete. Which rows are written belongs to ``rows``.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from deltalake import write_deltalake

from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

ENDINGS = (".parquet", ".csv", ".delta")


class ExportError(LakehouseError):
    """A file that cannot be written. The message names alternatives."""


def check(path: Path) -> None:
    """Check that rows can be written to ``path``.

    :raises ExportError: for another ending, a name that is taken, or a folder that does not exist.
    """
    if path.suffix not in ENDINGS:
        msg = f"{path}: the name has to end in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]} (a Delta table)"
        raise ExportError(msg)
    if path.exists():
        msg = f"{path} exists, and is not overwritten: choose another name, or remove it first"
        raise ExportError(msg)
    if not path.parent.is_dir():
        msg = f"{path}: the folder {path.parent} does not exist; create it first"
        raise ExportError(msg)


def write(pieces: Iterable[pa.Table], path: Path) -> int:
    """Write rows to a new file or table, by the suffix of its name.

    :returns: the number of rows written.
    :raises ExportError: see :func:`check`.
    """
    check(path)
    in_order = iter(pieces)
    first = next(in_order, None)
    if first is None:
        return 0
    schema, counts = _plain(first.schema), list[int]()

    def counted() -> Iterable[pa.Table]:
        for piece in chain([first], in_order):
            counts.append(len(piece))
            yield piece.cast(schema)

    if path.suffix == ".delta":
        batches = (batch for piece in counted() for batch in piece.to_batches())
        write_deltalake(str(path), pa.RecordBatchReader.from_batches(schema, batches))
        return sum(counts)
    incomplete = path.with_name(f".{path.name}.incomplete")
    writer: Callable[..., Any] = pq.ParquetWriter if path.suffix == ".parquet" else pa_csv.CSVWriter
    try:
        with writer(incomplete, schema) as file:
            for piece in counted():
                file.write_table(piece)
        incomplete.rename(path)
    finally:
        incomplete.unlink(missing_ok=True)
    return sum(counts)


def _plain(schema: pa.Schema) -> pa.Schema:
    """The schema with NULL allowed everywhere and without the metadata of an engine."""
    return pa.schema([pa.field(item.name, item.type) for item in schema])
