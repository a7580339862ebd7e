"""``bronze/<source>_redactions``: fields of keys that must not be shown any more (right to erasure).

An overlay: silver and all that is made of it leave the fields empty; Bronze keeps the files as they came. No value and
no hash of one is kept here.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING

import pyarrow as pa

from lakehouse import locations
from lakehouse.delta import table_io

if TYPE_CHECKING:
    from datetime import date, datetime

    from lakehouse.settings import Settings

PREFIX = "redaction:"
_SCHEMA = pa.schema(
    [
        ("redaction_id", pa.string()),
        ("record_key", pa.string()),
        ("fields", pa.list_(pa.string())),
        ("by", pa.string()),
        ("reason", pa.string()),
        ("redacted_at", pa.timestamp("us", "UTC")),
        ("touched_days", pa.list_(pa.date32())),
    ]
)


@dataclass(frozen=True)
class Redaction:
    """The named fields of one key are empty from now on; ``touched_days`` are the event days on which it may live."""

    record_key: str
    fields: list[str]
    by: str
    reason: str
    redacted_at: datetime
    redaction_id: str = ""
    touched_days: list[date] = field(default_factory=list)


def record(settings: Settings, source: str, entry: Redaction) -> str:
    """Append a redaction; the same fields of the same key for the same reason are written once.

    :returns: its id.
    """
    text = f"{entry.record_key}\n{sorted(entry.fields)}\n{entry.by}\n{entry.reason}"
    redaction_id = PREFIX + hashlib.sha256(text.encode()).hexdigest()[:16]
    table = pa.Table.from_pylist([asdict(entry) | {"redaction_id": redaction_id}], schema=_SCHEMA)
    table_io.append(locations.redactions(settings, source), table, options=settings.storage_options, app_id=redaction_id)
    return redaction_id


def all_of(settings: Settings, source: str) -> list[Redaction]:
    """Every redaction, oldest first."""
    found = table_io.read(
        locations.redactions(settings, source), [item.name for item in fields(Redaction)], None, settings.storage_options
    )
    entries = [] if found is None else [Redaction(**row) for row in found.to_pylist()]
    return sorted(entries, key=lambda entry: (entry.redacted_at, entry.redaction_id))


def keys_by_field(settings: Settings, source: str) -> dict[str, set[str]]:
    """Per redacted field the keys for which it is empty."""
    found: dict[str, set[str]] = defaultdict(set)
    for entry in all_of(settings, source):
        for name in entry.fields:
            found[name].add(entry.record_key)
    return dict(found)


def touched(settings: Settings, source: str) -> dict[str, set[date]]:
    """Per redaction id the event days that it may change."""
    return {entry.redaction_id: set(entry.touched_days) for entry in all_of(settings, source)}
