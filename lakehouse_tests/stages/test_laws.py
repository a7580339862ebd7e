"""The laws of staged rows: they are what silver holds once the stage is promoted, whatever has arrived before and meanwhile."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse import locations
from lakehouse.bronze.ingest import Ingest
from lakehouse.stages import side_tables, validation
from lakehouse.stages.stage_log import StageError
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import ROW, SampleLake, content_id, contract, csv_file, csv_line, row_of, rows_once
from lakehouse_tests.support.laws import law
from lakehouse_tests.support.reference_model import Record, deliver_again, live_rows
from lakehouse_tests.support.silver_histories import DAYS, record_at, records

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from pyspark.sql import SparkSession

    from lakehouse.lake import Lake
    from lakehouse_tests.support.lake import Row

pytestmark = pytest.mark.spark

ARRIVALS = [date(2024, 2, day) for day in (1, 2, 3, 4)]
POLICIES = ["merge", "overwrite_partition_safe", "overwrite_all", "append"]


@dataclass(frozen=True)
class Staged:
    """The files that have arrived before a stage, those of the stage, and those that arrive while it waits, with arrival days."""

    before: Sequence[tuple[date, Sequence[Record]]]
    staged: Sequence[tuple[date, Sequence[Record]]]
    meanwhile: Sequence[tuple[date, Sequence[Record]]]
    local_rows: int = 100_000


@st.composite
def staged_histories(draw: st.DrawFn) -> Staged:
    pool = draw(st.lists(records(), min_size=4, max_size=8))
    files = st.tuples(st.sampled_from(ARRIVALS), st.lists(st.sampled_from(pool), min_size=1, max_size=4))
    parts = [draw(st.lists(files, min_size=count, max_size=2)) for count in (1, 1, 0)]
    return Staged(*parts, draw(st.sampled_from([100_000, 0])))  # merged in the process, or computed by Spark


class StagedLake:
    """A lake with a stage; files are numbered, so that their names differ."""

    def __init__(self, lake: Lake, spark: SparkSession, policy: str) -> None:
        changes: dict[str, Any] = {} if policy == "merge" else {"changes": {}}
        self.sample = SampleLake(lake, contract(materialization={"reprocess_policy": policy}, **changes), spark)
        self.stage = lake.stage("fix")
        self._count = 0

    def file(self, folder: Path, arrival: date, rows: Sequence[Record]) -> None:
        self._count += 1
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"arrival_date={arrival}.{self._count:02}.csv").write_bytes(csv_file(map(csv_line, rows)))

    def deliver(self, files: Iterable[tuple[date, Sequence[Record]]]) -> None:
        """Deliver files, and bring silver up to date."""
        for arrival, rows in files:
            self.file(Path(f"{self.sample.lake.settings.landing}"), arrival, rows)
            self.sample.ingest(arrival)
        if self.sample.pending():
            self.sample.update()

    def create(self, files: Iterable[tuple[date, Sequence[Record]]], folder: Path) -> None:
        """Stage files."""
        for arrival, rows in files:
            self.file(folder, arrival, rows)
        validation.copy_files(self.stage, self.sample.contract, [folder], ARRIVALS[0])
        validation.ingest_staged(self.stage, self.sample.contract, lambda: self.sample.spark, "stage")

    def side(self) -> tuple[set[date], set[Row]]:
        """The days that the stage changes, and its rows on them."""
        spark, lake, source = self.sample.spark, self.sample.lake, self.sample.contract
        computed = side_tables.compute(
            spark, lake, self.stage, source, side_tables.reached_days(lake, self.stage, source), seed=0
        )
        rows = rows_once(locations.silver(self.stage, "events").read(list(ROW)))
        assert computed.compared.rows[1] == len(rows)
        return set(computed.days), rows

    def promote(self) -> None:
        """Ingest the files of the stage as a promotion does, and bring silver up to date."""
        lake = self.sample.lake.with_settings(landing=self.stage.landing_of("events"))
        days = validation.staged_arrival_days(self.stage, self.sample.contract)
        Ingest(lake, self.sample.contract, lambda: self.sample.spark, "promotion").days(days)
        if self.sample.pending():
            self.sample.update()


def on(rows: Iterable[Row], days: Collection[date]) -> set[Row]:
    return {row for row in rows if row[1] in days}


def check(history: Staged, sample: StagedLake, folder: Path) -> None:
    sample.deliver(history.before)
    before = sample.sample.silver()
    sample.create(history.staged, folder)
    sample.sample.lake.settings.local_rows = history.local_rows
    if locations.silver(sample.sample.lake, "events").open() is None:  # nothing but deletes of unknown keys
        with pytest.raises(StageError, match="no rows yet"):
            sample.side()
        return
    days, rows = sample.side()
    assert sample.sample.silver() == before, "a stage changes nothing that readers see"
    expected_elsewhere = {row for row in before if row[1] not in days}
    if not history.meanwhile:
        sample.promote()
        after = sample.sample.silver()
        assert on(after, days) == rows, "the staged rows are those of the promotion"
        assert {row for row in after if row[1] not in days} == expected_elsewhere, "no other day changes"
        assert days == {day for day in DAYS if on(before, [day]) != on(after, [day])}, "exactly the days that change"
        return
    sample.deliver(history.meanwhile)
    shutil.rmtree(f"{sample.stage.root}/silver")  # as a stage that is computed again
    days, rows = sample.side()
    sample.promote()
    assert on(sample.sample.silver(), days) == rows, "what has arrived meanwhile is in the promoted state"


def without_rows_that_need_changes(history: Staged) -> Staged:
    """Only inserts: the policies that overwrite or append take no changes of keys."""

    def plain(files: Sequence[tuple[date, Sequence[Record]]]) -> list[tuple[date, list[Record]]]:
        return [
            (arrival, [replace(row, op="insert", corrects=None, day=row.day or DAYS[0]) for row in rows])
            for arrival, rows in files
        ]

    return Staged(plain(history.before), plain(history.staged), plain(history.meanwhile), history.local_rows)


BEFORE = [(ARRIVALS[0], [record_at(1, "a", "insert", 0), record_at(1, "b", "insert", 1), record_at(1, "c", "insert", 2)])]
CHANGES = [(ARRIVALS[1], [record_at(3, "a", "correct", 3), record_at(2, "b", "delete", None), record_at(1, "c", "correct", 2)])]
#: A row moves, one is deleted, one comes again as it was, and so does a whole file; merged in the process.
ALONE = Staged(BEFORE, [*CHANGES, *BEFORE], [])
#: What is newer than the stage arrives while it waits.
OVERTAKEN = Staged(BEFORE, CHANGES, [(ARRIVALS[2], [record_at(4, "a", "correct", 1), record_at(4, "d", "insert", 3)])])


@pytest.mark.proof
@pytest.mark.timeout(2400)
@law(60)
@example(policy="merge", history=ALONE)
@example(policy="merge", history=OVERTAKEN)
@example(policy="overwrite_partition_safe", history=ALONE)
@example(policy="overwrite_all", history=OVERTAKEN)
@example(policy="append", history=replace(ALONE, local_rows=0))  # by Spark
@given(policy=st.sampled_from(POLICIES), history=staged_histories())
def test_staged_rows_are_those_of_the_promoted_lake(
    policy: str, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, history: Staged
) -> None:
    root = tmp_path_factory.mktemp("lake")
    sample = StagedLake(lake_in(root), spark, policy)
    check(history if policy == "merge" else without_rows_that_need_changes(history), sample, root / "feed")


@law(25)
@example(history=ALONE)
@example(history=OVERTAKEN)
@given(history=staged_histories())
def test_a_promoted_stage_ends_as_the_model_says(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, history: Staged
) -> None:
    root = tmp_path_factory.mktemp("lake")
    sample = StagedLake(lake_in(root), spark, "merge")
    sample.deliver(history.before)
    sample.create(history.staged, root / "feed")
    sample.deliver(history.meanwhile)
    sample.promote()
    known: list[Record] = []
    for number, (arrival, rows) in enumerate([*history.before, *history.staged, *history.meanwhile], 1):
        of_file = [replace(row, sequence=0) for row in rows]
        deliver_again(known, content_id(csv_file(map(csv_line, rows))), of_file, (arrival, f".{number:02}.csv"))
    expected = live_rows(known, by_sequence=False)
    assert sample.sample.silver() == {row_of(record) for record in expected.values()}
