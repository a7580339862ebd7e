"""The record of each version in a commit of published numbers, apart from its content: enough to compute the version again.

The record is text in the metadata of the commit and in ``ops/publications``: the columns of :data:`PUBLISHED` by version name,
compressed, because many versions of a commit have the same values.
"""

from __future__ import annotations

import base64
import json
import zlib
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakehouse.gold.numbers.published_table import PUBLISHED_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_READ = {pa.date32(): date.fromisoformat, pa.timestamp("us", "UTC"): datetime.fromisoformat}


def packed(versions: Iterable[Mapping[str, Any]]) -> str:
    """The record of ``versions``."""
    by_name = {values["version_name"]: {name: values[name] for name in PUBLISHED_SCHEMA.names} for values in versions}
    return base64.b64encode(zlib.compress(json.dumps(by_name, default=str).encode())).decode()


def unpacked(record: str | None) -> dict[str, dict[str, Any]]:
    """The versions of a record, by name; empty for a commit of an earlier release."""
    if not record:
        return {}
    by_name: dict[str, dict[str, Any]] = json.loads(zlib.decompress(base64.b64decode(record)))
    return {version: _typed(values) for version, values in by_name.items()}


def _typed(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with their types; a column that a later release has added is empty."""
    typed = {}
    for item in PUBLISHED_SCHEMA:
        value, read = values.get(item.name), _READ.get(item.type)
        typed[item.name] = read(value) if read and value is not None else value
    return typed
