"""Processes that publish at the same moment: nothing is lost, no number is given twice, one number of a period is the newest.

Each makes all of it again from a fresh read when it met another one; real processes, tables and commits, no Spark.
"""

from __future__ import annotations

import multiprocessing
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse import locations
from lakehouse.calendar.periods import Kind
from lakehouse.contracts.series import Series
from lakehouse.delta import table_io
from lakehouse.gold.publication import revisions
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.restatement import days as restatement_days
from lakehouse.gold.restatement import rollups
from lakehouse.ledger import publications, restatements
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.numbers_without_spark import Desk, day, lawful, metric, rows, without_spark

if TYPE_CHECKING:
    from multiprocessing.synchronize import Barrier

    from lakehouse.settings import Settings

PROCESSES = multiprocessing.get_context("spawn")  # threads of delta-rs and Arrow do not live through a fork
METRIC = metric(publication={"rollups": ["month"]})


def publisher(settings: Settings, number: int, value: int, start: Barrier) -> None:
    """One process: says one number of one day, together with all the others."""
    with without_spark():
        desk = Desk(settings, METRIC)
        desk.say(number, value)
        start.wait(120)
        restatement_days.restate(settings, desk.series, desk.session, [day(number)], Run(f"run {value}"))


def together(settings: Settings, said: list[tuple[int, int]]) -> None:
    start = PROCESSES.Barrier(len(said))
    processes = [PROCESSES.Process(target=publisher, args=(settings, *one, start)) for one in said]
    for process in processes:
        process.start()
    for process in processes:
        process.join(180)
    assert [process.exitcode for process in processes] == [0] * len(said)


def complete(settings: Settings, one: Series) -> None:
    """Each commit of numbers is told in the ledger, once, whichever process came to tell it."""
    publications.follow(settings, one.name, locations.gold(settings, one))
    told = publications.of(settings, one.name)
    assert len({entry.gold_version for entry in told}) == len(told)
    named = sorted(name for entry in told for name in entry.published.values())
    assert named == sorted({row["version_name"] for row in rows(settings, one)})
    assert {entry.publication_id for entry in told} == {row["publication_id"] for row in rows(settings, one)}


@pytest.mark.parametrize("there", [False, True], ids=["the first ones", "in a table that is there"])
def test_different_periods(settings, there: bool) -> None:
    desk = Desk(settings, METRIC)
    desk.at(10)
    count = 20 if there else 6
    if there:
        with without_spark():
            for number in range(1, count + 1):
                desk.say(number, 0)
            desk.publish()
    together(settings, [(number, 100 + number) for number in range(1, count + 1)])
    expected = [(day(number), 100 + number) for number in range(1, count + 1)]
    assert [(start, value) for start, _, value, _, newest in lawful(settings, desk.series) if newest] == expected
    assert len(lawful(settings, desk.series)) == count * (2 if there else 1)
    complete(settings, desk.series)
    assert len(restatements.of(settings, "total")) == count + there
    with without_spark():
        desk.roll(Kind.MONTH)
    assert desk.shown(1, Series(METRIC, Kind.MONTH)) == sum(value for _, value in expected)


def test_the_same_period(settings) -> None:
    desk = Desk(settings, METRIC)
    desk.at(1)
    together(settings, [(1, 100 + number) for number in range(5)])
    told = lawful(settings, desk.series)
    assert {value for _, _, value, _, _ in told} == {100, 101, 102, 103, 104}
    assert len(told) == 5, "each once"
    complete(settings, desk.series)


def test_the_same_number_of_the_same_period(settings) -> None:
    desk = Desk(settings, METRIC)
    desk.at(1)
    together(settings, [(1, 100)] * 4)
    assert lawful(settings, desk.series) == [(day(1), "r1", 100, "live", True)]
    complete(settings, desk.series)


def test_a_roll_up_that_meets_another_one_is_added_up_again(settings) -> None:
    """The sum that was made of older days is not what is published behind a newer one."""
    month = Series(METRIC, Kind.MONTH)
    with without_spark(), pytest.MonkeyPatch.context() as patched:
        desk = Desk(settings, METRIC)
        desk.at(3)
        for number in (1, 2):
            desk.say(number, 10)
        desk.publish()
        real, came = revisions.publish, []

        def meeting(*args: Any, **more: Any) -> Any:
            if not came and args[1].kind is Kind.MONTH:
                came.append(True)
                desk.say(2, 20)
                desk.publish()
                rollups.restate(settings, contract(), desk.series, month, desk.session, [day(1)], Run("other"))
            return real(*args, **more)

        patched.setattr(revisions, "publish", meeting)
        desk.roll(Kind.MONTH)
        assert came
        assert [line[1] for line in desk.history(1, month)] == [30]
        desk.roll(Kind.MONTH)
        assert [line[1] for line in desk.history(1, month)] == [30]
    complete(settings, month)


def test_two_runs_that_tell_the_ledger_at_the_same_moment(settings) -> None:
    """The second one has read how far the ledger is before the first one writes, and knows of one commit more."""
    with without_spark(), pytest.MonkeyPatch.context() as patched:
        desk = Desk(settings, METRIC)
        desk.at(1)
        desk.say(1, 0)
        desk.publish()
        patched.setattr(publications, "follow", lambda *_: 0)
        for value in (1, 2):
            desk.say(1, value)
            desk.publish()
        patched.undo()
    real, first = table_io.append, [True]

    def behind(path: str, *args: Any, **more: Any) -> bool:
        if first:
            first.clear()
            early = table_io.open_table(locations.gold(settings, desk.series))
            assert early is not None
            early.load_as_version(early.version() - 1)
            with pytest.MonkeyPatch.context() as older:
                opened = table_io.open_table
                older.setattr(table_io, "open_table", lambda path, *rest: early if path == early_path else opened(path, *rest))
                assert publications.follow(settings, "total", early_path) == 1
        return real(path, *args, **more)

    early_path = locations.gold(settings, desk.series)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(table_io, "append", behind)
        assert publications.follow(settings, "total", early_path) == 1
    complete(settings, desk.series)
