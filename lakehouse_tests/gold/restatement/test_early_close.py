"""A person closes a period that waits: the number becomes final as it is, and the revision says who, why and without what."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.contracts.series import Series
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.restatement import days as restatement_days
from lakehouse.gold.restatement import early_close
from lakehouse.gold.restatement.early_close import CloseError
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.late_lake import LateLake, late
from lakehouse_tests.support.numbers_without_spark import ScriptedNumbers, day, metric, published_rows, without_spark
from lakehouse_tests.support.windowed_lake import BEGINS, FIRST, TUMBLING, Event

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakehouse.gold.publication.revisions import Revision
    from lakehouse.lake import Lake

CLOCKS = {"event": "event_time", "arrival": "arrived_at", "watermark": {"strategy": "bounded", "max_lateness": "PT6H"}}


@pytest.fixture(name="numbers")
def _numbers(lake: Lake) -> Iterator[ScriptedNumbers]:
    """A day of a source that has fallen silent, five days later."""
    with without_spark():
        numbers = ScriptedNumbers(lake, metric(publication={"final_after": 2}), source=contract(clocks=CLOCKS))
        numbers.set(1, 5)
        numbers.at(5)
        numbers.publish()
        yield numbers


def _no_session() -> Any:
    pytest.fail("the number is published as it is")


def close(numbers: ScriptedNumbers, number: int) -> Revision | None:
    period = numbers.series.period(day(number))
    return early_close.close(
        numbers.lake, numbers.source, numbers.series, period, Run("by hand", by="anna"), "audited", _no_session
    )


def test_the_number_stays_and_the_revision_names_the_person_and_what_is_missing(numbers: ScriptedNumbers) -> None:
    closed = close(numbers, 1)
    assert closed is not None
    assert numbers.history(1) == [("r1", 5, "live", False), ("r2", 5, "final", True)]
    [row] = [row for row in published_rows(numbers.lake, numbers.series) if row["is_latest"]]
    assert row["signed_off_by"] == "anna"
    assert row["sign_off_reason"].startswith("audited (missing: the watermark of events has not moved yet")
    assert close(numbers, 1) is None
    numbers.publish()
    assert numbers.history(1)[-1] == ("r2", 5, "final", True)


def test_the_calendar_comes_first_and_so_does_a_held_number(numbers: ScriptedNumbers) -> None:
    with pytest.raises(CloseError, match="nothing of total is published for 2024-01-04"):
        close(numbers, 4)
    numbers.set(4, 7)
    numbers.publish(4)
    with pytest.raises(CloseError, match="can be closed from 2024-01-06 on"):
        close(numbers, 4)
    numbers.metric = metric(publication={"final_after": 2}, checks={"row_count": {"min": 2}})
    numbers.set(1, 8)
    numbers.publish(1)
    with pytest.raises(CloseError, match="r2 of total 2024-01-01 is held"):
        close(numbers, 1)


@pytest.mark.merge
@pytest.mark.spark
def test_a_day_is_closed_with_the_rows_that_came_too_late(lake: Lake, spark: Any) -> None:
    sample = LateLake(lake, spark, [late(TUMBLING, "recompute")])
    [hourly] = sample.metrics
    sample.deliver_at(0, Event("a", 5), Event("b", 30), Event("next day", 25 * 60))
    sample.deliver_at(1, Event("beyond", 10, 100), Event("b", 31, 7))
    assert sample.numbers_of(hourly)[BEGINS] == (2, 2)
    lake.settings.now = datetime(2025, 2, 1, tzinfo=timezone.utc)
    series, source, run = Series(hourly), sample.sources["orders"], Run("by hand", by="anna")
    closed = early_close.close(lake, source, series, series.period(FIRST), run, "audited", sample.session)
    assert closed is not None
    assert (closed.name.revision, closed.state.value, closed.reason.value) == (2, "final", "late_data")
    assert sample.numbers_of(hourly)[BEGINS] == (108, 3)
    [why] = {row["restatement_reason"] for row in published_rows(lake, series) if row["is_latest"] and row["revision"] == 2}
    assert why == "late_data: 2 came too late, and count now that the day is closed"
    restatement_days.restate(lake, source, series, sample.session, [FIRST], Run("daily close"))
    assert {row["revision"] for row in published_rows(lake, series) if row["event_date"] == FIRST} == {1, 2}
    assert sample.unlike_published() == []
