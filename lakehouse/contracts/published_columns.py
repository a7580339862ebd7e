"""The columns of a published number, defined once: name, type, and origin of the value.

The reserved names of a metric contract, the Arrow schemas of published tables and of their candidates, and the rows that are
written to both are derived from these definitions. Grain and measures are not here: they come from the metric's contract.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class ColumnType(str, Enum):
    """The type of a stored column."""

    TEXT = "text"
    FLAG = "flag"
    NUMBER = "number"
    COUNT = "count"
    DAY = "day"
    TIME = "time"


class Origin(str, Enum):
    """The origin of a column's value.

    ``LINEAGE`` columns record the inputs of the number: they are kept when the same number is published again. ``CANDIDATE``
    columns are only in the table of candidates, which also has a part of the published columns.
    """

    REVISION = "revision"
    DRAFT = "draft"
    LINEAGE = "lineage"
    SIGNATURE = "signature"
    CANDIDATE = "candidate"


class Column(NamedTuple):
    """A column of a published table or of its candidates."""

    name: str
    type: ColumnType
    origin: Origin


#: The columns of a published row, in the order in which they are stored: the first ones have statistics in the table's log.
PUBLISHED = (
    Column("period", ColumnType.TEXT, Origin.REVISION),
    Column("revision", ColumnType.NUMBER, Origin.REVISION),
    Column("is_latest", ColumnType.FLAG, Origin.REVISION),
    Column("state", ColumnType.TEXT, Origin.REVISION),
    Column("due_on", ColumnType.DAY, Origin.REVISION),
    Column("reason", ColumnType.TEXT, Origin.REVISION),
    Column("published_at", ColumnType.TIME, Origin.REVISION),
    Column("superseded_at", ColumnType.TIME, Origin.REVISION),
    Column("restated_on", ColumnType.TIME, Origin.REVISION),
    Column("restatement_reason", ColumnType.TEXT, Origin.REVISION),
    Column("adjustment", ColumnType.NUMBER, Origin.REVISION),
    Column("booked_on", ColumnType.DAY, Origin.DRAFT),
    Column("version_name", ColumnType.TEXT, Origin.REVISION),
    Column("content", ColumnType.TEXT, Origin.DRAFT),
    Column("changed_rows", ColumnType.COUNT, Origin.DRAFT),
    Column("undecided_rows", ColumnType.COUNT, Origin.LINEAGE),
    Column("known_through", ColumnType.DAY, Origin.LINEAGE),
    Column("dataset_version", ColumnType.NUMBER, Origin.REVISION),
    Column("made_from", ColumnType.TEXT, Origin.LINEAGE),
    Column("inputs", ColumnType.TEXT, Origin.LINEAGE),
    Column("inputs_without", ColumnType.TEXT, Origin.LINEAGE),
    Column("dimension_inputs", ColumnType.TEXT, Origin.LINEAGE),
    Column("silver_version", ColumnType.COUNT, Origin.LINEAGE),
    Column("code_version", ColumnType.TEXT, Origin.LINEAGE),
    Column("contract_version", ColumnType.TEXT, Origin.LINEAGE),
    Column("run_id", ColumnType.TEXT, Origin.SIGNATURE),
    Column("signed_off_by", ColumnType.TEXT, Origin.SIGNATURE),
    Column("sign_off_reason", ColumnType.TEXT, Origin.SIGNATURE),
    Column("publication_id", ColumnType.TEXT, Origin.SIGNATURE),
)
_CANDIDATE_ONLY = (
    Column("step", ColumnType.TEXT, Origin.CANDIDATE),
    Column("explanation", ColumnType.TEXT, Origin.DRAFT),
    Column("failed", ColumnType.TEXT, Origin.CANDIDATE),
    Column("proposed_at", ColumnType.TIME, Origin.CANDIDATE),
)
_BY_NAME = {column.name: column for column in (*PUBLISHED, *_CANDIDATE_ONLY)}
#: The columns of a candidate, in the order in which they are stored.
CANDIDATE = tuple(
    _BY_NAME[name]
    for name in (
        *("revision", "state", "step", "reason", "explanation", "changed_rows", "undecided_rows", "known_through", "inputs"),
        *("inputs_without", "dimension_inputs", "made_from", "silver_version", "booked_on", "content", "code_version"),
        *("contract_version", "failed", "proposed_at", "run_id"),
    )
)
#: All names that grain columns and measures cannot have, including those of periods and of the row count.
RESERVED = frozenset({"event_date", "period_start", "row_count", *_BY_NAME})
#: The inputs of a number.
LINEAGE = tuple(column.name for column in PUBLISHED if column.origin is Origin.LINEAGE)


def named(columns: tuple[Column, ...], origin: Origin) -> tuple[str, ...]:
    """The names of the columns whose values have the given origin."""
    return tuple(column.name for column in columns if column.origin is origin)
