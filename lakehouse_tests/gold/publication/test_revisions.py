"""What becomes of a table of published numbers: revisions, states, the clock, new columns, and other engines (rule R7).

What must hold of every such table is in ``lawful_versions``; here the real tables are written, and no Spark runs.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import duckdb_extension_delta
import pytest
from deltalake import DeltaTable

from lakehouse import locations
from lakehouse.calendar.periods import Kind
from lakehouse.contracts.series import Series
from lakehouse.gold.numbers.lifecycle import RevisionReason
from lakehouse.gold.publication import revisions
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.restatement import rollups
from lakehouse.gold.restatement.pending import find_due, find_pending
from lakehouse.ledger import publications
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.numbers_without_spark import (
    ScriptedNumbers,
    columns_of_day,
    day,
    lawful_versions,
    metric,
    published_rows,
    without_spark,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _without_spark() -> Iterator[None]:
    with without_spark():
        yield


def test_a_number_through_its_life(lake) -> None:
    numbers = ScriptedNumbers(lake)
    numbers.at(1, 20)
    numbers.set(1, 10)
    numbers.publish()
    assert numbers.history(1) == [("r1", 10, "live", True)]
    assert columns_of_day(numbers, 1, "due_on", "reason") == [(day(2), "initial")]
    numbers.at(1, 21)
    numbers.set(1, 14)
    numbers.publish()
    numbers.at(2)
    numbers.close()
    numbers.at(3)
    numbers.publish(1)
    numbers.at(8)
    numbers.close()
    numbers.set(1, 9)
    numbers.at(9)
    numbers.publish()
    assert numbers.history(1) == [
        ("r1", 10, "live", False),
        ("r2", 14, "live", False),
        ("r3", 14, "preliminary", False),
        ("r4", 14, "final", False),
        ("r5", 9, "final", True),
    ]
    told = columns_of_day(numbers, 1, "reason", "due_on", "restated_on")
    assert [row[0] for row in told] == ["initial", "manual", "daily_finalization", "daily_finalization", "manual"]
    restated = datetime(2024, 1, 1, 21, tzinfo=timezone.utc)
    assert [row[2] for row in told] == [None, *[restated] * 3, datetime(2024, 1, 9, tzinfo=timezone.utc)]
    assert {row[1] for row in told} == {None}


def test_equal_content_makes_no_commit(lake) -> None:
    numbers = ScriptedNumbers(lake, metric(grain=["store"], type="decimal(18,2)"))
    numbers.at(1)
    numbers.set(1, {"north": "1.50", "south": "2.00"})
    numbers.publish()
    version = DeltaTable(locations.gold(lake, numbers.series).address).version()
    numbers.at(1, 5)
    numbers.set(1, {"south": "2.0", "north": "1.5"})
    assert numbers.publish().revisions == []
    assert DeltaTable(locations.gold(lake, numbers.series).address).version() == version
    numbers.set(1, {"north": "2.00", "south": "1.50"})
    assert [f"{one.name}" for one in numbers.publish().revisions] == ["total_v2024-01-01.r2"], "the same total is another number"


def test_a_day_that_is_emptied_says_so_and_may_come_back(lake) -> None:
    numbers = ScriptedNumbers(lake)
    numbers.at(1)
    for value in (3, None, 4):
        numbers.set(1, value)
        numbers.publish(1)
    assert numbers.history(1) == [("r1", 3, "live", False), ("r2", None, "live", False), ("r3", 4, "live", True)]
    numbers.set(1, None)
    numbers.publish(1, 2)
    assert numbers.history(2) == [], "a day without rows that nobody knows of is not published"


def test_many_periods_in_one_commit(lake) -> None:
    numbers = ScriptedNumbers(lake)
    numbers.at(3)
    for number in (1, 2, 3):
        numbers.set(number, number)
    numbers.publish()
    before = DeltaTable(locations.gold(lake, numbers.series).address).version()
    for number in (1, 3):
        numbers.set(number, 9)
    numbers.publish()
    assert DeltaTable(locations.gold(lake, numbers.series).address).version() == before + 1
    assert [numbers.latest_total(number) for number in (1, 2, 3)] == [9, 2, 9]
    assert [len(numbers.history(number)) for number in (1, 2, 3)] == [2, 1, 2]
    [first, second] = publications.of(lake, "total")
    assert set(second.published) == {"2024-01-01", "2024-01-03"}
    assert (first.gold_version, second.gold_version) == (before, before + 1)


@pytest.mark.merge
def test_a_clock_that_goes_back(lake) -> None:
    """A replay of March after one of June: what is published later is seen later all the same."""
    numbers = ScriptedNumbers(lake)
    numbers.at(6)
    numbers.set(1, 1)
    numbers.publish()
    for number, value in ((3, 2), (1, 3), (9, 4), (2, 5)):
        numbers.at(number)
        numbers.set(1, value)
        numbers.publish()
    assert [(line[1], line[2]) for line in numbers.history(1)] == [
        (1, "preliminary"),
        (2, "preliminary"),
        (3, "preliminary"),
        (4, "final"),
        (5, "final"),
    ]
    published = [row[0] for row in columns_of_day(numbers, 1, "published_at")]
    assert published == sorted(published)


def test_a_start_delay_is_waited_for(lake) -> None:
    numbers = ScriptedNumbers(lake, metric(publication={"start_delay": 2, "preliminary_after": 2}))
    numbers.set(1, 1)
    for number in (1, 2):
        numbers.at(number)
        numbers.publish()
        assert published_rows(lake, numbers.series) == []
    numbers.at(3)
    numbers.publish()
    assert numbers.history(1) == [("r1", 1, "preliminary", True)]


def test_what_is_due_is_known_from_the_log_alone(lake) -> None:
    numbers = ScriptedNumbers(lake)
    numbers.at(2)
    for number in (1, 2):
        numbers.set(number, number)
    numbers.publish()
    for number, expected in ((2, []), (3, [2]), (7, [2]), (8, [1, 2])):
        numbers.at(number)
        assert find_due(lake, contract(), numbers.series) == [day(one) for one in expected]
    numbers.close()
    assert find_due(lake, contract(), numbers.series) == []
    numbers.at(9)
    numbers.close()
    assert [numbers.history(number)[-1][2] for number in (1, 2)] == ["final", "final"]
    numbers.at(90)
    assert find_due(lake, contract(), numbers.series) == []


def test_a_new_measure_makes_a_new_number(lake) -> None:
    numbers = ScriptedNumbers(lake)
    numbers.at(1)
    numbers.set(1, 5)
    numbers.set(2, 6)
    numbers.publish()
    numbers.metric = metric()
    two = [*numbers.metric.measures, numbers.metric.measures[0].model_copy(update={"name": "other"})]
    numbers.metric = numbers.metric.model_copy(update={"measures": two})
    numbers.set(1, 5)
    numbers.publish(1)
    assert numbers.history(1) == [("r1", 5, "live", False), ("r2", 5, "live", True)]
    assert columns_of_day(numbers, 1, "other") == [(None,), (5,)]
    assert columns_of_day(numbers, 2, "other") == [(None,)], "the other day waits until it is made anew"
    numbers.set(2, 6)
    numbers.publish()
    assert numbers.history(2) == [("r1", 6, "live", False), ("r2", 6, "live", True)]
    assert numbers.publish().revisions == []


def test_a_measure_that_is_gone_from_the_contract(lake) -> None:
    numbers = ScriptedNumbers(lake)
    two = [*numbers.metric.measures, numbers.metric.measures[0].model_copy(update={"name": "other"})]
    numbers.metric = numbers.metric.model_copy(update={"measures": two})
    numbers.at(1)
    numbers.set(1, 5)
    numbers.publish()
    numbers.metric = metric()
    numbers.set(1, 5)
    numbers.publish()
    assert columns_of_day(numbers, 1, "total", "other") == [(5, 5), (5, None)]
    assert len(numbers.history(1)) == 2


def test_somebody_else_publishes_the_same_period(lake) -> None:
    """What was read is outdated by then: the commit fails, and is repeated from a fresh read."""
    numbers = ScriptedNumbers(lake)
    numbers.at(1)
    numbers.set(1, 1)
    numbers.publish()
    real, came = revisions.publish, []

    def meeting(*args: Any, **more: Any) -> Any:
        if not came:
            came.append(True)
            other = ScriptedNumbers(lake)
            other.set(1, 2)
            other.publish()
        return real(*args, **more)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(revisions, "publish", meeting)
        numbers.set(1, 3)
        done = numbers.publish()
    assert [one.name.revision for one in done.revisions] == [3]
    assert [line[:2] for line in numbers.history(1)] == [("r1", 1), ("r2", 2), ("r3", 3)]


@pytest.mark.merge
def test_every_reader_sees_the_same(lake) -> None:
    """The filters that the documentation gives, in DuckDB and in delta-rs, at each moment of a history."""
    numbers = ScriptedNumbers(
        lake, metric(grain=["store"], type="decimal(18,2)", publication={"after_close": "adjust", "rollups": ["week"]})
    )
    for hour, values in enumerate(({"n": "1.00", "s": "2.00"}, {"n": "1.50", "s": None}, {"w": "7.00"})):
        numbers.at(1, hour)
        numbers.set(1, values)
        numbers.set(2, {"n": f"{hour}.25"})
        numbers.publish()
        numbers.roll_up()
    numbers.at(12)
    numbers.close()
    numbers.set(1, {"n": "3.00"})
    numbers.at(13)
    numbers.publish()
    connection = duckdb.connect()
    extension = next(Path(duckdb_extension_delta.__file__).parent.rglob("delta.duckdb_extension"))
    connection.execute(f"LOAD '{extension}'; SET TimeZone = 'UTC'")
    for series in (numbers.series, Series(numbers.metric, Kind.WEEK)):
        versions, rows = lawful_versions(lake, series), published_rows(lake, series)
        columns = f"{series.by}, store, total"

        def queried(where: str, columns: str = columns, series: Series = series) -> list[tuple[Any, ...]]:
            found = connection.execute(
                f"SELECT {columns} FROM delta_scan('{locations.gold(lake, series)}') WHERE {where}"
            ).fetchall()
            return sorted(found, key=str)

        def mine(rows: list[dict[str, Any]], series: Series = series) -> list[tuple[Any, ...]]:
            return sorted(((row[series.by], row["store"], row["total"]) for row in rows), key=str)

        newest = locations.gold(lake, series).read(None, {"is_latest": [True]})
        assert newest is not None
        assert queried("is_latest") == mine(newest.to_pylist()) == mine([row for row in rows if row["is_latest"]])
        assert len({row[0] for row in queried("is_latest")}) == len({version[0] for version in versions})
        moments = sorted({row["published_at"] for row in rows})
        for moment in [moments[0] - timedelta(hours=1), *moments, *(time + timedelta(minutes=1) for time in moments)]:
            seen = queried(
                f"published_at <= '{moment.isoformat()}' AND (superseded_at IS NULL OR superseded_at > '{moment.isoformat()}') "
                "AND adjustment IS NULL"
            )
            last: dict[Any, int] = {}
            for row in rows:
                if row["published_at"] <= moment and row["adjustment"] is None:
                    last[row[series.by]] = max(last.get(row[series.by], 0), row["revision"])
            current = [row for row in rows if row["adjustment"] is None and row["revision"] == last.get(row[series.by])]
            assert seen == mine(current)


def test_the_reason_that_a_run_gives(lake) -> None:
    numbers = ScriptedNumbers(lake)
    numbers.at(1)
    for value, run_reason in (
        (1, RevisionReason.BACKFILL),
        (2, RevisionReason.BUG_REPLAY),
        (3, None),
        (4, RevisionReason.ROLLBACK),
    ):
        numbers.set(1, value)
        numbers.publish(reason=run_reason)
    assert [row[0] for row in columns_of_day(numbers, 1, "reason")] == ["initial", "bug_replay", "manual", "rollback"]


@pytest.mark.parametrize(
    ("run_reason", "reason"), [(None, "late_data"), (RevisionReason.BACKFILL, "late_data"), (RevisionReason.MANUAL, "manual")]
)
def test_a_rollup_gives_the_reason_of_its_late_day_also_in_a_backfill(lake, run_reason: RevisionReason, reason: str) -> None:
    numbers = ScriptedNumbers(lake, metric(publication={"rollups": ["week"]}))
    numbers.at(1)
    for number, of_the_day in ((1, None), (2, RevisionReason.LATE_DATA)):
        numbers.set(1, number)
        numbers.publish(reason=of_the_day)
        weeks = Series(numbers.metric, Kind.WEEK)
        pending = find_pending(lake, weeks)
        rollups.restate(lake, contract(), weeks, numbers.session, pending.starts, Run("roll", reason=run_reason), pending)
    assert [row["reason"] for row in sorted(published_rows(lake, weeks), key=lambda row: row["revision"])] == [
        "initial",
        reason,
    ]
