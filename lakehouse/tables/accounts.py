"""The account of Bronze: each row's disposition (rule R4), one key's life, and the counts per arrival day.

Only reading, through delta-rs and without a JVM; the judgement itself is ``domain.dispositions``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.domain.days import reach_ahead
from lakehouse.domain.dispositions import Claim, Disposition, Verdict, verdicts
from lakehouse.ledger import ingestions, key_log, restatements, store
from lakehouse.tables import bronze, changes, silver
from lakehouse.tables.schema import content_columns

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import date, datetime

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract
    from lakehouse.domain.dispositions import RowId
    from lakehouse.ledger.ingestions import Ingestion
    from lakehouse.ledger.restatements import Restatement
    from lakehouse.ledger.store import Where
    from lakehouse.settings import Settings

_ROW = ["arrival_date", "source_file", "ingestion_id", "line_number", "record_key", "event_date", "change_op", "malformed_reason"]


@dataclass(frozen=True)
class BronzeRow:
    """A row of Bronze, and what became of it. ``decided_by`` names file and line of the row that outranks it."""

    arrival_date: date
    source_file: str
    ingestion_id: str
    line_number: int
    record_key: str | None
    event_date: date | None
    change_op: str | None
    disposition: Disposition
    because: str
    decided_by: str | None
    lives: bool


@dataclass(frozen=True)
class SilverChange:
    """What one commit did to the row of a key; ``published`` are the gold days written when gold took it in."""

    version: int
    when: datetime
    change: str
    event_date: date
    published: list[tuple[str, date, datetime]]


def rows(
    settings: Settings,
    contract: SourceContract,
    *,
    arrival_days: Collection[date] | None = None,
    keys: Collection[str] | None = None,
) -> list[BronzeRow]:
    """Rows of Bronze with their dispositions, by arrival day, file and line: all, of some arrival days, or of some keys.

    :raises IncompleteKeyLogError: when the operational tables were lost and Bronze has to be run again first.
    """
    options = settings.storage_options
    where: dict[str, Collection[Any]] = {}
    if arrival_days is not None:
        where["arrival_date"] = arrival_days
    if keys is not None:
        where["record_key"] = keys
    found = store.read(bronze.path(settings, contract.dataset), _ROW, where, options)
    if found is None:
        return []
    decided = _verdicts(settings, contract, found, where)
    known = ingestions.ingested(ingestions.all_of(settings, contract.dataset))
    result = []
    for row in found.to_pylist():
        ruled = decided.get((row["ingestion_id"], row["line_number"]))
        if row["malformed_reason"] is not None:
            ruled = Verdict(Disposition.MALFORMED, row["malformed_reason"])
        if ruled is None:
            place, table = f"{row['source_file']}:{row['line_number']}", f"bronze/{contract.dataset}"
            ledger = settings.table("ops", "ingestions")
            first = f" (take {ledger} away first, which has every file come anew)" if row["ingestion_id"] in known else ""
            msg = f"{place} is in {table} and not in the key log: materialize {table} for {row['arrival_date']} again{first}"
            raise key_log.IncompleteKeyLogError(msg)
        result.append(
            BronzeRow(
                arrival_date=row["arrival_date"],
                source_file=row["source_file"],
                ingestion_id=row["ingestion_id"],
                line_number=row["line_number"],
                record_key=row["record_key"],
                event_date=row["event_date"],
                change_op=row["change_op"],
                disposition=ruled.disposition,
                because=ruled.because,
                decided_by=_place(ruled.outranked_by, known) if ruled.outranked_by else None,
                lives=ruled.lives,
            )
        )
    return sorted(result, key=lambda row: (row.arrival_date, row.source_file, row.line_number))


def _place(claim: Claim, known: Mapping[str, Ingestion]) -> str:
    """File and line; the ingestion's id in place of the file where a killed run has not recorded it yet."""
    file = known[claim.ingestion_id].source_file if claim.ingestion_id in known else claim.ingestion_id
    return f"{file}:{claim.line_number}"


def counts(found: Collection[BronzeRow]) -> dict[date, Counter[Disposition]]:
    """Rows per arrival day and disposition."""
    by_day: dict[date, Counter[Disposition]] = defaultdict(Counter)
    for row in found:
        by_day[row.arrival_date][row.disposition] += 1
    return dict(sorted(by_day.items()))


def silver_life(
    settings: Settings, contract: SourceContract, metrics: Collection[MetricContract], key: str
) -> tuple[list[SilverChange], int]:
    """What happened to a key's row in silver, commit by commit, and which published days were written with it.

    :returns: the changes of content, and the oldest version that the table's log still tells of.
    """
    table = store.open_table(silver.path(settings, contract.dataset), settings.storage_options)
    if table is None:
        return [], 0
    oldest = min(commit["version"] for commit in table.history())
    said = [name for name, _ in content_columns(contract)]
    feed = table.load_cdf(starting_version=oldest, predicate="record_key = '" + key.replace("'", "''") + "'")
    states: dict[tuple[int, date], dict[str, Any]] = defaultdict(dict)
    for row in pa.table(feed.read_all()).to_pylist():
        side = "after" if row["_change_type"] in changes.AFTER else "before"
        states[row["_commit_version"], row["event_date"]][side] = [row[name] for name in said]
        states[row["_commit_version"], row["event_date"]]["when"] = row["_commit_timestamp"]
    followed = {metric.metric: (metric.window, restatements.of(settings, metric.metric)) for metric in metrics}
    result = []
    for (version, day), state in sorted(states.items()):
        before, after = state.get("before"), state.get("after")
        if before == after:
            continue  # the feed of a replaced day names the rows that stayed, too
        change = "inserted" if before is None else "removed" if after is None else "corrected"
        published = [
            (metric, other, entry.as_of)
            for metric, (window, entries) in followed.items()
            for entry in _following(entries, version)
            for other in sorted(reach_ahead({day}, window) & set(entry.days))
        ]
        result.append(SilverChange(version, state["when"], change, day, published))
    return result, oldest


def _following(entries: list[Restatement], version: int) -> list[Restatement]:
    """The first restatement that took this version of silver in."""
    return sorted((entry for entry in entries if entry.silver_version >= version), key=lambda entry: entry.silver_version)[:1]


def _verdicts(settings: Settings, contract: SourceContract, found: pa.Table, where: Where) -> dict[RowId, Verdict]:
    """The verdict on each sound row."""
    source, options = contract.dataset, settings.storage_options
    wanted: dict[str, Collection[Any]] = {}
    if where:
        wanted["record_key"] = pc.unique(found["record_key"].drop_null()).to_pylist()
    log = store.read(key_log.path(settings, source), key_log.SCHEMA.names, wanted, options)
    by_key: dict[str, list[Claim]] = defaultdict(list)
    for row in [] if log is None else log.to_pylist():
        claim = Claim(
            row["kind"],
            row["source_sequence"],
            row["arrival_ts"],
            row["ingestion_id"],
            row["line_number"],
            row["event_date"],
        )
        by_key[row["record_key"]].append(claim)
    contested = [key for key, claims in by_key.items() if len(claims) > 1]
    content = _content(settings, contract, contested, _arrival_days(log, contested))
    by_sequence = bool(contract.order.sequence)
    decided: dict[RowId, Verdict] = {}
    for claims in by_key.values():
        decided |= verdicts(claims, content, by_sequence=by_sequence)
    return decided


def _arrival_days(log: pa.Table | None, keys: Collection[str]) -> set[date]:
    """The arrival days on which something was said about the keys."""
    if log is None:
        return set()
    return set(log.filter(pc.is_in(log["record_key"], pa.array(sorted(keys), pa.string())))["arrival_date"].to_pylist())


def _content(settings: Settings, contract: SourceContract, keys: Collection[str], days: Collection[date]) -> dict[RowId, Any]:
    """What the rows of some keys say, without when and where they came from."""
    if not keys:
        return {}
    columns = [name for name, _ in content_columns(contract)] + ["change_op", "corrects_key"]
    where: dict[str, Collection[Any]] = {"arrival_date": days, "record_key": keys}
    path = bronze.path(settings, contract.dataset)
    found = store.read(path, ["ingestion_id", "line_number", *columns], where, settings.storage_options)
    if found is None:
        return {}
    return {(row["ingestion_id"], row["line_number"]): tuple(row[name] for name in columns) for row in found.to_pylist()}
