"""Processes that publish at the same moment: nothing is lost, no number is given twice, one number of a period is the newest.

Each repeats all of it from a fresh read after a conflict; real processes, tables and commits, no Spark.
"""

from __future__ import annotations

import multiprocessing
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse import locations
from lakehouse.calendar.periods import Kind
from lakehouse.contracts.series import Series
from lakehouse.delta import row_writer
from lakehouse.gold.publication import revisions
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.restatement import days as restatement_days
from lakehouse.gold.restatement import rollups
from lakehouse.lake import Table
from lakehouse.ledger import publications
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.numbers_without_spark import (
    ScriptedNumbers,
    day,
    lawful_versions,
    metric,
    published_rows,
    without_spark,
)

if TYPE_CHECKING:
    from multiprocessing.synchronize import Barrier

    from lakehouse.lake import Lake

#: Processes are forked from one that has imported this module and used nothing of it: threads of delta-rs and Arrow, which a fork
#: would lose, have not been started there. A new interpreter each would import for longer than it publishes.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload([__name__])
METRIC = metric(publication={"rollups": ["month"]})


def publisher(lake: Lake, number: int, value: int, start: Barrier) -> None:
    """One process: publishes one number of one day, at the same time as all the others."""
    with without_spark():
        numbers = ScriptedNumbers(lake, METRIC)
        numbers.set(number, value)
        start.wait(120)
        restatement_days.restate(lake, contract(), numbers.series, numbers.session, [day(number)], Run(f"run {value}"))


def together(lake: Lake, totals: list[tuple[int, int]]) -> None:
    start = PROCESSES.Barrier(len(totals))
    processes = [PROCESSES.Process(target=publisher, args=(lake, *total, start)) for total in totals]
    for process in processes:
        process.start()
    for process in processes:
        process.join(180)
    assert [process.exitcode for process in processes] == [0] * len(totals)


def complete(lake: Lake, series: Series) -> None:
    """Each commit of numbers is recorded in the ledger once, whichever process recorded it."""
    publications.follow(lake, series.name, locations.gold(lake, series))
    entries = publications.of(lake, series.name)
    assert len({entry.gold_version for entry in entries}) == len(entries)
    named = sorted(name for entry in entries for name in entry.published.values())
    assert named == sorted({row["version_name"] for row in published_rows(lake, series)})
    assert {entry.publication_id for entry in entries} == {row["publication_id"] for row in published_rows(lake, series)}


@pytest.mark.merge
@pytest.mark.parametrize(
    "table_exists", [False, pytest.param(True, marks=pytest.mark.proof)], ids=["the first ones", "in a table that is there"]
)
def test_different_periods(lake, table_exists: bool) -> None:
    numbers = ScriptedNumbers(lake, METRIC)
    numbers.at(10)
    count = 20 if table_exists else 6
    if table_exists:
        with without_spark():
            for number in range(1, count + 1):
                numbers.set(number, 0)
            numbers.publish()
    together(lake, [(number, 100 + number) for number in range(1, count + 1)])
    expected = [(day(number), 100 + number) for number in range(1, count + 1)]
    assert [(start, value) for start, _, value, _, newest in lawful_versions(lake, numbers.series) if newest] == expected
    assert len(lawful_versions(lake, numbers.series)) == count * (2 if table_exists else 1)
    complete(lake, numbers.series)
    assert len(publications.restatements_of(lake, "total")) == count + table_exists
    with without_spark():
        numbers.roll_up(Kind.MONTH)
    assert numbers.latest_total(1, Series(METRIC, Kind.MONTH)) == sum(value for _, value in expected)


@pytest.mark.merge
def test_the_same_period(lake) -> None:
    numbers = ScriptedNumbers(lake, METRIC)
    numbers.at(1)
    together(lake, [(1, 100 + number) for number in range(5)])
    told = lawful_versions(lake, numbers.series)
    assert {value for _, _, value, _, _ in told} == {100, 101, 102, 103, 104}
    assert len(told) == 5, "each once"
    complete(lake, numbers.series)


@pytest.mark.merge
def test_the_same_number_of_the_same_period(lake) -> None:
    numbers = ScriptedNumbers(lake, METRIC)
    numbers.at(1)
    together(lake, [(1, 100)] * 4)
    assert lawful_versions(lake, numbers.series) == [(day(1), "r1", 100, "live", True)]
    complete(lake, numbers.series)


def test_a_roll_up_that_meets_another_one_is_added_up_again(lake) -> None:
    """A sum of older days is not published after a newer one."""
    month = Series(METRIC, Kind.MONTH)
    with without_spark(), pytest.MonkeyPatch.context() as patched:
        numbers = ScriptedNumbers(lake, METRIC)
        numbers.at(3)
        for number in (1, 2):
            numbers.set(number, 10)
        numbers.publish()
        real, came = revisions.publish, []

        def meeting(*args: Any, **more: Any) -> Any:
            if not came and args[1].kind is Kind.MONTH:
                came.append(True)
                numbers.set(2, 20)
                numbers.publish()
                rollups.restate(lake, contract(), month, numbers.session, [day(1)], Run("other"))
            return real(*args, **more)

        patched.setattr(revisions, "publish", meeting)
        numbers.roll_up(Kind.MONTH)
        assert came
        assert [line[1] for line in numbers.history(1, month)] == [30]
        numbers.roll_up(Kind.MONTH)
        assert [line[1] for line in numbers.history(1, month)] == [30]
    complete(lake, month)


def test_two_runs_that_update_the_ledger_at_the_same_moment(lake) -> None:
    """The second one has read how far the ledger is before the first one writes, and knows of one commit more."""
    with without_spark(), pytest.MonkeyPatch.context() as patched:
        numbers = ScriptedNumbers(lake, METRIC)
        numbers.at(1)
        numbers.set(1, 0)
        numbers.publish()
        patched.setattr(publications, "follow", lambda *_: 0)
        for value in (1, 2):
            numbers.set(1, value)
            numbers.publish()
        patched.undo()
    real, first = row_writer.append, [True]

    def append_late(table: Table, *args: Any, **more: Any) -> bool:
        if first:
            first.clear()
            early = locations.gold(lake, numbers.series).snapshot()
            assert early is not None
            early.load_as_version(early.version() - 1)
            with pytest.MonkeyPatch.context() as older:
                opened = Table.open
                older.setattr(Table, "open", lambda table: early if table == numbers_table else opened(table))
                assert publications.follow(lake, "total", numbers_table) == 1
        return real(table, *args, **more)

    numbers_table = locations.gold(lake, numbers.series)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(row_writer, "append", append_late)
        assert publications.follow(lake, "total", numbers_table) == 1
    complete(lake, numbers.series)
