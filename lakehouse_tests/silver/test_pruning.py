"""The poison test of R6: with the files of all other days gone, restating a day still succeeds, so it never read them."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakehouse import locations
from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.series import Series
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.restatement import days as restatement_days
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.silver import local_merge
from lakehouse_tests.support.lake import Lake, contract, csv_file
from lakehouse_tests.support.prepared_lake import prepare

if TYPE_CHECKING:
    from lakehouse.settings import Settings

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
EACH = pytest.mark.parametrize("lake", [*list(SIZES)[:2], pytest.param("many rows", marks=pytest.mark.proof)], indirect=True)
EACH_BUT_SLOWLY = pytest.mark.parametrize(
    "lake", [*list(SIZES)[:2], pytest.param("many rows", marks=pytest.mark.proof)], indirect=True
)


@pytest.fixture
def lake(request, settings, spark, monkeypatch) -> Lake:
    """Thirty event days of one key each, which came on three arrival days, and the metric on top."""
    settings.local_rows, held_rows = SIZES[request.param]
    monkeypatch.setattr(local_merge, "_HELD_ROWS", held_rows)

    def build(template: Settings) -> None:
        lake = Lake(template, contract(), spark)
        for number, arrival in enumerate(ARRIVALS):
            lake.deliver(arrival, csv_file(line(f"k{day.day}", day, 1, arrival) for day in EVENT_DAYS[number::3]))
            lake.ingest(arrival)
        lake.update()
        restate(lake)

    prepare(settings, ("thirty days", request.param), build)
    return Lake(settings, contract(), spark)


def restate(lake: Lake) -> set[date]:
    pending = find_pending(lake.settings, Series(TOTAL))
    return restatement_days.restate(
        lake.settings, lake.contract, Series(TOTAL), lambda: lake.spark, pending.starts, Run("run"), pending
    ).days


def poison(lake: Lake, *, sparing: set[date]) -> None:
    """Take away every data file of days that are not spared, in all layers."""
    gone = 0
    for table in (
        locations.bronze(lake.settings, "events"),
        locations.silver(lake.settings, "events"),
        locations.gold(lake.settings, Series(TOTAL)),
    ):
        for file in Path(table).rglob("*.parquet"):
            partition = file.parent.name.partition("=")[2]
            if partition and date.fromisoformat(partition) not in sparing:
                file.unlink()
                gone += 1
    assert gone >= 30


def silver_of(lake: Lake, *days: date) -> set[tuple[str, date, int]]:
    """Silver's rows on some days: the whole table can no longer be read."""
    frame = lake.spark.read.format("delta").load(locations.silver(lake.settings, "events"))
    rows = frame.where(frame.event_date.isin(list(days))).select("record_key", "event_date", "amount").collect()
    return {tuple(row) for row in rows}


@pytest.mark.merge
@EACH
def test_a_late_row_reads_its_own_day_only(lake: Lake) -> None:
    day = EVENT_DAYS[10]
    poison(lake, sparing={day})
    lake.deliver(LATE, csv_file([line("late", day, 5, LATE)]))
    lake.ingest(LATE)
    assert set(lake.update().changes) == {day}
    assert silver_of(lake, day) == {("k11", day, 1), ("late", day, 5)}
    assert restate(lake) == {day}


@EACH_BUT_SLOWLY
def test_a_move_reads_its_two_days_only_and_is_one_commit(lake: Lake) -> None:
    old, new = EVENT_DAYS[10], EVENT_DAYS[20]
    poison(lake, sparing={old, new, ARRIVALS[1]})  # the account asks what the older row said, in its arrival day
    before = lake.silver_version()
    lake.deliver(LATE, csv_file([line("k11", new, 5, LATE)]))
    lake.ingest(LATE)
    assert set(lake.update().changes) == {old, new}
    assert lake.silver_version() == before + 1
    assert silver_of(lake, old, new) == {("k11", new, 5), ("k21", new, 1)}
    assert restate(lake) == {old, new}


@pytest.mark.merge
@EACH_BUT_SLOWLY
def test_a_rebuild_reads_only_its_day_and_the_arrivals_it_was_made_of(lake: Lake) -> None:
    day = EVENT_DAYS[10]
    poison(lake, sparing={day, ARRIVALS[1]})
    before = lake.silver_version()
    assert lake.update([day]).rebuilt == {day}
    assert lake.silver_version() == before
    assert silver_of(lake, day) == {("k11", day, 1)}
