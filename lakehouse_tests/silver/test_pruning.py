"""The poison test of R6: with the files of all other days gone, restating a day still succeeds, so it never read them."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakehouse import locations
from lakehouse.calendar.days import condition_among
from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.series import Series
from lakehouse.delta import commit_log
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.restatement import days as restatement_days
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.lake import table_parts
from lakehouse.lake.delta_rs_internals import listed_files
from lakehouse.silver import local_merge
from lakehouse_tests.support.lake import SampleLake, contract, csv_file
from lakehouse_tests.support.prepared_lake import prepare

if TYPE_CHECKING:
    from lakehouse.lake import Lake

pytestmark = pytest.mark.spark

EVENT_DAYS = [date(2024, 1, 1) + timedelta(days=number) for number in range(30)]
ARRIVALS = [date(2024, 2, 1), date(2024, 2, 2), date(2024, 2, 3)]
LATE = date(2024, 2, 9)
TOTAL = MetricContract.model_validate(
    {"metric": "total", "source": "events", "measures": [{"name": "total", "sql": "sum(amount)", "type": "long"}]}
)


def line(key: str, day: date, amount: int, arrival: date) -> str:
    return f"{key},{amount},{day}T12:00:00Z,{arrival}T06:00:00Z,correct,,0"


#: How many rows are merged in this process, and how many a file may hold that is read whole.
SIZES = {"few rows": (20_000, 2**18), "few rows to large days": (20_000, 0), "many rows": (0, 0)}
EACH = pytest.mark.parametrize("sample", [*list(SIZES)[:2], pytest.param("many rows", marks=pytest.mark.proof)], indirect=True)
EACH_BUT_SLOWLY = pytest.mark.parametrize(
    "sample", [*list(SIZES)[:2], pytest.param("many rows", marks=pytest.mark.proof)], indirect=True
)


@pytest.fixture
def sample(request, lake, spark, monkeypatch) -> SampleLake:
    """Thirty event days of one key each, which came on three arrival days, and the metric on top; each day has a file."""
    lake.settings.local_rows, held_rows = SIZES[request.param]
    lake.settings.file_bytes = 1
    monkeypatch.setattr(local_merge, "_HELD_ROWS", held_rows)

    def build(template: Lake) -> None:
        sample = SampleLake(template, contract(), spark)
        for number, arrival in enumerate(ARRIVALS):
            sample.deliver(arrival, csv_file(line(f"k{day.day}", day, 1, arrival) for day in EVENT_DAYS[number::3]))
            sample.ingest(arrival)
        sample.update()
        restate(sample)

    prepare(lake, ("thirty days", request.param), build)
    return SampleLake(lake, contract(), spark)


def restate(sample: SampleLake) -> set[date]:
    pending = find_pending(sample.lake, Series(TOTAL))
    return restatement_days.restate(
        sample.lake, sample.contract, Series(TOTAL), lambda: sample.spark, pending.starts, Run("run"), pending
    ).days


def poison(sample: SampleLake, *, sparing: set[date]) -> None:
    """Take away every data file of days that are not spared, in all layers."""
    gone = 0
    for stored in (
        locations.bronze(sample.lake, "events"),
        locations.silver(sample.lake, "events"),
        locations.gold(sample.lake, Series(TOTAL)),
    ):
        table = stored.snapshot()
        assert table is not None
        spared = {path for day, paths in table_parts.files(table).items() if day in sparing for path in paths}
        for path in set(listed_files(table)["path"].to_pylist()) - spared:
            Path(stored.address, path).unlink()
            gone += 1
    assert gone >= 30


def silver_of(sample: SampleLake, *days: date) -> set[tuple[str, date, int]]:
    """Silver's rows on some days: the whole table can no longer be read."""
    frame = sample.spark.read.format("delta").load(locations.silver(sample.lake, "events").address)
    rows = frame.where(condition_among("event_date", days)).select("record_key", "event_date", "amount").collect()
    return {tuple(row) for row in rows}


@pytest.mark.merge
@EACH
def test_a_late_row_reads_its_own_day_only(sample: SampleLake) -> None:
    day = EVENT_DAYS[10]
    poison(sample, sparing={day})
    sample.deliver(LATE, csv_file([line("late", day, 5, LATE)]))
    sample.ingest(LATE)
    assert set(sample.update().changes) == {day}
    assert silver_of(sample, day) == {("k11", day, 1), ("late", day, 5)}
    assert restate(sample) == {day}


@EACH_BUT_SLOWLY
def test_a_move_reads_its_two_days_only_and_is_one_commit(sample: SampleLake) -> None:
    old, new = EVENT_DAYS[10], EVENT_DAYS[20]
    poison(sample, sparing={old, new, ARRIVALS[1]})  # the account asks what the older row said, in its arrival day
    before = sample.silver_version()
    sample.deliver(LATE, csv_file([line("k11", new, 5, LATE)]))
    sample.ingest(LATE)
    assert set(sample.update().changes) == {old, new}
    table = locations.silver(sample.lake, "events").snapshot()
    assert table is not None
    methods = [commit_log.commit_metadata(commit).get("method") for commit in commit_log.history(table, before)]
    assert [method for method in methods if method != "layout"] == ["merge"]
    assert silver_of(sample, old, new) == {("k11", new, 5), ("k21", new, 1)}
    assert restate(sample) == {old, new}


@pytest.mark.merge
@EACH_BUT_SLOWLY
def test_a_rebuild_reads_only_its_day_and_the_arrivals_it_was_made_of(sample: SampleLake) -> None:
    day = EVENT_DAYS[10]
    poison(sample, sparing={day, ARRIVALS[1]})
    before = sample.silver_version()
    assert sample.update([day]).rebuilt == {day}
    assert sample.silver_version() == before
    assert silver_of(sample, day) == {("k11", day, 1)}
