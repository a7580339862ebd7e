"""The account of Bronze: each row's disposition (rule R4), and the counts per arrival day.

Rows, claims and decisions are read here; how a disposition follows from them is in ``verdicts`` and ``reprocess_policy``. The
account as tables for SQL is written by ``account_tables``.
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
from lakehouse.dispositions.reprocess_policy import policy_of
from lakehouse.dispositions.verdicts import Claim, RowVerdict, barred
from lakehouse.ledger import decisions, ingestions, key_log
from lakehouse.ledger.row_ids import row_id_of
from lakehouse.ledger.row_states import AdmissionStatus, Disposition, QuarantineReason

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import date

    from lakehouse.contracts.source import SourceContract
    from lakehouse.delta.table_io import Where
    from lakehouse.ledger.decisions import Decision
    from lakehouse.ledger.row_ids import RowId
    from lakehouse.settings import Settings

_COLUMNS = [
    *("arrival_date", "source_file", "ingestion_id", "line_number"),
    *("record_key", "event_date", "change_op", "malformed_reason"),
]


@dataclass(frozen=True)
class BronzeRow:
    """A row of Bronze, and what became of it.

    ``decided_by`` is file and line of the row that outranks it, ``decision`` the newest decision of a steward.
    ``admission`` is the contract's judgement (None for a malformed row); ``reason`` and ``detail`` explain why a row is not
    admitted.
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
    admission: AdmissionStatus | None
    reason: QuarantineReason | None
    detail: str | None

    @property
    def row_id(self) -> RowId:
        """The id of the row."""
        return self.ingestion_id, self.line_number


@dataclass(frozen=True)
class _Judged:
    """The verdict on a row, and the contract's judgement of it."""

    verdict: RowVerdict
    admission: AdmissionStatus | None = None
    reason: QuarantineReason | None = None
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
    given = {"arrival_date": arrival_days, "record_key": keys, "ingestion_id": ingestion_ids}
    where: dict[str, Collection[Any]] = {name: values for name, values in given.items() if values is not None}
    in_bronze = table_io.read(locations.bronze(settings, contract.dataset), _COLUMNS, where, settings.storage_options)
    if in_bronze is None:
        return []
    decided = decisions.newest(settings, contract.dataset)
    judged = _judge(settings, contract, in_bronze, where, decided)
    recorded = ingestions.ingested(ingestions.all_of(settings, contract.dataset))
    files = {ingestion_id: entry.source_file for ingestion_id, entry in recorded.items()} | dict(unrecorded or {})
    result = []
    for row in in_bronze.to_pylist():
        row_id, malformed_reason = row_id_of(row), row.pop("malformed_reason")
        outcome = judged.get(row_id)
        if malformed_reason is not None:
            outcome = _Judged(RowVerdict(Disposition.MALFORMED, malformed_reason))
        if outcome is None:
            raise _not_in_key_log(settings, contract, row, recorded=row["ingestion_id"] in recorded)
        verdict = outcome.verdict
        result.append(
            BronzeRow(
                **row,
                disposition=verdict.disposition,
                because=verdict.because,
                decided_by=_place(verdict.outranked_by, files) if verdict.outranked_by else None,
                decision=_describe(decided[row_id]) if row_id in decided else None,
                lives=verdict.lives,
                admission=outcome.admission,
                reason=outcome.reason,
                detail=outcome.detail,
            )
        )
    return sorted(result, key=lambda row: (row.arrival_date, row.source_file, row.line_number))


def counts(account: Collection[BronzeRow]) -> dict[date, Counter[Disposition]]:
    """Rows per arrival day and disposition."""
    by_day: dict[date, Counter[Disposition]] = defaultdict(Counter)
    for row in account:
        by_day[row.arrival_date][row.disposition] += 1
    return dict(sorted(by_day.items()))


def _not_in_key_log(settings: Settings, contract: SourceContract, row: Mapping[str, Any], *, recorded: bool) -> Exception:
    place, table = f"{row['source_file']}:{row['line_number']}", f"bronze/{contract.dataset}"
    first = f" (delete {locations.ingestions(settings)} first, so that every file is ingested again)" if recorded else ""
    msg = f"{place} is in {table} and not in the key log: materialize {table} for {row['arrival_date']} again{first}"
    return key_log.IncompleteKeyLogError(msg)


def _describe(decision: Decision) -> str:
    return f"{decision.verdict.participle} by {decision.by} on {decision.decided_at:%Y-%m-%d}: {decision.reason}"


def _place(claim: Claim, files: Mapping[str, str]) -> str:
    """File and line; the ingestion's id instead of the file if a stopped run has not recorded it yet."""
    return f"{files.get(claim.ingestion_id, claim.ingestion_id)}:{claim.line_number}"


def _judge(
    settings: Settings, contract: SourceContract, in_bronze: pa.Table, where: Where, decided: Mapping[RowId, Decision]
) -> dict[RowId, _Judged]:
    """What became of each sound row, under the source's reprocess policy."""
    keys: dict[str, Collection[Any]] = {}
    if where:
        keys["record_key"] = pc.unique(in_bronze["record_key"].drop_null()).to_pylist()
    path = locations.key_log(settings, contract.dataset)
    log = table_io.read(path, key_log.SCHEMA.names, keys, settings.storage_options)
    admitted: dict[str, list[Claim]] = defaultdict(list)
    by_contract: dict[RowId, tuple[AdmissionStatus, QuarantineReason | None, str | None]] = {}
    judged: dict[RowId, _Judged] = {}
    for row in [] if log is None else log.to_pylist():
        claim = _claim(row)
        status, reason = AdmissionStatus(row["standing"]), row["reason"] and QuarantineReason(row["reason"])
        by_contract[claim.row] = (status, reason, row["detail"])
        decision = decided.get(claim.row)
        verdict = barred(status, row["detail"], decision.verdict if decision else None)
        if verdict is None:
            admitted[row["record_key"]].append(claim)
        elif claim.kind != "retire":
            judged[claim.row] = _Judged(verdict, *by_contract[claim.row])
    for row_id, verdict in _verdicts(settings, contract, admitted, log).items():
        status, reason, detail = by_contract[row_id]
        if verdict.disposition is Disposition.QUARANTINED:  # with its whole file
            reason, detail = QuarantineReason.SHRUNKEN_PARTITION, verdict.because
        judged[row_id] = _Judged(verdict, status, reason, detail)
    return judged


def _claim(row: Mapping[str, Any]) -> Claim:
    """A row of the key log as a claim."""
    return Claim(
        row["kind"], row["source_sequence"], row["arrival_ts"], row["ingestion_id"], row["line_number"], row["event_date"]
    )


def _verdicts(
    settings: Settings, contract: SourceContract, admitted: Mapping[str, list[Claim]], log: pa.Table | None
) -> dict[RowId, RowVerdict]:
    """What became of each admitted row, by the policy's rules.

    :param admitted: the claims of admitted rows, by key.
    """
    policy = policy_of(contract)
    contested = policy.contested_keys(admitted)
    content = _content(settings, contract, contested, _arrival_days(log, contested))
    days = {claim.event_date for of_key in admitted.values() for claim in of_key if claim.event_date}
    return policy.verdicts(admitted, content, claims.choices(settings, contract, days))


def _arrival_days(log: pa.Table | None, keys: Collection[str]) -> set[date]:
    """The arrival days of the claims about the keys."""
    if log is None:
        return set()
    return set(log.filter(pc.is_in(log["record_key"], pa.array(sorted(keys), pa.string())))["arrival_date"].to_pylist())


def _content(settings: Settings, contract: SourceContract, keys: Collection[str], days: Collection[date]) -> dict[RowId, Any]:
    """The content of the rows of some keys, without their provenance."""
    if not keys:
        return {}
    columns = [name for name, _ in content_columns(contract)] + ["change_op", "corrects_key"]
    where: dict[str, Collection[Any]] = {"arrival_date": days, "record_key": keys}
    path = locations.bronze(settings, contract.dataset)
    table = table_io.read(path, ["ingestion_id", "line_number", *columns], where, settings.storage_options)
    return {row_id_of(row): tuple(row[name] for name in columns) for row in ([] if table is None else table.to_pylist())}
