"""The files of one run by hand are one delivery, whoever ingests them; the same command repeated is no second one."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.bronze import checks as bronze_checks
from lakehouse.bronze import pending_files
from lakehouse.bronze.ingest import Ingest
from lakehouse.dispositions import account
from lakehouse.lake import SimulatedClock
from lakehouse.ledger import ingestions
from lakehouse.project import delivery
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import contract, csv_file

if TYPE_CHECKING:
    from pathlib import Path

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake

DAY = date(2024, 2, 1)
#: The clock stands still, so that only the order of the runs can decide.
NOON = datetime(2024, 2, 1, 12, tzinfo=timezone.utc)


def source_under(policy: str, **rules: Any) -> SourceContract:
    rules = {"reprocess_policy": policy, **rules}
    return contract(materialization=rules, clocks={"event": "event_time"}, changes={})


def written(folder: Path, name: str, **amounts: int) -> Path:
    """A file of an event of 1 January for each key, whose name is the first letter of the argument."""
    path = folder / f"{name}.csv"
    path.write_bytes(csv_file([f"{key},{amount},2024-01-01T12:00:00Z,,,,0" for key, amount in amounts.items()]))
    return path


def run(lake: Lake, source: SourceContract, *files: Path) -> None:
    delivery.deliver(lake, source, files, DAY)
    ingest(lake, source)


def ingest(lake: Lake, source: SourceContract) -> None:
    Ingest(lake, source, lambda: pytest.fail("few rows need no Spark"), "run").day(DAY)


def living(lake: Lake, source: SourceContract) -> set[str]:
    """The rows that live, by key and file."""
    return {f"{row.record_key} of {row.source_file.split('.')[1]}" for row in account.rows(lake, source) if row.lives}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return lake_in(tmp_path).at(SimulatedClock(NOON))


@pytest.mark.parametrize("policy", ["overwrite_partition_safe", "overwrite_all"])
def test_the_second_run_of_a_day_replaces_what_the_first_has_brought(tmp_path: Path, lake: Lake, policy: str) -> None:
    source = source_under(policy)
    first, second = written(tmp_path, "b_first", a=1, b=2), written(tmp_path, "a_second", a=3, c=4)
    run(lake, source, first)
    assert living(lake, source) == {"a of b_first", "b of b_first"}
    run(lake, source, second)
    assert living(lake, source) == {"a of a_second", "c of a_second"}
    run(lake, source, first)
    assert living(lake, source) == {"a of b_first", "b of b_first"}, "a run by hand is a delivery of its own"
    run(lake, source, first)
    names = [entry.delivery for entry in ingestions.all_of(lake, "events")]
    assert sorted(names) == ["2024-02-01 run 0001", "2024-02-01 run 0002", "2024-02-01 run 0003"]


def test_the_files_of_one_run_add_up(tmp_path: Path, lake: Lake) -> None:
    source = source_under("overwrite_partition_safe")
    run(lake, source, written(tmp_path, "x", a=1), written(tmp_path, "y", b=2))
    assert living(lake, source) == {"a of x", "b of y"}


def test_files_that_wait_are_the_deliveries_that_they_came_in(tmp_path: Path, lake: Lake) -> None:
    source = source_under("overwrite_partition_safe")
    first, second = written(tmp_path, "first", a=1, b=2), written(tmp_path, "second", a=3, c=4)
    for files in ([first], [second], [first]):
        delivery.deliver(lake, source, files, DAY)
    ingest(lake, source)
    assert living(lake, source) == {"a of first", "b of first"}


@pytest.mark.parametrize(("how", "lives"), [("arrival_day", {"b of a", "c of b", "a of b"}), ("file", {"a of b", "c of b"})])
def test_a_contract_can_say_what_a_delivery_is(tmp_path: Path, lake: Lake, how: str, lives: set[str]) -> None:
    source = source_under("overwrite_partition_safe", delivery=how)
    run(lake, source, written(tmp_path, "a", a=1, b=2), written(tmp_path, "b", a=3, c=4))
    assert living(lake, source) == lives
    assert pending_files.runs_of_day(lake, source, DAY) == []


def test_known_content_that_senders_repeat_by_mistake_does_not_count_again(tmp_path: Path, lake: Lake) -> None:
    source = source_under("overwrite_partition_safe", repeated_content="ignored")
    first, second = written(tmp_path, "first", a=1, b=2), written(tmp_path, "second", a=3, c=4)
    for file in (first, second, first):
        run(lake, source, file)
    assert living(lake, source) == {"a of second", "c of second"}


def test_under_merge_a_run_by_hand_takes_a_correction_back(tmp_path: Path, lake: Lake) -> None:
    source = source_under("merge")
    first, second = written(tmp_path, "first", a=1), written(tmp_path, "second", a=3)
    for file, lives in ((first, "a of first"), (second, "a of second"), (first, "a of first")):
        run(lake, source, file)
        assert living(lake, source) == {lives}


def without_records(lake: Lake, source: SourceContract, *days: date) -> dict[date, str | None]:
    """The days that fail for a delivery without records, with the reason."""
    results = bronze_checks.check_bronze(lake, source, days)
    return {one.day: one.explanation for one in results if one.check == "delivery_has_records" and not one.passed}


def test_a_delivery_without_records_replaces_no_table_and_fails_until_a_later_one_has_some(tmp_path: Path, lake: Lake) -> None:
    source, later = source_under("overwrite_all"), DAY + timedelta(days=1)
    run(lake, source, written(tmp_path, "full", a=1))
    assert without_records(lake, source, DAY) == {}
    run(lake, source, written(tmp_path, "empty"))
    assert living(lake, source) == {"a of full"}
    assert "empty.csv has no record" in f"{without_records(lake, source, DAY)[DAY]}"
    delivery.deliver(lake, source, [written(tmp_path, "next", b=2), written(tmp_path, "part")], later)
    Ingest(lake, source, lambda: pytest.fail("few rows need no Spark"), "run").day(later)
    assert living(lake, source) == {"b of next"}
    assert without_records(lake, source, DAY, later) == {}, "an empty part of a delivery with records is none"


@pytest.mark.parametrize("policy", ["merge", "overwrite_partition_safe", "append"])
def test_a_delivery_without_records_is_no_problem_where_it_can_replace_nothing(tmp_path: Path, lake: Lake, policy: str) -> None:
    source = source_under(policy)
    run(lake, source, written(tmp_path, "full", a=1))
    run(lake, source, written(tmp_path, "empty"))
    assert without_records(lake, source, DAY) == {}
    assert living(lake, source) == {"a of full"}
