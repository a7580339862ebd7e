"""``ops/publications``: each commit of published numbers with its lineage: from what, by which code, checked how, why.

A copy of what the commits of the gold tables say of themselves, so that a run that was stopped behind its commit loses
nothing: :func:`follow` writes what is missing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakehouse import locations
from lakehouse.delta import commit_log, table_io

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakehouse.settings import Settings

_TEXT = pa.string()
_SCHEMA = pa.schema(
    [
        ("series", _TEXT),
        ("publication_id", _TEXT),
        ("gold_version", pa.int64()),
        ("run_id", _TEXT),
        ("job_name", _TEXT),
        ("code_version", _TEXT),
        ("contract_version", _TEXT),
        ("published", _TEXT),
        ("input_versions", _TEXT),
        ("validation", _TEXT),
        ("trigger", _TEXT),
        ("keys", _TEXT),
        ("downstream", pa.list_(_TEXT)),
        ("signed_off_by", _TEXT),
        ("sign_off_reason", _TEXT),
        ("recorded_at", pa.timestamp("us", "UTC")),
    ]
)
_AS_JSON = ("published", "input_versions", "validation", "trigger", "keys")


@dataclass(frozen=True)
class Publication:
    """One commit of a series.

    ``published`` names the version per period; ``input_versions`` what it was made from, with its time range; ``validation``
    counts the checks; ``trigger`` tells the files, decisions, redactions or code behind it; ``keys`` counts the changed keys
    per silver day, with a sample; ``downstream`` names the datasets and consumers that it concerns.
    """

    series: str
    publication_id: str
    gold_version: int
    run_id: str
    recorded_at: datetime
    job_name: str | None = None
    code_version: str | None = None
    contract_version: str | None = None
    published: Mapping[str, str] = field(default_factory=dict)
    input_versions: Mapping[str, Any] = field(default_factory=dict)
    validation: Mapping[str, Any] = field(default_factory=dict)
    trigger: Mapping[str, Any] = field(default_factory=dict)
    keys: Mapping[str, Any] = field(default_factory=dict)
    downstream: list[str] = field(default_factory=list)
    signed_off_by: str | None = None
    sign_off_reason: str | None = None


def follow(settings: Settings, series: str, gold: str) -> int:
    """Write a row for each commit of a gold table that has none yet.

    :param gold: the table's address.
    :returns: how many rows were written.
    """

    def row_of(commit: dict[str, Any], why: dict[str, Any]) -> dict[str, Any] | None:
        return _row(series, commit, why) if "published" in why else None

    return commit_log.copy(settings, gold, locations.publications(settings), f"publications:{series}", _SCHEMA, row_of)


def of(settings: Settings, series: str) -> list[Publication]:
    """Every publication of a series, oldest first."""
    return _read(settings, {"series": [series]})


def one(settings: Settings, series: str, publication_id: str) -> Publication | None:
    """One publication of a series; None where the ledger does not tell of it (yet)."""
    found = _read(settings, {"series": [series], "publication_id": [publication_id]})
    return found[0] if found else None


def _read(settings: Settings, where: table_io.Where) -> list[Publication]:
    columns = [item.name for item in fields(Publication)]
    found = table_io.read(locations.publications(settings), columns, where, settings.storage_options)
    rows = [] if found is None else found.to_pylist()
    parsed = [row | {name: json.loads(row[name] or "{}") for name in _AS_JSON} for row in rows]
    return sorted((Publication(**row) for row in parsed), key=lambda entry: entry.gold_version)


def _row(series: str, commit: Mapping[str, Any], why: Mapping[str, Any]) -> dict[str, Any]:
    told = {name: why.get(name) for name in _SCHEMA.names}
    told |= {name: json.dumps(why.get(name) or {}, sort_keys=True) for name in _AS_JSON}
    committed = datetime.fromtimestamp(commit["timestamp"] / 1000, timezone.utc)
    return told | {
        "series": series,
        "gold_version": commit["version"],
        "downstream": list(why.get("downstream") or []),
        "recorded_at": datetime.fromisoformat(why["as_of"]) if "as_of" in why else committed,
    }
