"""The account of Bronze: each row's disposition (rule R4), and the counts per arrival day.

Rows, claims and decisions are read here; the rules for a disposition are in ``winners``. The account as tables for SQL is
written by ``account_tables``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.delta.columns import content_columns
from lakehouse.dispositions import claims, deliveries, readings, winners
from lakehouse.dispositions.reprocess_policy import policy_of
from lakehouse.dispositions.winners import cases, content_numbers, groups, numpy_of, positions
from lakehouse.ledger import decisions, ingestions, key_log
from lakehouse.ledger.row_states import AdmissionStatus, Disposition, QuarantineReason, StewardVerdict

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from datetime import date

    from lakehouse.contracts.source import SourceContract
    from lakehouse.dispositions.reprocess_policy import Choice
    from lakehouse.lake import Lake
    from lakehouse.lake.table_io import Where
    from lakehouse.ledger.ids import DeliveredFile, RowId

_DECISION = ("verdict", "by", "decided_at", "reason")
_OF_VERDICT = ("disposition", "because", "decided_by", "decision", "lives", "admission", "reason", "detail")
_OF_CLAIM = [name for name in winners.CLAIM_COLUMNS if name != "steward"]
_ROW_ID = ("ingestion_id", "line_number")
_COLUMNS = [
    *("arrival_date", "source_file", "ingestion_id", "line_number"),
    *("record_key", "event_date", "change_op", "malformed_reason"),
]


@dataclass(frozen=True)
class BronzeRow:
    """A row of Bronze with its disposition.

    ``decided_by`` is file and line of the row that outranks it, ``decision`` the newest decision of a steward. ``admission`` is
    the contract's judgement (None for a malformed row); ``reason`` and ``detail`` explain why a row is not admitted.
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


#: The account as a table has a column for each field of :class:`BronzeRow`, the words of the vocabularies as text.
SCHEMA = pa.schema(
    [
        ("arrival_date", pa.date32()),
        ("source_file", pa.string()),
        ("ingestion_id", pa.string()),
        ("line_number", pa.int64()),
        ("record_key", pa.string()),
        ("event_date", pa.date32()),
        ("change_op", pa.string()),
        ("disposition", pa.string()),
        ("because", pa.string()),
        ("decided_by", pa.string()),
        ("decision", pa.string()),
        ("lives", pa.bool_()),
        ("admission", pa.string()),
        ("reason", pa.string()),
        ("detail", pa.string()),
    ]
)


def rows(lake: Lake, contract: SourceContract, **which: Any) -> list[BronzeRow]:
    """Rows of Bronze with their dispositions as objects, for a few rows; see :func:`table` for the arguments and the order."""
    return [
        BronzeRow(
            **row
            | {
                "disposition": Disposition(row["disposition"]),
                "admission": row["admission"] and AdmissionStatus(row["admission"]),
                "reason": row["reason"] and QuarantineReason(row["reason"]),
            }
        )
        for row in table(lake, contract, **which).to_pylist()
    ]


def table(
    lake: Lake,
    contract: SourceContract,
    *,
    arrival_days: Collection[date] | None = None,
    keys: Collection[str] | pa.Array | None = None,
    unrecorded: Collection[DeliveredFile] = (),
) -> pa.Table:
    """Rows of Bronze with their dispositions, by arrival day, file and line: all rows, or those of ``arrival_days`` and ``keys``.

    :param unrecorded: files that the ledger does not know yet.
    :returns: columns :data:`SCHEMA`.
    :raises IncompleteKeyLogError: when the operational tables were lost and Bronze has to be run again first.
    """
    given = {"arrival_date": arrival_days, "record_key": keys}
    where: dict[str, Any] = {name: values for name, values in given.items() if values is not None}
    in_bronze = readings.read(lake, contract.dataset, _COLUMNS, where)
    if in_bronze is None:
        return SCHEMA.empty_table()
    in_bronze = _sorted(in_bronze)
    log = _log(lake, contract, in_bronze, where)
    judge = _Judge(lake, contract, unrecorded, log)
    judged = judge.account(log)
    place = positions(in_bronze, judged)
    is_malformed = pc.is_valid(in_bronze["malformed_reason"])
    missing = pc.index(pc.or_(is_malformed, pc.is_valid(place)), False).as_py()
    if missing >= 0:
        row = in_bronze.slice(missing, 1).to_pylist()[0]
        raise _not_in_key_log(lake, contract, row, recorded=judge.is_recorded(row["ingestion_id"]))
    judged = judged.select(_OF_VERDICT).take(pc.if_else(is_malformed, pa.scalar(None, place.type), place))
    columns = {name: in_bronze[name] for name in _COLUMNS[:-1]} | {name: judged[name] for name in _OF_VERDICT}
    columns["disposition"] = pc.fill_null(judged["disposition"], Disposition.MALFORMED.value)
    columns["because"] = pc.coalesce(judged["because"], in_bronze["malformed_reason"])
    columns["lives"] = pc.fill_null(judged["lives"], False)
    return pa.table(columns).select(SCHEMA.names).cast(SCHEMA)


def pieces(lake: Lake, contract: SourceContract, where: Where, unrecorded: Collection[DeliveredFile] = ()) -> Iterator[pa.Table]:
    """The well-formed rows whose keys have claims that meet ``where``, with dispositions, in pieces and in no order;
    :data:`SCHEMA`.

    They are read from the key log, which is sorted by key, so that large deliveries do not have to fit into memory. Whether the
    log covers Bronze is checked by counting (``dispositions.checks``).

    :param where: the claims, see ``key_log.about_keys_with``.
    :param unrecorded: files that the ledger does not know yet.
    """
    judge = _Judge(lake, contract, unrecorded)
    for log in key_log.about_keys_with(lake, contract.dataset, _OF_CLAIM, where):
        yield judge.account(log)


def malformed(lake: Lake, contract: SourceContract, where: Where) -> Iterator[pa.Table]:
    """The malformed rows that meet ``where``, in pieces; :data:`SCHEMA`. They make no claim."""
    reasons = readings.pieces(lake, contract.dataset, ["malformed_reason"], where)
    if all(piece["malformed_reason"].null_count == len(piece) for piece in reasons):
        return  # the usual case: their texts need not be read
    for piece in readings.pieces(lake, contract.dataset, _COLUMNS, where):
        rows = piece.filter(pc.is_valid(piece["malformed_reason"])).rename_columns({"malformed_reason": "because"})
        rows = rows.append_column("disposition", pa.repeat(Disposition.MALFORMED.value, len(rows)))
        rows = rows.append_column("lives", pa.repeat(pa.scalar(False), len(rows)))
        empty = {item.name: pa.nulls(len(rows), item.type) for item in SCHEMA if item.name not in rows.column_names}
        yield pa.table({**dict(zip(rows.column_names, rows.columns)), **empty}).select(SCHEMA.names).cast(SCHEMA)


class _Judge:
    """The inputs on which the account of claims depends, read once.

    :param log: all claims that will be judged; None if they come in pieces.
    """

    def __init__(
        self, lake: Lake, contract: SourceContract, unrecorded: Collection[DeliveredFile], log: pa.Table | None = None
    ) -> None:
        self._lake, self._contract, self._unrecorded = lake, contract, unrecorded
        self._recorded = ingestions.ingested(ingestions.all_of(lake, contract.dataset))
        files = {file.ingestion_id: file.path for file in unrecorded}
        self._files = files | {ingestion_id: entry.source_file for ingestion_id, entry in self._recorded.items()}
        self._decided = decisions.in_force(lake, contract.dataset, rows=log)
        self._deliveries = deliveries.of(lake, contract, unrecorded=unrecorded)
        self._descriptions = _descriptions(self._decided)

    def is_recorded(self, ingestion_id: str) -> bool:
        """Whether the ledger knows an ingestion."""
        return ingestion_id in self._recorded

    def account(self, log: pa.Table) -> pa.Table:
        """The rows whose own keys the claims are about, in the order of the claims; :data:`SCHEMA`.

        :param log: every claim about a set of keys: columns ``_OF_CLAIM``.
        """
        self._read_files(log)
        judged = winners.dispositions(
            claims.with_decisions(deliveries.ordered(log, self._deliveries), self._decided),
            policy_of(self._contract),
            self._chosen(log),
            partial(_contents, self._lake, self._contract),
        )
        rows = log.filter(pc.not_equal(log["kind"], "retire")).rename_columns({"kind": "change_op"})
        columns = {name: rows[name] for name in ("arrival_date", *_ROW_ID, "record_key", "event_date", "change_op")}
        columns |= {name: judged[name] for name in ("disposition", "because", "lives", "admission", "reason", "detail")}
        columns["source_file"] = self._files_of(rows["ingestion_id"])
        rival = judged["outranked_by_line"].cast(pa.string())
        columns["decided_by"] = pc.binary_join_element_wise(self._files_of(judged["outranked_by_ingestion"]), rival, ":")
        columns["decision"] = self._descriptions.take(positions(rows, self._decided))
        return pa.table(columns).select(SCHEMA.names).cast(SCHEMA)

    def _chosen(self, log: pa.Table) -> dict[date, Choice]:
        if not policy_of(self._contract).chooses_deliveries:
            return {}
        days = set(pc.unique(log["event_date"].drop_null()).to_pylist())
        return claims.choices(self._lake, self._contract, days, unrecorded=self._unrecorded)

    def _read_files(self, log: pa.Table) -> None:
        """Read from Bronze the files of claims whose ingestion is missing in the ledger, because its run was stopped."""
        unknown = log.filter(pc.invert(pc.is_in(log["ingestion_id"], pa.array(list(self._files), pa.string()))))
        if len(unknown):
            stored, names = locations.bronze(self._lake, self._contract.dataset), ["ingestion_id", "source_file"]
            where = {name: pc.unique(unknown[name]) for name in ("ingestion_id", "arrival_date")}
            found = stored.distinct(names, where)
            self._files |= {} if found is None else dict(zip(*(found[name].to_pylist() for name in names)))

    def _files_of(self, ingestion_ids: pa.ChunkedArray) -> pa.ChunkedArray:
        distinct = pc.unique(ingestion_ids)
        files = pa.array([one and self._files.get(one, one) for one in distinct.to_pylist()], pa.string())
        return files.take(pc.index_in(ingestion_ids, value_set=distinct))


def counts(account: pa.Table) -> dict[date, Counter[Disposition]]:
    """Rows per arrival day and disposition, by day.

    :param account: ``arrival_date`` and ``disposition``.
    """
    by_day: dict[date, Counter[Disposition]] = defaultdict(Counter)
    counted = account.group_by(["arrival_date", "disposition"]).aggregate([([], "count_all")]).sort_by("arrival_date")
    for row in counted.to_pylist():
        by_day[row["arrival_date"]][Disposition(row["disposition"])] = row["count_all"]
    return dict(by_day)


def _sorted(in_bronze: pa.Table) -> pa.Table:
    """The rows by arrival day, file and line."""
    file = groups(in_bronze["arrival_date"], in_bronze["source_file"])
    names = list(cases(file, in_bronze["arrival_date"], in_bronze["source_file"]))
    rank = np.argsort(np.array(sorted(range(len(names)), key=names.__getitem__), np.int64))
    order = np.lexsort((numpy_of(in_bronze["line_number"]), rank[file]))
    return in_bronze if (np.diff(order) == 1).all() else in_bronze.take(pa.array(order))


def _not_in_key_log(lake: Lake, contract: SourceContract, row: Mapping[str, Any], *, recorded: bool) -> Exception:
    place, bronze = f"{row['source_file']}:{row['line_number']}", f"bronze/{contract.dataset}"
    first = f" (delete {locations.ingestions(lake)} first, so that every file is ingested again)" if recorded else ""
    msg = f"{place} is in {bronze} and not in the key log: materialize {bronze} for {row['arrival_date']} again{first}"
    return key_log.IncompleteKeyLogError(msg)


def _descriptions(decided: pa.Table) -> pa.Array:
    """Each decision in a sentence."""
    decision = groups(*(decided[name] for name in _DECISION))
    return pa.array(
        [
            f"{StewardVerdict(verdict).participle} by {by} on {decided_at:%Y-%m-%d}: {reason}"
            for verdict, by, decided_at, reason in cases(decision, *(decided[name] for name in _DECISION))
        ],
        pa.string(),
    ).take(pa.array(decision))


def _log(lake: Lake, contract: SourceContract, in_bronze: pa.Table, where: Where) -> pa.Table:
    """Every claim about the keys of ``in_bronze``: columns ``_OF_CLAIM``.

    :param where: the condition by which the rows were selected; empty for all rows.
    """
    if where:
        log = key_log.about(lake, contract.dataset, _OF_CLAIM, pc.unique(in_bronze["record_key"].drop_null()))
    else:
        log = locations.key_log(lake, contract.dataset).read(_OF_CLAIM, None)
    return key_log.SCHEMA.empty_table().select(_OF_CLAIM) if log is None else log


def _contents(lake: Lake, contract: SourceContract, of_claims: pa.Table) -> pa.Array:
    """A number for the content of each claim's row, without its provenance; see ``winners.content_numbers``."""
    columns = [name for name, _ in content_columns(contract)] + ["change_op", "corrects_key"]
    where = {"arrival_date": pc.unique(of_claims["arrival_date"]), "record_key": pc.unique(of_claims["record_key"])}
    bronze = readings.read(lake, contract.dataset, ["ingestion_id", "line_number", *columns], where)
    if bronze is None:
        return pa.nulls(len(of_claims), pa.int64())
    numbers = content_numbers(bronze.select(columns))
    return numbers.take(positions(of_claims, bronze))
