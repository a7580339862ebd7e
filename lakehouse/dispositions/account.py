"""The account of Bronze: each row's disposition (rule R4), and the counts per arrival day.

Only reading, through delta-rs and without a JVM; the judgement itself is ``dispositions.verdicts``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.delta import table_io
from lakehouse.delta.columns import content_columns
from lakehouse.dispositions import claims
from lakehouse.dispositions.admission import Reason
from lakehouse.dispositions.reprocess_policy import policy_of
from lakehouse.dispositions.verdicts import Claim, Disposition, Verdict, barred
from lakehouse.ledger import decisions, ingestions, key_log

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import date

    from lakehouse.contracts.source import SourceContract
    from lakehouse.delta.table_io import Where
    from lakehouse.ledger.decisions import Decision
    from lakehouse.ledger.row_ids import RowId
    from lakehouse.settings import Settings

_ROW = ["arrival_date", "source_file", "ingestion_id", "line_number", "record_key", "event_date", "change_op", "malformed_reason"]


@dataclass(frozen=True)
class BronzeRow:
    """A row of Bronze, and what became of it.

    ``decided_by`` names file and line of the row that outranks it, ``decision`` what a steward said last. ``standing`` is
    the contract's word (None for a malformed row), ``reason`` and ``detail`` say why it is not "admitted".
    """

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
    decision: str | None
    lives: bool
    standing: str | None
    reason: str | None
    detail: str | None


@dataclass(frozen=True)
class _Ruled:
    """What was found about a row: the verdict, and what the contract said of it."""

    verdict: Verdict
    standing: str | None = None
    reason: str | None = None
    detail: str | None = None


def rows(
    settings: Settings,
    contract: SourceContract,
    *,
    arrival_days: Collection[date] | None = None,
    keys: Collection[str] | None = None,
    ingestion_ids: Collection[str] | None = None,
    unrecorded: Mapping[str, str] | None = None,
) -> list[BronzeRow]:
    """Rows of Bronze with their dispositions, by arrival day, file and line: all, or of some arrival days, keys, ingestions.

    :param unrecorded: the files of ingestions that the ledger does not know yet, by id.
    :raises IncompleteKeyLogError: when the operational tables were lost and Bronze has to be run again first.
    """
    options = settings.storage_options
    where: dict[str, Collection[Any]] = {}
    if arrival_days is not None:
        where["arrival_date"] = arrival_days
    if keys is not None:
        where["record_key"] = keys
    if ingestion_ids is not None:
        where["ingestion_id"] = ingestion_ids
    found = table_io.read(locations.bronze(settings, contract.dataset), _ROW, where, options)
    if found is None:
        return []
    decided = decisions.newest(settings, contract.dataset)
    ruled = _rulings(settings, contract, found, where, decided)
    known = ingestions.ingested(ingestions.all_of(settings, contract.dataset))
    files = {one: entry.source_file for one, entry in known.items()} | dict(unrecorded or {})
    result = []
    for row in found.to_pylist():
        row_id = (row["ingestion_id"], row["line_number"])
        ruling = ruled.get(row_id)
        if row["malformed_reason"] is not None:
            ruling = _Ruled(Verdict(Disposition.MALFORMED, row["malformed_reason"]))
        if ruling is None:
            raise _not_in_key_log(settings, contract, row, recorded=row["ingestion_id"] in known)
        verdict = ruling.verdict
        result.append(
            BronzeRow(
                arrival_date=row["arrival_date"],
                source_file=row["source_file"],
                ingestion_id=row["ingestion_id"],
                line_number=row["line_number"],
                record_key=row["record_key"],
                event_date=row["event_date"],
                change_op=row["change_op"],
                disposition=verdict.disposition,
                because=verdict.because,
                decided_by=_place(verdict.outranked_by, files) if verdict.outranked_by else None,
                decision=_said(decided[row_id]) if row_id in decided else None,
                lives=verdict.lives,
                standing=ruling.standing,
                reason=ruling.reason,
                detail=ruling.detail,
            )
        )
    return sorted(result, key=lambda row: (row.arrival_date, row.source_file, row.line_number))


def _not_in_key_log(settings: Settings, contract: SourceContract, row: Mapping[str, Any], *, recorded: bool) -> Exception:
    place, table = f"{row['source_file']}:{row['line_number']}", f"bronze/{contract.dataset}"
    first = f" (take {locations.ingestions(settings)} away first, which has every file come anew)" if recorded else ""
    msg = f"{place} is in {table} and not in the key log: materialize {table} for {row['arrival_date']} again{first}"
    return key_log.IncompleteKeyLogError(msg)


def _said(decision: Decision) -> str:
    done = {"accept": "accepted", "reject": "rejected", "duplicate": "called a duplicate"}[decision.verdict]
    return f"{done} by {decision.by} on {decision.decided_at:%Y-%m-%d}: {decision.reason}"


def _place(claim: Claim, files: Mapping[str, str]) -> str:
    """File and line; the ingestion's id in place of the file where a killed run has not recorded it yet."""
    return f"{files.get(claim.ingestion_id, claim.ingestion_id)}:{claim.line_number}"


def counts(found: Collection[BronzeRow]) -> dict[date, Counter[Disposition]]:
    """Rows per arrival day and disposition."""
    by_day: dict[date, Counter[Disposition]] = defaultdict(Counter)
    for row in found:
        by_day[row.arrival_date][row.disposition] += 1
    return dict(sorted(by_day.items()))


def _rulings(
    settings: Settings, contract: SourceContract, found: pa.Table, where: Where, decided: Mapping[RowId, Decision]
) -> dict[RowId, _Ruled]:
    """What became of each sound row, under the source's reprocess policy."""
    source, options = contract.dataset, settings.storage_options
    wanted: dict[str, Collection[Any]] = {}
    if where:
        wanted["record_key"] = pc.unique(found["record_key"].drop_null()).to_pylist()
    log = table_io.read(locations.key_log(settings, source), key_log.SCHEMA.names, wanted, options)
    by_key: dict[str, list[Claim]] = defaultdict(list)
    ruled: dict[RowId, _Ruled] = {}
    said: dict[RowId, tuple[str, str | None, str | None]] = {}
    for row in [] if log is None else log.to_pylist():
        claim = Claim(
            row["kind"],
            row["source_sequence"],
            row["arrival_ts"],
            row["ingestion_id"],
            row["line_number"],
            row["event_date"],
        )
        decision = decided.get(claim.row)
        verdict = barred(row["standing"], row["detail"], decision.verdict if decision else None)
        said[claim.row] = (row["standing"], row["reason"], row["detail"])
        if verdict is None:
            by_key[row["record_key"]].append(claim)
        elif claim.kind != "retire":
            ruled[claim.row] = _Ruled(verdict, *said[claim.row])
    for row_id, verdict in _verdicts(settings, contract, by_key, log).items():
        if verdict.disposition is Disposition.QUARANTINED:
            ruled[row_id] = _Ruled(verdict, said[row_id][0], Reason.SHRUNKEN_PARTITION.value, verdict.because)
        else:
            ruled[row_id] = _Ruled(verdict, *said[row_id])
    return ruled


def _verdicts(
    settings: Settings, contract: SourceContract, by_key: Mapping[str, list[Claim]], log: pa.Table | None
) -> dict[RowId, Verdict]:
    """What became of each admitted row, by the policy's rules."""
    policy = policy_of(contract)
    contested = policy.contested_keys(by_key)
    content = _content(settings, contract, contested, _arrival_days(log, contested))
    days = {claim.event_date for of_key in by_key.values() for claim in of_key if claim.event_date}
    return policy.verdicts(by_key, content, claims.choices(settings, contract, days))


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
    path = locations.bronze(settings, contract.dataset)
    found = table_io.read(path, ["ingestion_id", "line_number", *columns], where, settings.storage_options)
    if found is None:
        return {}
    return {(row["ingestion_id"], row["line_number"]): tuple(row[name] for name in columns) for row in found.to_pylist()}
