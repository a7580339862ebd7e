"""The account of Bronze: each row's disposition (rule R4), and the counts per arrival day.

Rows, claims and decisions are read here; how a disposition follows from them is in ``contests``. The
account as tables for SQL is written by ``account_tables``.
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
from lakehouse.delta import table_io
from lakehouse.delta.columns import content_columns
from lakehouse.dispositions import claims, contests
from lakehouse.dispositions.reprocess_policy import policy_of
from lakehouse.dispositions.row_groups import cases, groups, numpy_of, positions
from lakehouse.ledger import decisions, ingestions, key_log
from lakehouse.ledger.row_states import AdmissionStatus, Disposition, QuarantineReason, StewardVerdict

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import date

    from lakehouse.contracts.source import SourceContract
    from lakehouse.delta.table_io import Where
    from lakehouse.ledger.row_ids import RowId
    from lakehouse.settings import Settings

_DECISION = ("verdict", "by", "decided_at", "reason")
_OF_VERDICT = ("disposition", "because", "decided_by", "lives", "admission", "reason", "detail")
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


def rows(settings: Settings, contract: SourceContract, **which: Any) -> list[BronzeRow]:
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
        for row in table(settings, contract, **which).to_pylist()
    ]


def table(
    settings: Settings,
    contract: SourceContract,
    *,
    arrival_days: Collection[date] | None = None,
    keys: Collection[str] | pa.Array | None = None,
    ingestion_ids: Collection[str] | None = None,
    unrecorded: Mapping[str, str] | None = None,
) -> pa.Table:
    """Rows of Bronze with their dispositions, by arrival day, file and line: all, or of some arrival days, keys, ingestions.

    :param unrecorded: the files of ingestions that the ledger does not know yet, by id.
    :returns: columns :data:`SCHEMA`.
    :raises IncompleteKeyLogError: when the operational tables were lost and Bronze has to be run again first.
    """
    given = {"arrival_date": arrival_days, "record_key": keys, "ingestion_id": ingestion_ids}
    where: dict[str, Any] = {name: values for name, values in given.items() if values is not None}
    in_bronze = table_io.read(locations.bronze(settings, contract.dataset), _COLUMNS, where, settings.storage_options)
    if in_bronze is None:
        return SCHEMA.empty_table()
    in_bronze = _sorted(in_bronze)
    decided = decisions.in_force(settings, contract.dataset)
    judged = _judged(settings, contract, in_bronze, where, decided)
    recorded = ingestions.ingested(ingestions.all_of(settings, contract.dataset))
    place = positions(in_bronze, judged)
    is_malformed = pc.is_valid(in_bronze["malformed_reason"])
    missing = pc.index(pc.or_(is_malformed, pc.is_valid(place)), False).as_py()
    if missing >= 0:
        row = in_bronze.slice(missing, 1).to_pylist()[0]
        raise _not_in_key_log(settings, contract, row, recorded=row["ingestion_id"] in recorded)
    files = {ingestion_id: entry.source_file for ingestion_id, entry in recorded.items()} | dict(unrecorded or {})
    judged = judged.append_column("decided_by", _places(judged, files))
    judged = judged.select(_OF_VERDICT).take(pc.if_else(is_malformed, pa.scalar(None, place.type), place))
    columns = {name: in_bronze[name] for name in _COLUMNS[:-1]} | {name: judged[name] for name in _OF_VERDICT}
    columns["disposition"] = pc.fill_null(judged["disposition"], Disposition.MALFORMED.value)
    columns["because"] = pc.coalesce(judged["because"], in_bronze["malformed_reason"])
    columns["lives"] = pc.fill_null(judged["lives"], False)
    columns["decision"] = _descriptions(decided).take(positions(in_bronze, decided))
    return pa.table(columns).select(SCHEMA.names).cast(SCHEMA)


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


def _not_in_key_log(settings: Settings, contract: SourceContract, row: Mapping[str, Any], *, recorded: bool) -> Exception:
    place, bronze = f"{row['source_file']}:{row['line_number']}", f"bronze/{contract.dataset}"
    first = f" (delete {locations.ingestions(settings)} first, so that every file is ingested again)" if recorded else ""
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


def _places(judged: pa.Table, files: Mapping[str, str]) -> pa.ChunkedArray:
    """File and line of the row that outranks each row, NULL if there is none.

    The ingestion's id stands for the file if a stopped run has not recorded it yet.
    """
    ingestions_of = pc.unique(judged["outranked_by_ingestion"])
    names = pa.array([one and files.get(one, one) for one in ingestions_of.to_pylist()], pa.string())
    file = names.take(pc.index_in(judged["outranked_by_ingestion"], value_set=ingestions_of))
    return pc.binary_join_element_wise(file, judged["outranked_by_line"].cast(pa.string()), ":")


def _judged(settings: Settings, contract: SourceContract, in_bronze: pa.Table, where: Where, decided: pa.Table) -> pa.Table:
    """What became of each sound row, under the source's reprocess policy: columns ``contests.SCHEMA``."""
    columns = [name for name in contests.CLAIM_COLUMNS if name != "steward"]
    if where:
        keys = pc.unique(in_bronze["record_key"].drop_null())
        log = key_log.about(settings, contract.dataset, columns, keys)
    else:
        log = table_io.read(locations.key_log(settings, contract.dataset), columns, None, settings.storage_options)
    if log is None:
        return contests.SCHEMA.empty_table()
    log = claims.with_decisions(log, decided)
    days = {day for day in pc.unique(log["event_date"]).to_pylist() if day is not None}
    chosen = claims.choices(settings, contract, days)
    return contests.dispositions(log, policy_of(contract), chosen, partial(_contents, settings, contract))


def _contents(settings: Settings, contract: SourceContract, of_claims: pa.Table) -> pa.Array:
    """A number of the content of each claim's row, without its provenance; see :func:`content_numbers`."""
    columns = [name for name, _ in content_columns(contract)] + ["change_op", "corrects_key"]
    where = {"arrival_date": pc.unique(of_claims["arrival_date"]), "record_key": pc.unique(of_claims["record_key"])}
    path = locations.bronze(settings, contract.dataset)
    bronze = table_io.read(path, ["ingestion_id", "line_number", *columns], where, settings.storage_options)
    if bronze is None:
        return pa.nulls(len(of_claims), pa.int64())
    numbers = content_numbers(bronze.select(columns))
    return numbers.take(positions(of_claims, bronze))


def content_numbers(rows: pa.Table) -> pa.Array:
    """A number for each row, the same for rows with equal values in all columns; NULL for a row that is equal to no other.

    A row with a NaN is equal to none, as NaN is not equal to itself. Columns are compared one after the other, each only for rows
    that have been equal to another one so far.
    """
    floats = [column for column in rows.columns if pa.types.is_floating(column.type)]
    comparable = np.ones(len(rows), bool)
    for column in floats:
        comparable &= ~numpy_of(pc.fill_null(pc.is_nan(column), False))
    equal, number = np.flatnonzero(comparable), np.zeros(int(comparable.sum()), np.int64)
    for column in sorted(rows.columns, key=lambda column: pa.types.is_string(column.type)):  # text costs most
        values = column if len(equal) == len(rows) else column.take(pa.array(equal))
        if pa.types.is_floating(column.type):
            values = pc.add(values, pa.scalar(0.0, column.type))  # -0.0 becomes 0.0, to which it is equal
        number = groups(pa.array(number), values)
        is_shared = np.bincount(number)[number] > 1 if len(number) else np.zeros(0, bool)
        equal, number = equal[is_shared], number[is_shared]
    numbers = np.full(len(rows), -1)
    numbers[equal] = number
    return pa.array(numbers, mask=numbers < 0)
