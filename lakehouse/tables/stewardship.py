"""What a person decides: to let a row in, to bar it, to hide a field. Each is one append beside Bronze; no JVM.

The decision is the truth; the books follow it here, silver with its next run (see ``apply``). Repeating a command that was
stopped adds no second decision and brings the books up to date.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from lakehouse.ledger import decisions, key_log, redactions, store
from lakehouse.ledger.decisions import Decision
from lakehouse.ledger.redactions import Redaction
from lakehouse.tables import audit, books

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import date

    from lakehouse.contracts.source import SourceContract
    from lakehouse.domain.dispositions import RowId
    from lakehouse.ledger.decisions import Decided
    from lakehouse.settings import Settings


class StewardError(Exception):
    """A decision that cannot be taken. Its text tells why, and what to do."""


@dataclass(frozen=True)
class Taken:
    """How many rows a decision was new for, how many had it already, and the event days that wait for silver with it."""

    rows: int
    repeated: int
    days: list[date]


def decide(
    settings: Settings, contract: SourceContract, rows: Collection[RowId], verdict: Decided, *, by: str, reason: str
) -> Taken:
    """Decide on rows of Bronze; the latest decision on a row holds.

    :raises StewardError: for a row that Bronze does not hold, and for a decision without a name or a reason.
    """
    _signed(by, reason)
    source = contract.dataset
    keys = _keys_of_rows(settings, contract, rows)
    missing = sorted(set(rows) - keys.keys())
    if missing:
        msg = f"{_named(missing[0])} is no sound row of bronze/{source}; 'lakehouse quarantine list {source}' shows the rows"
        raise StewardError(msg)
    before = decisions.newest(settings, source)
    holds = [
        row
        for row in rows
        if row in before and (before[row].verdict, before[row].by, before[row].reason) == (verdict, by, reason)
    ]
    repeated = set(holds)
    days = key_log.days_by_key(settings, source, {key for own in keys.values() for key in own})
    overwrites_all = contract.materialization.reprocess_policy == "overwrite_all"
    every_day = key_log.days(settings, source) if overwrites_all else set()
    decided = [
        Decision(
            ingestion_id=row[0],
            line_number=row[1],
            record_key=keys[row][0],
            verdict=verdict,
            by=by,
            reason=reason,
            decided_at=settings.clock(),
            number=before[row].number + 1 if row in before else 1,
            touched_days=sorted(every_day.union(*(days[key] for key in keys[row]))),
        )
        for row in sorted(rows)
        if row not in repeated
    ]
    if decided:
        decisions.record(settings, source, decided)
    books.after_decision(settings, contract, set(days), set().union(*days.values()))
    touched = set().union(*(one.touched_days for one in decided)) if decided else set()
    return Taken(len(decided), len(repeated), sorted(touched))


def redact(
    settings: Settings, contract: SourceContract, key: str, fields: Collection[str], *, by: str, reason: str
) -> list[date]:
    """Hide fields of a key in silver and in all that is made of it; Bronze keeps the files as they came.

    :returns: the event days that wait for silver with it.
    :raises StewardError: for a key that no row has, a field that the contract has not, or one that is part of the key.
    """
    _signed(by, reason)
    source = contract.dataset
    known = [field.name for field in contract.typed_fields]
    wrong = sorted(set(fields) - set(known))
    if wrong or not fields:
        msg = f"{', '.join(wrong) or 'no field'}: not among the fields of {source}: {', '.join(known)}"
        raise StewardError(msg)
    in_key = sorted(set(fields) & {*contract.primary_key, *(contract.synthetic_key.fields if contract.synthetic_key else ())})
    if in_key:
        msg = (
            f"{', '.join(in_key)} is part of the key, by which rows are found; to erase a key see 'The right to erasure' in "
            "docs/stewardship.md"
        )
        raise StewardError(msg)
    days = key_log.days_by_key(settings, source, [key])[key]
    if not key_log.arrival_days(settings, source, "record_key", [key]):
        msg = f"no row of bronze/{source} has the key {key!r}"
        raise StewardError(msg)
    entry = Redaction(key, sorted(fields), by, reason, settings.clock(), touched_days=sorted(days))
    redactions.record(settings, source, entry)
    audit.redact(settings, source, key, fields)
    books.after_decision(settings, contract, {key}, days)
    return sorted(days)


def _signed(by: str, reason: str) -> None:
    if not by.strip() or not reason.strip():
        msg = "a decision needs a name (--by) and a reason (--reason)"
        raise StewardError(msg)


def _keys_of_rows(settings: Settings, contract: SourceContract, rows: Collection[RowId]) -> dict[RowId, list[str]]:
    """Per row the keys that it makes a claim about, its own first."""
    path, options = key_log.path(settings, contract.dataset), settings.storage_options
    where: dict[str, Collection[Any]] = {"ingestion_id": {row[0] for row in rows}, "line_number": {row[1] for row in rows}}
    found = store.read(path, ["ingestion_id", "line_number", "record_key", "kind"], where, options)
    keys: dict[RowId, list[str]] = {}
    wanted = set(rows)
    if found is None:
        return keys
    own_first = found.append_column("retires", pc.equal(found["kind"], "retire")).sort_by("retires")
    for claim in own_first.to_pylist():
        row = (claim["ingestion_id"], claim["line_number"])
        if row in wanted:
            keys.setdefault(row, []).append(claim["record_key"])
    return keys


def _named(row: RowId) -> str:
    return f"{row[0]}:{row[1]}"
