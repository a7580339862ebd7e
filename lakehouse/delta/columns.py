"""The columns of the tables that a contract describes, as Spark DDL and as Arrow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lakehouse.contracts.changes.dimension import OF_A_CHANGE
from lakehouse.contracts.inputs.kafka import OF_A_MESSAGE

if TYPE_CHECKING:
    from lakehouse.contracts.source import SourceContract

#: The origin of a row and the operation that it carried; rows that differ only here have the same content (rule R6).
PROVENANCE = (
    ("arrival_ts", "timestamp"),
    ("arrival_date", "date"),
    ("source_file", "string"),
    ("ingestion_id", "string"),
    ("line_number", "bigint"),
    ("source_sequence", "bigint"),
    ("source_order", "string"),
    ("change_op", "string"),
    ("is_correction", "boolean"),
    ("corrects_key", "string"),
    ("corrected_by", "string"),
    ("correction_reason", "string"),
    ("corrected_field", "string"),
)
_AS_READ = (("raw_payload", "string"), ("malformed_reason", "string"))
#: The total order of R2, most significant first: never the order of ingestion. Text is compared by its UTF-8 bytes; a row
#: without ``source_order`` (see ``bronze.envelopes.source_order``) comes before those with one. ``ordered_at`` and ``delivery``
#: are of ``dispositions.deliveries``.
ORDER = ("source_sequence", "source_order", "ordered_at", "delivery", "line_number")

_ARROW = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
}

Columns = tuple[tuple[str, str], ...]


def content_columns(contract: SourceContract) -> Columns:
    """The content of a silver row, as (name, Spark type); for a dimension, the content of a change."""
    typed = tuple((field.name, field.type) for field in contract.typed_fields)
    of_kind = OF_A_CHANGE if contract.is_dimension else ()
    clocks = (("event_ts", "timestamp"), ("event_date", "date"))
    return (("record_key", "string"), *typed, *of_kind, *clocks, ("source_system", "string"))


def silver_columns(contract: SourceContract) -> Columns:
    """The content of a silver row and its provenance."""
    return (*content_columns(contract), *PROVENANCE)


def bronze_columns(contract: SourceContract) -> Columns:
    """The columns of a silver row, the record as it was read, and the reason if it is malformed; for a message also its place in
    the topic.
    """
    return (*silver_columns(contract), *_AS_READ, *(OF_A_MESSAGE if contract.source.kafka else ()))


def ddl(columns: Columns) -> str:
    """The columns as Spark's DDL."""
    return ", ".join(f"`{name}` {kind}" for name, kind in columns)


def arrow_schema(columns: Columns) -> pa.Schema:
    """The columns as an Arrow schema."""
    return pa.schema([(name, arrow_type(kind)) for name, kind in columns])


def arrow_type(kind: str) -> pa.DataType:
    if kind.startswith("decimal"):
        precision, scale = (int(part) for part in kind.removeprefix("decimal(").rstrip(")").split(","))
        return pa.decimal128(precision, scale)
    return _ARROW[kind]


def is_number(kind: pa.DataType) -> bool:
    """Whether the values of a type are numbers; truth values are not."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
