"""What a run by hand says of the event days that a delivery replaces; without a lake."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timezone
from types import SimpleNamespace
from typing import TYPE_CHECKING

from lakehouse.bronze.ingest import DayReport
from lakehouse.cli import number_report
from lakehouse.contracts.source import SourceContract
from lakehouse.gold.numbers.comparison import Sides
from lakehouse.ledger.ingestions import Ingestion
from lakehouse.ledger.row_states import AdmissionStatus
from lakehouse.orchestration.execution.single_run import SingleRun
from lakehouse.silver import replaced_days
from lakehouse.silver.replaced_days import Replaced, replaced_by
from lakehouse_tests.support.empty_lake import lake_in

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pytest

DAYS = [date(2024, 11, number) for number in range(1, 9)]
RECORDED = datetime(2024, 11, 9, tzinfo=timezone.utc)
BEFORE = dict.fromkeys(DAYS[:6], 10)


def source(policy: str) -> SourceContract:
    return SourceContract.model_validate(
        {
            "dataset": "flow",
            "primary_key": ["id"],
            "model": {"fields": [{"name": "id", "type": "string"}]},
            "clocks": {"event": "at"},
            "materialization": {"reprocess_policy": policy},
        }
    )


def file(*days: date, rows: Sequence[int] = ()) -> Ingestion:
    return Ingestion(
        "flow",
        "1",
        "1",
        RECORDED.date(),
        "flow.csv",
        1,
        None,
        touched_days=[*days],
        touched_rows=[*rows],
        status="ingested",
        run_id="r",
        recorded_at=RECORDED,
    )


def replaced(policy: str, *files: Sequence[date]) -> Replaced | None:
    days = {day for of_file in files for day in of_file}
    return replaced_by(source(policy), [file(*of_file) for of_file in files], BEFORE, {**BEFORE, **dict.fromkeys(days, 3)})


def test_days_between_those_of_a_delivery_that_it_lacks_are_absent() -> None:
    done = replaced("overwrite_partition_safe", DAYS[1:3], [DAYS[4]])
    assert done == Replaced({DAYS[1]: (10, 3), DAYS[2]: (10, 3), DAYS[4]: (10, 3)}, 3, (DAYS[3],)), (
        "the first and the last day lie outside of what was sent"
    )


def test_a_day_without_rows_is_not_absent_and_a_delivery_without_rows_lacks_none() -> None:
    assert replaced("overwrite_partition_safe", [DAYS[5], DAYS[7]]) == Replaced({DAYS[5]: (10, 3), DAYS[7]: (0, 3)}, 5)
    assert replaced("overwrite_partition_safe") == Replaced({}, 6)


def test_of_a_whole_table_no_day_is_absent_and_under_merge_nothing_is_replaced() -> None:
    assert replaced("overwrite_all", [DAYS[0], DAYS[2]]) == Replaced(
        {day: (10, 3 if day in (DAYS[0], DAYS[2]) else 10) for day in DAYS[:6]}, 0
    )
    assert replaced("merge", [DAYS[0], DAYS[2]]) is None


def test_an_absent_day_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    number_report.print_run(SingleRun(rows=6, malformed=0, known=0, replaced=Replaced({DAYS[1]: (10, 3)}, 3, (DAYS[3],))), "flow")
    assert (
        "absent from the files, although days before and after came: 2024-11-04; they stay as they were"
        in capsys.readouterr().out
    )


def test_rows_that_the_contract_does_not_admit_are_counted_with_the_cause(capsys: pytest.CaptureFixture[str]) -> None:
    barred = {(AdmissionStatus.REJECTED, "rule positive"): 2, (AdmissionStatus.DROPPED, "beyond the cutoff"): 1}
    number_report.print_run(SingleRun(rows=6, malformed=0, known=0, not_admitted=barred), "flow")
    waiting = {(AdmissionStatus.QUARANTINED, "rule known_shop"): 1}
    number_report.print_run(SingleRun(rows=6, malformed=1, known=0, not_admitted=waiting, unread_reason="not CSV"), "flow")
    first, _, second, *_ = capsys.readouterr().out.splitlines()
    assert first == (
        "6 rows ingested, 1 dropped (beyond the cutoff), 2 rejected (rule positive); 'lakehouse source account flow' counts them."
    )
    assert second == (
        "6 rows ingested, 1 malformed: not CSV; 'lakehouse rows flow --malformed' lists them; 1 waiting for a steward "
        "(rule known_shop); 'lakehouse quarantine list flow' lists those that wait."
    )


def test_days_that_silver_does_not_have_yet_are_absent_from_a_later_delivery(tmp_path: Path) -> None:
    lake, contract = lake_in(tmp_path), source("overwrite_partition_safe")
    first, week = file(DAYS[0], DAYS[1], DAYS[2], rows=[1, 1, 1]), file(DAYS[0], DAYS[2], rows=[1, 1])
    assert replaced_days.absent_from(lake, contract, [[first], [week], []]) == [[], [DAYS[1]], []]
    assert replaced_days.absent_from(lake, source("merge"), [[first], [week]]) == [[], []]


def test_files_of_a_day_that_count_again_are_delivered_with_it_and_files_found_again_are_not() -> None:
    new, again, found_again = file(DAYS[0]), replace(file(DAYS[1]), status="redelivered"), replace(file(), status="redelivered")
    report = DayReport(ingested=[new], redelivered=[again, found_again])
    assert report.delivered == [new, again]


def test_a_measure_that_had_no_total_before_is_new_in_the_first_revision_only() -> None:
    first, later = (SimpleNamespace(revision=revision, rows=[{}, {}]) for revision in (1, 2))
    assert number_report.sides_text(Sides(None, 3), first) == "3 (new)"
    assert number_report.sides_text(Sides(None, 3), later) == "3"
    assert number_report.sides_text(Sides(2, 3), later) == "2 -> 3 (+1, +50.00 %)"
