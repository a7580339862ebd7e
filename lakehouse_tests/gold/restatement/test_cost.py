"""What restating one day of a thousand writes: its own file and one in each roll-up, however many days there are.

Counted from the Delta logs, nothing is timed. Seconds are in ``benchmarks/publishing.py``.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.numbers_without_spark import ScriptedNumbers, day, metric, without_spark

if TYPE_CHECKING:
    from lakehouse.lake import Lake

FEW, MANY = 100, 1000
METRIC = metric(grain=["store"], publication={"rollups": ["week", "month"]}, checks={"row_count": {"trailing": {"days": 28}}})
OPERATIONAL = {"publications", "restatement_reports", "restatements", "inputs"}


def logged(lake: Lake) -> dict[str, list[dict[str, Any]]]:
    """Every action of every table's log, by table."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for commit in sorted(Path(lake.root).glob("*/*/_delta_log/*.json")):
        found[commit.parts[-3]] += [json.loads(line) for line in commit.read_text().splitlines()]
    return found


def since(lake: Lake, before: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    return {name: new for name, actions in logged(lake).items() if (new := actions[len(before.get(name, ())) :])}


def adds(actions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [action["add"] for action in actions if "add" in action]


def removes(actions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [action["remove"] for action in actions if "remove" in action]


def rolled(numbers: ScriptedNumbers) -> None:
    for one in numbers.series.rollups:
        numbers.roll_up(one.kind)


def restating_one_day(lake: Lake, days: int) -> dict[str, list[dict[str, Any]]]:
    """What is written for a changed number of a day in the middle of ``days``."""
    numbers = ScriptedNumbers(lake, METRIC)
    numbers.at(days + 5)
    for number in range(1, days + 1):
        numbers.set(number, {"north": number, "south": 1})
    numbers.publish()
    rolled(numbers)
    before = logged(lake)
    numbers.set(days // 2, {"north": 7, "south": 2})
    done = numbers.publish(days // 2)
    assert [one.start for one in done.revisions] == [day(days // 2)]
    rolled(numbers)
    return since(lake, before)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[str, list[dict[str, Any]]]]:
    with without_spark():
        return {days: restating_one_day(lake_in(tmp_path_factory.mktemp("lake")), days) for days in (FEW, MANY)}


@pytest.mark.proof
def test_one_file_of_the_day_and_one_of_each_roll_up(written) -> None:
    for days, tables in written.items():
        starts = {
            "total": ("event_date", day(days // 2)),
            "total_weekly": ("period_start", day((days // 2 - 1) // 7 * 7 + 1)),
            "total_monthly": ("period_start", day(days // 2).replace(day=1)),
        }
        for name, (column, start) in starts.items():
            [added], [removed] = adds(tables[name]), removes(tables[name])
            assert added["partitionValues"] == removed["partitionValues"] == {column: f"{start}"}
            assert json.loads(added["stats"])["numRecords"] == 4, "two revisions of two stores"
            assert sum("commitInfo" in action for action in tables[name]) == 1, "one commit"


@pytest.mark.proof
def test_few_other_files_are_written(written) -> None:
    for tables in written.values():
        beside = {name: actions for name, actions in tables.items() if not name.startswith("total") or "_candidates" in name}
        assert {name for name in beside if "_candidates" not in name} <= OPERATIONAL
        for name, actions in beside.items():
            assert len(adds(actions)) <= (1 if "_candidates" in name else 3), name
            assert len(removes(actions)) <= 1, name


@pytest.mark.proof
def test_as_much_in_a_thousand_days_as_in_a_hundred(written) -> None:
    def counted(tables: dict[str, list[dict[str, Any]]]) -> dict[str, tuple[int, int]]:
        return {name: (len(adds(actions)), len(removes(actions))) for name, actions in tables.items()}

    def size(tables: dict[str, list[dict[str, Any]]]) -> int:
        return sum(added["size"] for actions in tables.values() for added in adds(actions))

    few, many = written[FEW], written[MANY]
    assert counted(few) == counted(many)
    assert size(many) <= 1.05 * size(few)
    assert size(many) < 150_000, "twelve small files"


@pytest.mark.proof
def test_bringing_it_up_again_writes_nothing(lake) -> None:
    with without_spark():
        numbers = ScriptedNumbers(lake, METRIC)
        numbers.at(3)
        for number in (1, 2, 3):
            numbers.set(number, {"north": number})
        numbers.publish()
        rolled(numbers)
        before = logged(lake)
        numbers.publish()
        rolled(numbers)
        assert since(lake, before) == {}
