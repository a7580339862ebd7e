"""The laws with decisions in between: whatever is delivered, decided and redacted, in any order, silver follows the rules.

Judged by ``lakehouse_tests.support.reference_model``: who is admitted is worked out here from the rules, not by the code.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse.dispositions import account as dispositions_account
from lakehouse.stewardship import quarantine as quarantine_decisions
from lakehouse.stewardship.redact import redact_fields
from lakehouse_tests.support.audit_reader import replayed_audit
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import SampleLake, content_id, contract, csv_file, csv_line, row_of
from lakehouse_tests.support.laws import law
from lakehouse_tests.support.reference_model import Record, deliver_again, live_rows, resent_days
from lakehouse_tests.support.silver_histories import DAYS, KEYS, record_at
from lakehouse_tests.support.steward_histories import ARRIVAL, Decide, Deliver, History, Redact, Update, histories

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse_tests.support.lake import Row

pytestmark = pytest.mark.spark

WATERMARK = timedelta(days=30)  # of records on the four days some are beyond it, by days or by hours


def is_beyond(record: Record) -> bool:
    if record.day is None:
        return False
    return record.arrival - datetime(record.day.year, record.day.month, record.day.day, 12, tzinfo=timezone.utc) > WATERMARK


class People:
    """The claims and decisions so far, and which rows they admit."""

    def __init__(self, *, beyond: str) -> None:
        self._beyond = beyond
        self.known: list[Record] = []
        self.arrivals: dict[str, date] = {}
        self.decided: dict[tuple[str, int], str] = {}
        self.files: set[tuple[date, str]] = set()  # accepted although they shrink the day
        self.redacted: set[str] = set()
        self._about_files: dict[tuple[str, int], bool] = {}

    def admitted(self) -> list[Record]:
        def admits(record: Record) -> bool:
            word = self.decided.get((record.file, record.line))
            return word == "accept" if word else not (is_beyond(record) and self._beyond != "restate")

        return [record for record in self.known if admits(record)]

    def resent(self) -> tuple[list[Record], set[tuple[date, str]]]:
        words = {(one.file, one.line): one.day for one in self.known if one.day}
        barred = Counter((day, row[0]) for row, day in words.items() if self.decided.get(row) in {"reject", "duplicate"})
        return resent_days(self.admitted(), 0.5, self.arrivals, self.files, barred)

    def decide(self, record: Record, verdict: str, *, plain: bool) -> None:
        # Each row's newest word counts, and an earlier word about its file counts only while it is the newest.
        about_file = plain and record in self.admitted() and (record.day, record.file) in self.resent()[1]
        self.decided[record.file, record.line] = verdict
        self._about_files[record.file, record.line] = about_file and verdict == "accept"
        self.files = {(one.day, one.file) for one in self.known if one.day and self._about_files.get((one.file, one.line))}


def run(sample: SampleLake, history: History, *, beyond: str, plain: bool) -> None:
    people = People(beyond=beyond)
    known, redacted = people.known, people.redacted
    for number, action in enumerate(history.actions):
        if isinstance(action, Deliver):
            lines = history.files[action.file]
            data = csv_file(map(csv_line, lines))
            arrival = ARRIVAL - timedelta(days=action.file) if plain else ARRIVAL  # a delivery each, where deliveries replace
            people.arrivals[content_id(data)] = max(arrival, people.arrivals.get(content_id(data), arrival))
            sample.deliver(arrival, data, f".{action.file}.csv")
            sample.ingest(arrival)
            place = (arrival, f".{action.file}.csv")
            deliver_again(known, content_id(data), lines, place)
        elif isinstance(action, Decide):
            record = known[action.record % len(known)]
            row = (record.file, record.line)
            quarantine_decisions.decide(sample.lake, sample.contract, [row], action.verdict, by="s", reason=f"{number}")
            people.decide(record, action.verdict, plain=plain)
        elif isinstance(action, Redact):
            if any(action.key in {record.key, record.corrects} for record in known):
                redact_fields(sample.lake, sample.contract, action.key, ["amount"], by="s", reason="asked")
                redacted.add(action.key)
        elif days := action.days & set(sample.pending()):
            sample.update(days)
    if sample.pending():
        sample.update()

    alive = people.resent()[0] if plain else list(live_rows(people.admitted(), by_sequence=False).values())
    expected = {shown(record, redacted) for record in alive}
    assert sample.silver() == expected, "as the rules say"
    assert sample.rebuilt(DAYS) == expected, "rebuilt as the rules say (R3)"
    account = dispositions_account.rows(sample.lake, sample.contract)
    assert sorted((row.ingestion_id, row.line_number) for row in account) == sorted((one.file, one.line) for one in known)
    living = {(row.ingestion_id, row.line_number) for row in account if row.lives}
    assert living == {(record.file, record.line) for record in alive}, "dispositions add up (R4)"
    told = {(key, day, said["amount"]) for (key, day), said in replayed_audit(sample).items()}
    shown_amounts = {(row[0], f"{row[1]}", "[redacted]" if row[0] in redacted else row[2]) for row in expected}
    assert told == shown_amounts, "the audit, replayed from nothing, gives what silver holds"


def shown(record: Record, redacted: set[str]) -> Row:
    row = row_of(record)
    return (*row[:2], None if record.key in redacted else row[2], *row[3:])


def lake_of(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, **changes: Any) -> SampleLake:
    return SampleLake(lake_in(tmp_path_factory.mktemp("lake")), contract(**changes), spark)


def by_merge(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, history: History, beyond: str) -> None:
    history = replace(history, files=[[replace(record, sequence=0) for record in file] for file in history.files])
    lateness = {"expected": "PT0S", "watermark": "P30D", "beyond": beyond}  # every row is late, and so in the audit
    sample = lake_of(tmp_path_factory, spark, lateness=lateness)
    run(sample, history, beyond=beyond, plain=False)


def by_arrival(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, history: History) -> None:
    history = replace(history, files=[[replace(record, sequence=0) for record in file] for file in history.files])
    policy = {"reprocess_policy": "overwrite_partition_safe"}
    source = {"landing": "arrival_date={arrival_date}*", "start_date": "2023-12-01"}
    lateness = {"expected": "PT0S", "watermark": "P30D", "beyond": "quarantine"}
    run(
        lake_of(tmp_path_factory, spark, materialization=policy, lateness=lateness, changes={}, source=source),
        history,
        beyond="quarantine",
        plain=True,
    )


#: A row is beyond the watermark, one just within. An accepted late row loses to a row in time until that is rejected; a record
#: that was retired is deleted, too, and what retired it is a duplicate.
DECIDED = History(
    [
        [record_at(1, "a", "insert", 0), record_at(1, "b", "insert", 2), record_at(0, "c", "insert", 1)],
        [record_at(2, "a", "correct", 2), record_at(2, "c", "correct", 3, corrects="b")],
        [record_at(3, "b", "delete", None)],
    ],
    [
        *(Deliver(1), Update(frozenset(DAYS[2:3])), Deliver(0), Decide(2, "accept"), Redact("a"), Update(frozenset(DAYS[:1]))),
        *(Decide(0, "reject"), Deliver(2), Decide(1, "duplicate")),
    ],
)
#: The newest delivery is the first file. The second one shrinks a day until that is accepted; a row of the first one is rejected.
RESENT = History(
    [
        [record_at(3, "a", "insert", 2), record_at(3, "b", "insert", 2)],
        [record_at(2, "a", "insert", 2), record_at(2, "b", "insert", 3)],
        [*(record_at(0, key, "insert", 2) for key in KEYS), record_at(0, "late", "insert", 0)],
    ],
    [Deliver(2), Decide(3, "accept"), Deliver(1), Decide(4, "accept"), Redact("a"), Deliver(0), Decide(7, "reject")],
)


@pytest.mark.merge
@pytest.mark.timeout(2400)
@law(25)
@example(history=DECIDED, beyond="quarantine")
# What is dropped is accepted.
@example(history=replace(DECIDED, actions=[Deliver(0), Decide(0, "accept"), Deliver(1)]), beyond="drop")
@given(history=histories(), beyond=st.sampled_from(["restate", "quarantine", "drop"]))
def test_silver_is_a_function_of_bronze_and_of_decisions(tmp_path_factory, spark, history: History, beyond: str) -> None:
    by_merge(tmp_path_factory, spark, history, beyond)


@pytest.mark.merge
@pytest.mark.timeout(2400)
@law(25)
@example(history=RESENT)
@given(history=histories(plain=True))
def test_silver_is_a_function_of_bronze_where_a_resent_day_replaces_the_day(tmp_path_factory, spark, history: History) -> None:
    by_arrival(tmp_path_factory, spark, history)
