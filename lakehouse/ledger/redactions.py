"""``bronze/<source>_redactions``: fields of keys that must no longer be shown (right to erasure).

Redactions are an overlay: silver and everything computed from it leave the fields empty; Bronze keeps the files as they came.
Neither the values nor hashes of them are stored here.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.ledger.ids import InputKind
from lakehouse.ledger.log_table import LogTable

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import date, datetime

    from lakehouse.lake import Lake


@dataclass(frozen=True)
class Redaction:
    """The named fields of one key are empty from now on; ``touched_days`` are the event days on which the key may live."""

    redaction_id: str = field(default="", kw_only=True)
    record_key: str
    fields: list[str]
    by: str
    reason: str
    redacted_at: datetime
    touched_days: list[date] = field(default_factory=list, kw_only=True)


def log(lake: Lake, source: str) -> LogTable[Redaction]:
    """The table of a source."""
    return LogTable(Redaction, lake, locations.redactions(lake, source), journaled=True)


def record(lake: Lake, source: str, entry: Redaction) -> str:
    """Append a redaction; the same fields of the same key for the same reason are written once.

    :returns: its id.
    """
    text = f"{entry.record_key}\n{sorted(entry.fields)}\n{entry.by}\n{entry.reason}"
    redaction_id = InputKind.REDACTION.id_of(text)
    log(lake, source).append([replace(entry, redaction_id=redaction_id)], app_id=redaction_id)
    return redaction_id


def all_of(lake: Lake, source: str) -> list[Redaction]:
    """Every redaction, oldest first."""
    return sorted(log(lake, source).read(), key=lambda entry: (entry.redacted_at, entry.redaction_id))


def keys_by_field(lake: Lake, source: str) -> dict[str, set[str]]:
    """By redacted field, the keys for which it is empty."""
    found: dict[str, set[str]] = defaultdict(set)
    for entry in all_of(lake, source):
        for name in entry.fields:
            found[name].add(entry.record_key)
    return dict(found)


#: Columns of Bronze that may repeat a value of any field: the record as it was read, and the key and headers of a message.
AS_SENT = ("raw_payload", "kafka_key", "kafka_headers")


def applied(rows: pa.Table, keys_by_field: Mapping[str, Collection[str]]) -> pa.Table:
    """The rows with the redacted fields of their keys, and the record as it was read, set to NULL.

    :param rows: with ``record_key``; redacted fields that they lack are ignored.
    """
    for name, keys in keys_by_field.items():
        is_redacted = pc.is_in(rows["record_key"], value_set=pa.array(sorted(keys), pa.string()))
        for redacted in {name, *AS_SENT} & set(rows.column_names):
            values = pc.if_else(is_redacted, pa.scalar(None, rows[redacted].type), rows[redacted])
            rows = rows.set_column(rows.column_names.index(redacted), redacted, values)
    return rows


def touched(lake: Lake, source: str) -> dict[str, set[date]]:
    """The event days that each redaction may change, by redaction id."""
    return {entry.redaction_id: set(entry.touched_days) for entry in all_of(lake, source)}
