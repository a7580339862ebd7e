"""``ops/contracts``: the contracts that numbers were published under, whole, so that they can be made again (rule R10).

A contract is known by the hash that revisions and commits carry. A metric's row names the contract of its source beside it,
and is written again when that is another one: which of the two were in force is a question of time. Which contract counts
for a revision is told in ``terms``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from lakehouse import locations
from lakehouse.delta import table_io

if TYPE_CHECKING:
    from datetime import datetime

    from lakehouse.settings import Settings

Kind = Literal["source", "metric"]
_SCHEMA = pa.schema(
    [
        ("kind", pa.string()),
        ("name", pa.string()),
        ("version", pa.string()),
        ("source_version", pa.string()),
        ("contract", pa.string()),
        ("number", pa.int64()),
        ("recorded_at", pa.timestamp("us", "UTC")),
    ]
)


def record(
    settings: Settings, kind: Kind, name: str, version: str, contract: str, now: datetime, source_version: str | None = None
) -> bool:
    """Keep a contract (as JSON), where it is not the newest that is kept of its name already.

    :returns: whether it was written.
    """
    known = _rows(settings, kind, name)
    newest = known[-1] if known else None
    if newest is not None and (newest["version"], newest["source_version"]) == (version, source_version):
        return False
    number = len(known) + 1
    row = {"kind": kind, "name": name, "version": version, "source_version": source_version, "contract": contract}
    table = pa.Table.from_pylist([row | {"number": number, "recorded_at": now}], schema=_SCHEMA)
    app_id = f"contracts:{kind}:{name}:{number}:{version}:{source_version}"
    return table_io.append(locations.contract_archive(settings), table, options=settings.storage_options, app_id=app_id)


def find(settings: Settings, kind: Kind, name: str, version: str) -> dict[str, Any] | None:
    """The contract of a hash; None where it was never kept."""
    return next((json.loads(row["contract"]) for row in _rows(settings, kind, name) if row["version"] == version), None)


def source_version(settings: Settings, metric: str, version: str, when: datetime) -> str | None:
    """The hash of the source's contract that counted beside a metric's contract at a time; None where nothing tells."""
    known = [row for row in _rows(settings, "metric", metric) if row["version"] == version]
    before = [row for row in known if row["recorded_at"] <= when]
    return next((row["source_version"] for row in reversed(before or known[:1])), None)


def _rows(settings: Settings, kind: Kind, name: str) -> list[dict[str, Any]]:
    found = table_io.read(
        locations.contract_archive(settings), _SCHEMA.names, {"kind": [kind], "name": [name]}, settings.storage_options
    )
    return sorted([] if found is None else found.to_pylist(), key=lambda row: row["number"])
