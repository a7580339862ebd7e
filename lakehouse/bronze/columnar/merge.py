"""Joins the rows of a block, those built by columns and those that the exact parser has to judge, in file order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lakehouse.bronze.columnar.rows import RowBuilder
from lakehouse.bronze.columnar.text_lines import flags
from lakehouse.bronze.row_parser import RowParser
from lakehouse.delta.columns import arrow_schema, bronze_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lakehouse.bronze.columnar.text_lines import Block
    from lakehouse.contracts.source import SourceContract
    from lakehouse.ledger.row_ids import DeliveredFile


def rows_of_blocks(contract: SourceContract, delivery: DeliveredFile, blocks: Iterable[Block]) -> Iterator[pa.RecordBatch]:
    """The rows of each block that has any, as one batch of ``bronze_columns``."""
    schema = arrow_schema(bronze_columns(contract))
    builder, parser = RowBuilder(contract, delivery), RowParser(contract, delivery)
    for block in blocks:
        rows, certain = builder.rows(block.texts, block.line_numbers, block.raw, block.received_at)
        doubtful = np.flatnonzero(~flags(certain))
        records = [*block.exact, *(block.exactly(int(row)) for row in doubtful)]
        if records:
            exact = pa.RecordBatch.from_pylist([parser.row(record) for record in records], schema=schema)
            both = pa.Table.from_batches([rows.filter(certain), exact])
            order = np.argsort(both["line_number"].to_numpy(), kind="stable")
            rows = both.take(pa.array(order)).combine_chunks().to_batches()[0]
        if len(rows):
            yield rows
