"""The account of real tables is what the model gives row by row, through decisions, redactions and judgements made again."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import date
from itertools import compress
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakehouse import locations
from lakehouse.delta import row_writer
from lakehouse.delta.columns import arrow_schema, bronze_columns, content_columns
from lakehouse.dispositions import account, account_tables, claims, judgement_history
from lakehouse.dispositions.claims import Membership
from lakehouse.dispositions.reprocess_policy import policy_of
from lakehouse.ledger import decisions, ingestions, key_log, rebuild_requests, redactions
from lakehouse.ledger.decisions import Decision
from lakehouse.ledger.ids import row_id_of
from lakehouse.ledger.ingestions import Ingestion
from lakehouse.ledger.rebuild_requests import RebuildRequest
from lakehouse.ledger.redactions import Redaction
from lakehouse.ledger.row_states import Disposition, StewardVerdict
from lakehouse_tests.support import row_by_row
from lakehouse_tests.support.claim_histories import DAYS, FILES, KEYS, NOON, ClaimHistory, claim_histories
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.laws import law

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake
    from lakehouse.ledger.ids import RowId
    from lakehouse_tests.support.row_by_row import Rows

SOURCE = "events"


class Tables:
    """The tables of a history, written without Spark."""

    def __init__(self, lake: Lake, history: ClaimHistory, malformed: int) -> None:
        policy = history.policy
        self.lake, self.contract = lake, contract_of(history)
        assert policy_of(self.contract) == policy
        corrects = {row_id_of(row): row["record_key"] for row in history.log if row["kind"] == "retire"}
        schema = arrow_schema(bronze_columns(self.contract))
        self.bronze: Rows = [
            dict.fromkeys(schema.names)
            | {name: row[name] for name in key_log.BRONZE_COLUMNS if name in row}
            | {"change_op": row["kind"], "corrects_key": corrects.get(row_id_of(row)), "raw_payload": "as read"}
            | {"source_file": f"{row['ingestion_id']}.csv", "amount": int(history.content[row_id_of(row)][2] == "x")}
            for row in history.log
            if row["kind"] != "retire"
        ]
        arrived = {row["ingestion_id"]: row["arrival_date"] for row in history.log}
        for line in range(malformed):
            unread = {
                "arrival_date": arrived.get("f1", DAYS[0]),
                "source_file": "f1.csv",
                "ingestion_id": "f1",
                "line_number": 100 + line,
            }
            self.bronze.append(dict.fromkeys(schema.names) | unread | {"malformed_reason": "no number", "raw_payload": "?"})
        table = locations.bronze(lake, SOURCE)
        row_writer.append(table, pa.Table.from_pylist(self.bronze, schema=schema), partition_by=["arrival_date"])
        row_writer.append(locations.key_log(lake, SOURCE), pa.Table.from_pylist(history.log, schema=key_log.SCHEMA))
        files = [
            Ingestion(SOURCE, name, name, arrived.get(name, DAYS[0]), f"{name}.csv", 1, None, "ingested", "run", NOON)
            for name in FILES
        ]
        self.redelivered = [
            replace(
                file,
                arrival_date=day,
                delivery=delivery,
                status="redelivered",
                touched_days=DAYS,
            )
            for file in files
            for delivery, day, _ in history.delivered[file.ingestion_id]
        ]
        ingestions.record(lake, *files, *self.redelivered)
        self.place: dict[str, tuple[date, str, str]] = {}
        for entry in [*files, *self.redelivered]:
            place = entry.arrival_date, entry.delivery or "", entry.ingestion_id
            self.place[entry.ingestion_id] = max(place, self.place.get(entry.ingestion_id, place))
        self.delivered = self.delivered_with(self.redelivered)
        self.decided: dict[RowId, Decision] = {}

    def delivered_with(self, redelivered: Iterable[Ingestion]) -> dict[str, set[Membership]]:
        """The deliveries of each file that the ledger knows, with some entries about files that came again."""
        delivered = defaultdict[str, set[Membership]](set)
        for entry in [*ingestions.ingested(ingestions.all_of(self.lake, SOURCE)).values(), *redelivered]:
            delivered[entry.ingestion_id].add(Membership(entry.delivered_with, entry.arrival_date))
        return delivered

    def decide(self, *entries: Decision) -> str:
        self.decided |= {entry.row: entry for entry in entries}
        return decisions.record(self.lake, SOURCE, list(entries))

    def log(self) -> Rows:
        log = locations.key_log(self.lake, SOURCE).read(key_log.SCHEMA.names)
        assert log is not None
        return log.to_pylist()

    def account(self) -> Rows:
        names = [name for name, _ in content_columns(self.contract)] + ["change_op", "corrects_key"]
        content = {row_id_of(row): tuple(row[name] for name in names) for row in self.bronze}
        policy, log = policy_of(self.contract), self.log()
        chosen = policy.choose(row_by_row.shares(log, self.decided, self.delivered), DAYS)
        outcomes = row_by_row.outcomes(policy, log, self.decided, chosen, content, {}, self.place)
        columns = [*account.SCHEMA.names[:7], "malformed_reason"]
        bronze = [{name: row[name] for name in columns} for row in self.bronze]
        return row_by_row.account(bronze, outcomes, self.decided)


def contract_of(history: ClaimHistory) -> SourceContract:
    policy = history.policy
    changes: dict[str, Any] = {"materialization": {"reprocess_policy": policy.name, "max_shrink": policy.max_shrink}}
    if policy.one_event:
        changes |= {"primary_key": [], "synthetic_key": {"fields": ["id"]}}
    if policy.one_event or policy.name != "merge":
        changes |= {"changes": {}}
    if policy.by_sequence:
        changes |= {"order": {"sequence": "seq"}}
    return contract(**changes)


def by_id(rows: Rows) -> list[dict[str, Any]]:
    return sorted(rows, key=row_id_of)


@law(100, in_each_run=4)
@given(claim_histories(), st.integers(0, 2), st.sampled_from(sorted(StewardVerdict)))
def test_the_account_and_its_tables_are_those_of_the_rows(
    tmp_path_factory, history: ClaimHistory, malformed: int, verdict: StewardVerdict
) -> None:
    tables = Tables(lake_in(tmp_path_factory.mktemp("lake")), history, malformed)
    lake, source = tables.lake, tables.contract
    if history.decided:
        tables.decide(*(replace(one, verdict=StewardVerdict.REJECT, reason="at first") for one in history.decided.values()))
        tables.decide(*(replace(one, number=2) for one in history.decided.values()))
    expected = tables.account()
    in_tables = account.table(lake, source)
    assert in_tables.to_pylist() == expected
    assert account.table(lake, source, keys=["a", "c"]).to_pylist() == [
        row for row in expected if row["record_key"] in {"a", "c"}
    ]
    assert account.table(lake, source, arrival_days=DAYS[:1]).to_pylist() == [
        row for row in expected if row["arrival_date"] == DAYS[0]
    ]
    sound = [piece for days in (DAYS[:1], DAYS) for piece in account.pieces(lake, source, {"event_date": days})]
    assert all(row in expected for piece in sound for row in piece.to_pylist())
    dated = {row["record_key"] for row in expected if row["event_date"] and row["disposition"] != Disposition.MALFORMED}
    assert by_id(sound[-1].to_pylist()) == by_id(row for row in expected if row["record_key"] in dated)
    unread = [row for piece in account.malformed(lake, source, {}) for row in piece.to_pylist()]
    assert by_id(unread) == by_id(row for row in expected if row["disposition"] == Disposition.MALFORMED)
    counts = {day: dict(of_day) for day, of_day in account.counts(in_tables).items()}
    assert counts == {
        day: {
            word: len(rows)
            for word in Disposition
            if (rows := [row for row in expected if (row["arrival_date"], row["disposition"]) == (day, word)])
        }
        for day in sorted({row["arrival_date"] for row in expected})
    }
    entries = _written(tables, expected, {}, {})
    if not entries:
        return
    redactions.record(lake, SOURCE, Redaction("a", ["amount"], "anna", "asked", NOON))
    row_id, entry = next(iter(entries.items()))
    tables.decide(Decision(*row_id, entry["record_key"], verdict, "bob", "looked", NOON, number=3, about_file=True))
    _written(tables, tables.account(), entries, {"amount": {"a"}})


def _written(tables: Tables, expected: Rows, existing: Any, redacted: Any) -> dict[RowId, dict[str, Any]]:
    """The quarantine's entries after the tables were written; they and the dispositions are as expected."""
    lake, source = tables.lake, tables.contract
    account_tables.after_decision(lake, source, set(KEYS), set(DAYS))
    disposed = locations.dispositions(lake, SOURCE).read()
    if disposed is None:
        return {}
    written = {row_id_of(row) for row in disposed.to_pylist()}
    due = [row for row in expected if row_id_of(row) in written]
    assert by_id(disposed.to_pylist()) == by_id([{name: row[name] for name in disposed.column_names} for row in due])
    if not policy_of(source).chooses_deliveries:
        assert written == {row_id_of(row) for row in expected if row["record_key"] is not None}
    table = locations.quarantine(lake, SOURCE).read()
    entries = {} if table is None else {row_id_of(row): row for row in table.to_pylist()}
    review = source.lateness.review_within
    assert entries == row_by_row.quarantine(due, tables.bronze, tables.decided, existing, redacted, review)
    return entries


@law(100, in_each_run=4)
@given(claim_histories(), st.integers(0, 2))
def test_tables_that_are_derived_again_are_those_of_the_rows(tmp_path_factory, history: ClaimHistory, malformed: int) -> None:
    tables = Tables(lake_in(tmp_path_factory.mktemp("lake")), history, malformed)
    lake, source = tables.lake, tables.contract
    if history.decided:
        tables.decide(*history.decided.values())
    assert account_tables.restore(lake, source, anyway=True)
    expected = tables.account()
    disposed = locations.dispositions(lake, SOURCE).read()
    assert disposed is not None
    assert by_id(disposed.to_pylist()) == by_id([{name: row[name] for name in disposed.column_names} for row in expected])
    table = locations.quarantine(lake, SOURCE).read()
    entries = {row_id_of(row): row for row in table.to_pylist()} if table is not None else {}
    waited = {"quarantine_reason": "shrunken_partition", "quarantine_detail": "its delivery would have shrunk a day or the table"}
    held = {row_id: waited for row_id, one in tables.decided.items() if one.about_file}
    assert entries == row_by_row.quarantine(expected, tables.bronze, tables.decided, held, {}, source.lateness.review_within)


@dataclass(frozen=True)
class EarlierTime:
    """What is known at a time: which files had come again, which rows were judged again, whether that is an input."""

    history: ClaimHistory
    redelivered: list[bool]
    rebuilt: list[bool]
    is_rebuilt: bool
    until: datetime | None


@st.composite
def earlier_times(draw: st.DrawFn) -> EarlierTime:
    history = draw(claim_histories())
    redelivered, rebuilt = (
        draw(st.lists(st.booleans(), min_size=count, max_size=count))
        for count in (sum(map(len, history.delivered.values())), len(history.log))
    )
    return EarlierTime(history, redelivered, rebuilt, draw(st.booleans()), draw(st.none() | st.just(NOON)))


@law(100, in_each_run=10)
@given(earlier_times())
def test_the_choice_of_arrivals_at_an_earlier_time_is_that_of_the_rows(tmp_path_factory, known: EarlierTime) -> None:
    history, until = known.history, known.until
    tables = Tables(lake_in(tmp_path_factory.mktemp("lake")), history, 0)
    lake, source, policy = tables.lake, tables.contract, policy_of(tables.contract)
    redelivered = list(compress(tables.redelivered, known.redelivered))
    ids, delivered = {"f1", "f2", *(entry.input_id for entry in redelivered)}, tables.delivered_with(redelivered)
    if history.decided:
        ids.add(tables.decide(*history.decided.values()))
        tables.decide(*(replace(one, verdict=StewardVerdict.REJECT, number=2) for one in history.decided.values()))
    rebuilt = list(compress(history.log, known.rebuilt))
    if rebuilt:
        request = RebuildRequest(SOURCE, "bug_replay", DAYS[0], DAYS[-1], "why", "anna", None, "1", None, "2", NOON)
        operation = rebuild_requests.record(lake, request)
        judged = pa.Table.from_pylist([row | {"standing": "rejected"} for row in rebuilt], schema=key_log.SCHEMA)
        judgement_history.record(lake, SOURCE, operation, judged, NOON)
        row_writer.upsert(locations.key_log(lake, SOURCE), judged, judgement_history.CLAIM)
        ids |= {operation} if known.is_rebuilt else set()
    standing = {row_id_of(row): row["standing"] for row in judgement_history.as_of(lake, SOURCE, ids).to_pylist()}
    log = [row | {"standing": standing.get(row_id_of(row), row["standing"])} for row in tables.log()]
    log = [row for row in log if row["ingestion_id"] in ids and (until is None or row["arrival_ts"] <= until)]
    shares = row_by_row.shares(log, history.decided, delivered)
    expected = policy.choose(shares, DAYS) if policy.chooses_deliveries else {}
    assert claims.choices(lake, source, DAYS, ids, until) == expected
