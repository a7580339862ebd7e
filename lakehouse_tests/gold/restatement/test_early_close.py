"""A person closes a period that waits: the number becomes final as it is, and the revision says who, why and without what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.restatement import early_close
from lakehouse.gold.restatement.early_close import CloseError
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.numbers_without_spark import ScriptedNumbers, day, metric, published_rows, without_spark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakehouse.gold.publication.revisions import Revision
    from lakehouse.settings import Settings

CLOCKS = {"event": "event_time", "arrival": "arrived_at", "watermark": {"strategy": "bounded", "max_lateness": "PT6H"}}


@pytest.fixture(name="numbers")
def _numbers(settings: Settings) -> Iterator[ScriptedNumbers]:
    """A day of a source that has fallen silent, five days later."""
    with without_spark():
        numbers = ScriptedNumbers(settings, metric(publication={"final_after": 2}), source=contract(clocks=CLOCKS))
        numbers.set(1, 5)
        numbers.at(5)
        numbers.publish()
        yield numbers


def _no_session() -> Any:
    pytest.fail("the number is published as it is")


def close(numbers: ScriptedNumbers, number: int) -> Revision | None:
    period = numbers.series.period(day(number))
    return early_close.close(
        numbers.settings, numbers.source, numbers.series, period, Run("by hand", by="anna"), "audited", _no_session
    )


def test_the_number_stays_and_the_revision_names_the_person_and_what_is_missing(numbers: ScriptedNumbers) -> None:
    closed = close(numbers, 1)
    assert closed is not None
    assert numbers.history(1) == [("r1", 5, "live", False), ("r2", 5, "final", True)]
    [row] = [row for row in published_rows(numbers.settings, numbers.series) if row["is_latest"]]
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
