"""The laws of silver on generated histories: merged == rebuilt == the result of rule R2, whatever the order and grouping."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given

from lakehouse.dispositions import account as dispositions_account
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import SampleLake, content_id, contract, csv_file, csv_line, row_of
from lakehouse_tests.support.laws import law
from lakehouse_tests.support.reference_model import Record, deliver_again, live_rows
from lakehouse_tests.support.silver_histories import BACKWARD, BY_SPARK, DAYS, FORWARD, History, histories
from lakehouse_tests.support.small_pieces import pieces_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

    from lakehouse_tests.support.lake import Row

pytestmark = pytest.mark.spark


def content(rows: Iterable[Row]) -> dict[date, set[Row]]:
    """The values of the rows, without their origin, by event day."""
    by_day: dict[date, set[Row]] = {day: set() for day in DAYS}
    for row in rows:
        by_day[row[1]].add(row[:3])
    return by_day


def check(history: History, sample: SampleLake, *, by_sequence: bool) -> None:
    sample.lake.settings.local_rows, sample.lake.settings.file_bytes = history.local_rows, history.file_bytes
    sample.lake.settings.spark_remote = None  # of more rows than these, first ones are taken in pieces
    known: list[Record] = []
    delivered: list[str] = []

    def model() -> set[Row]:
        return {row_of(record) for record in live_rows(known, by_sequence=by_sequence).values()}

    def update(days: Iterable[date]) -> None:
        before = content(sample.silver())
        reported = sample.update(frozenset(days)).changes
        after = content(sample.silver())
        assert reported.keys() == {day for day in DAYS if before[day] != after[day]}, "impact is exact (R6)"

    for number, step in enumerate(history.steps):
        data = csv_file(map(csv_line, history.files[step.file]))
        name = content_id(data)
        sample.deliver(step.arrival, data, f".{number}.csv")
        report = sample.ingest(step.arrival)
        assert (len(report.ingested), len(report.redelivered)) == ((0, 1) if name in delivered else (1, 0))
        if name not in delivered:
            delivered.append(name)
        deliver_again(known, name, history.files[step.file], (step.arrival, f".{number}.csv"))
        if days := step.updated & set(sample.pending()):
            update(days)
        if len(delivered) == 2:
            early, expected_early = list(delivered), model()

    update(sample.pending())
    expected = model()
    assert sample.silver() == expected, "merged as R2 says"
    assert sample.pending() == []
    assert sample.rebuilt(DAYS) == expected, "rebuilt as R2 says (R3)"
    version = sample.silver_version()
    assert sample.update(DAYS).rebuilt == set(DAYS)
    assert sample.silver_version() == version, "a rebuild without effect makes no commit"
    assert sample.rebuilt(DAYS, early) == expected_early, "as of an earlier ingestion (R10)"
    assert len(sample.bronze()) == len(known), "every record once (R1)"
    account = dispositions_account.rows(sample.lake, sample.contract)
    assert len(account) == len(known), "every record has one disposition (R4)"
    alive = {(row.record_key, row.event_date, row.ingestion_id, row.line_number) for row in account if row.lives}
    assert alive == {(row[0], row[1], *row[4:]) for row in expected}, "what is applied is what silver holds (R4)"


SOURCES = pytest.mark.parametrize(
    "by_sequence", [False, pytest.param(True, marks=pytest.mark.proof)], ids=["by arrival", "by sequence"]
)


def run(history: History, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, *, by_sequence: bool) -> None:
    order = {"order": {"sequence": "seq"}} if by_sequence else {}
    if not by_sequence:
        history = replace(history, files=[[replace(record, sequence=0) for record in file] for file in history.files])
    sample = SampleLake(lake_in(tmp_path_factory.mktemp("lake")), contract(**order), spark)
    with pieces_of(history.piece_rows) if history.piece_rows else nullcontext():
        check(history, sample, by_sequence=by_sequence)


@pytest.mark.merge
@pytest.mark.timeout(2400)
@SOURCES
@law(25)
@example(history=FORWARD)
@example(history=BACKWARD)
@example(history=BY_SPARK)
@given(history=histories())
def test_silver_is_a_function_of_bronze(
    history: History, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, by_sequence: bool
) -> None:
    run(history, spark, tmp_path_factory, by_sequence=by_sequence)
