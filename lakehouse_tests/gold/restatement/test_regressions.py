"""Corner cases of publishing that were wrong once. No Spark: silver's totals are given by hand."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime, timezone
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse import locations, pieces
from lakehouse.calendar.periods import Calendar, Kind
from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.series import Series
from lakehouse.gold.numbers import history as numbers_history
from lakehouse.gold.numbers.version_selector import UnknownVersionError, parse
from lakehouse.gold.publication import candidates, write_audit_publish
from lakehouse.gold.restatement.pending import find_due, find_pending
from lakehouse.lake import Lake
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.numbers_without_spark import ScriptedNumbers, day, metric, without_spark


@pytest.fixture(autouse=True)
def _by_hand() -> Iterator[None]:
    with without_spark():
        yield


HALF = {"checks": {"change": [{"measure": "total", "percent": 50}]}}


def test_a_number_that_was_refused_may_come_again_once_another_one_was_published(lake) -> None:
    numbers = ScriptedNumbers(lake, metric(**HALF))
    numbers.at(1)
    for value in (10, 100):
        numbers.set(1, value)
        numbers.publish()
    numbers.drop(1, 2)
    numbers.at(1, 1)
    numbers.publish()
    assert numbers.held() == [], "the same number is not proposed again"
    numbers.set(1, 14)
    numbers.publish()
    assert numbers.latest_total(1) == 14
    numbers.at(1, 2)
    numbers.set(1, 100)
    numbers.publish()
    assert numbers.held() == [(1, 3, 100)], "it says something again, beside another number"


def test_publishing_tells_how_many_numbers_are_checked(lake) -> None:
    numbers = ScriptedNumbers(lake, metric())
    numbers.at(1)
    numbers.set(1, 10)
    numbers.set(2, 20)
    told: list[tuple[str, int, int | None]] = []
    with pieces.listened_to_by(lambda *report: told.append(report), every=0):
        numbers.publish()
    assert told == [(f"numbers of {numbers.series.name} checked", done, 2) for done in (1, 2)]


def test_a_decision_leaves_a_newer_candidate_alone(lake) -> None:
    numbers = ScriptedNumbers(lake, metric(**HALF))
    numbers.at(1)
    for value in (10, 100):
        numbers.set(1, value)
        numbers.publish()
    (decided,) = candidates.held(lake, numbers.series)
    numbers.set(1, 200)
    numbers.publish()
    candidates.remove(lake, numbers.series, decided)
    assert numbers.held() == [(1, 2, 200)]
    candidates.remove(lake, numbers.series, candidates.held(lake, numbers.series)[0])
    assert numbers.held() == []


def test_the_days_of_a_metric_are_those_of_its_own_calendar(lake) -> None:
    numbers = ScriptedNumbers(lake, metric(publication={"timezone": "America/Los_Angeles"}))
    lake.settings.now = datetime(2024, 1, 2, 0, 20, tzinfo=timezone.utc)  # the first of January there still
    numbers.set(1, 10)
    numbers.publish()
    assert [line[2] for line in numbers.history(1)] == ["live"]
    assert find_due(lake, contract(), numbers.series) == []
    lake.settings.now = datetime(2024, 1, 2, 8, 20, tzinfo=timezone.utc)
    assert find_due(lake, contract(), numbers.series) == [day(1)]


def test_a_metric_of_many_measures_comes_to_its_end(lake) -> None:
    measures = [{"name": f"m{number}", "sql": "sum(amount)", "type": "long"} for number in range(40)]
    wide = MetricContract.model_validate({"metric": "wide", "source": "events", "measures": measures})
    numbers = ScriptedNumbers(lake, wide)
    numbers.at(1)
    numbers.by_day[day(1)] = pa.table({name: pa.array([1], pa.int64()) for name in numbers.series.content})
    numbers.publish()
    numbers.at(8)
    assert find_due(lake, contract(), numbers.series) == [day(1)]


def test_a_window_that_no_row_ends_on_is_published_when_its_delay_is_over(lake) -> None:
    numbers = ScriptedNumbers(lake, metric(window=3, publication={"start_delay": 2}))
    rows = pa.table({"record_key": ["a"], "event_date": pa.array([day(1)])})
    write_deltalake(locations.silver(lake, "events").address, rows, partition_by=["event_date"])
    numbers.at(4)
    assert find_due(lake, contract(), numbers.series) == [day(1), day(2)]


def test_a_version_of_another_period_is_not_answered_with_this_one(lake) -> None:
    numbers = ScriptedNumbers(lake)
    numbers.at(2)
    numbers.set(1, 10)
    numbers.set(2, 20)
    numbers.publish()
    period = Calendar().containing(day(2), Kind.DAY)
    assert numbers_history.version(lake, numbers.series, period, parse("total_v2024-01-02.r1")).version.revision == 1
    for name in ("total_v2024-01-01.r1", "other_v2024-01-02.r1"):
        with pytest.raises(UnknownVersionError, match="is a version of"):
            numbers_history.version(lake, numbers.series, period, parse(name))


@pytest.mark.merge
def test_a_longer_period_is_restated_for_the_reason_of_its_changed_days(lake) -> None:
    numbers = ScriptedNumbers(lake, metric(publication={"rollups": ["week"]}))
    week = Series(numbers.metric, Kind.WEEK)
    numbers.at(2)
    for number, value in ((1, 10), (1, 11), (2, 5)):
        numbers.set(number, value)
        numbers.publish()
        numbers.roll_up()
    known = numbers_history.history(lake, week, [day(1)])[day(1)]
    assert [one.reason.value for one in known] == ["initial", "manual", "initial"]
    assert known[-1].restatement_reason == "manual: recomputed from 2024-01-01", "a day that is added restates no week"
    assert [one.restates for one in known] == [False, True, False]


def test_where_silvers_log_was_cleaned_every_day_may_be_another_one(lake) -> None:
    table = locations.silver(lake, "events")
    for number in range(1, 6):
        rows = pa.table({"record_key": [f"k{number}"], "event_date": pa.array([date(2024, 1, number)])})
        write_deltalake(
            table.address, rows, partition_by=["event_date"], mode="append", configuration={"delta.enableChangeDataFeed": "true"}
        )
    numbers = ScriptedNumbers(lake)
    assert find_pending(lake, numbers.series).starts == {day(number) for number in range(1, 6)}
    assert find_pending(lake, numbers.series).causes
    DeltaTable(table.address).create_checkpoint()
    for number in range(3):
        Path(table.address, "_delta_log", f"{number:020}.json").unlink()
    pending = find_pending(Lake(lake.settings), numbers.series)  # as in a process that has not read the log before
    assert (pending.starts, pending.causes, pending.upstream_version) == ({day(number) for number in range(1, 6)}, {}, 4)


def test_a_number_that_stands_names_what_it_was_made_by(lake) -> None:
    numbers = ScriptedNumbers(lake, metric(**HALF))
    numbers.at(1)
    numbers.set(1, 10)
    numbers.publish()
    first = _newest_signature(numbers)
    other = replace(numbers, metric=metric(description="with another logic", consumers=["board"], **HALF))
    other.set(1, 100)
    other.publish()
    other.drop(1, 2)
    other.at(2)
    other.publish()
    assert [line[0] for line in other.history(1)] == ["r1", "r2"]
    assert _newest_signature(other) == first


def _newest_signature(numbers: ScriptedNumbers) -> dict[str, str]:
    before = write_audit_publish.read(numbers.lake, numbers.series, [day(1)])
    assert before.existing is not None
    newest = before.existing.filter(before.existing["is_latest"])
    return newest.select(["code_version", "contract_version", "inputs"]).to_pylist()[0]


def test_a_roll_up_follows_a_daily_table_that_was_created_again(lake) -> None:
    numbers = ScriptedNumbers(lake, metric(publication={"rollups": ["week"]}))
    week = Series(numbers.metric, Kind.WEEK)
    numbers.at(2)
    for value in (10, 11, 12):
        numbers.set(1, value)
        numbers.publish()
    numbers.roll_up()
    assert find_pending(lake, week).starts == frozenset()
    for path in (
        locations.gold(lake, numbers.series),
        locations.restatements(lake),
        locations.publications(lake),
    ):  # with its record
        shutil.rmtree(path.address)
    numbers.set(1, 13)
    numbers.publish()
    assert find_pending(lake, week).starts == {day(1)}
