"""The columns of a dimension's tables, and the mark that records what a table was computed from.

``ops/<dimension>_by_key`` holds the changes of silver by bucket, ``silver/<dimension>_intervals`` the intervals.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from lakehouse.delta import lost_commits
from lakehouse.delta.columns import arrow_schema
from lakehouse.dimensions import keys

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from deltalake import DeltaTable

    from lakehouse.contracts.source import SourceContract
    from lakehouse.delta.columns import Columns

_KEY = (("bucket", "int"), ("dimension_key", "string"))
#: Columns from the change that opens an interval.
_ORIGIN = (("record_key", "string"), ("arrival_ts", "timestamp"), ("ingestion_id", "string"), ("line_number", "bigint"))


def changes_of_silver(contract: SourceContract) -> Columns:
    """The columns of silver from which intervals are computed."""
    clocks = (("event_ts", "timestamp"), ("key_ends", "boolean"), ("ends_at", "timestamp"))
    return (("event_date", "date"), *attributes(contract), *clocks, *_ORIGIN)


def change_columns(contract: SourceContract) -> Columns:
    """The columns of a change by key."""
    return (*_KEY, *changes_of_silver(contract))


def interval_columns(contract: SourceContract) -> Columns:
    """The columns of an interval."""
    validity = (("valid_from", "timestamp"), ("valid_to", "timestamp"), ("is_current", "boolean"))
    return (*_KEY, *attributes(contract), *validity, *_ORIGIN)


def attributes(contract: SourceContract) -> Columns:
    """The typed fields of the contract."""
    return tuple((field.name, field.type) for field in contract.typed_fields)


def by_key(contract: SourceContract, changes: pa.Table) -> pa.Table:
    """Changes with their key and bucket; those whose record key has another form are left out (see ``keys``).

    :param changes: with :func:`changes_of_silver`; other columns are kept.
    """
    changes = changes.append_column("dimension_key", keys.dimension_keys(changes["record_key"]))
    changes = changes.filter(changes["dimension_key"].is_valid())
    return changes.append_column("bucket", keys.buckets(changes["dimension_key"], contract.dimension.buckets))


def as_changes(contract: SourceContract, rows: pa.Table) -> pa.Table:
    """Rows with the columns and types of changes by key."""
    return _as(arrow_schema(change_columns(contract)), rows)


def as_intervals(contract: SourceContract, rows: pa.Table) -> pa.Table:
    """Rows with the columns and types of intervals."""
    return _as(arrow_schema(interval_columns(contract)), rows)


def _as(schema: pa.Schema, rows: pa.Table) -> pa.Table:
    return rows.select(schema.names).cast(schema)


def mark(contract: SourceContract, silver: DeltaTable) -> str:
    """The id of the Delta transaction by which a table records the version of silver that it follows.

    It contains the identity of the silver table and a digest of the parts of the contract that the rows depend on: when one of
    them changes, the table follows no version yet, and is computed as a whole.
    """
    terms: Mapping[str, Any] = {
        "fields": attributes(contract),
        "key": contract.primary_key,
        "untracked": sorted(contract.dimension.untracked),
        "buckets": contract.dimension.buckets,
    }
    digest = hashlib.sha256(json.dumps(terms).encode()).hexdigest()[:12]
    return f"silver:{lost_commits.identity(silver)}:{digest}"
