"""Messages in memory, as a reader of a topic hands them over, and their rows; no broker is needed."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pyarrow as pa

from lakehouse.delta.columns import arrow_schema, bronze_columns
from lakehouse.streams import message_rows
from lakehouse.streams.client import MessageColumns
from lakehouse.streams.reading_plan import PartitionLog

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehouse.contracts.source import SourceContract

LOG = PartitionLog("t", "AAAA", 1)
NOW = datetime(2024, 3, 1, tzinfo=timezone.utc)


def columns(values: Sequence[bytes | None], milliseconds: Sequence[int | None], begin: int = 5) -> MessageColumns:
    """Messages with these values and timestamps, at offsets from ``begin`` on."""
    offsets = list(range(begin, begin + len(values)))
    keys = [f"{offset}".encode() for offset in offsets]
    return MessageColumns(begin + len(values), offsets, list(milliseconds), [*keys], list(values), [None] * len(values))


def rows(source: SourceContract, messages: MessageColumns, begin: int = 5) -> pa.Table:
    """Their rows of Bronze, by offset."""
    delivered = message_rows.deliveries(source, "cluster", LOG, begin, messages, NOW)
    batches = [batch for each in delivered for batch in message_rows.rows_of_messages(source, each, messages)]
    return pa.Table.from_batches(batches, arrow_schema(bronze_columns(source))).sort_by("kafka_offset")
