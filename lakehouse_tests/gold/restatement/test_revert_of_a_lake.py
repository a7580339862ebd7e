"""A reverted number of a real lake: it is reproduced, its week follows, silver goes on without it, and the release catches up."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.calendar.periods import Kind
from lakehouse.contracts.series import Series
from lakehouse.gold.numbers import history
from lakehouse.gold.numbers.version_selector import parse
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.restatement import reconciliation, revert, rollups
from lakehouse.gold.restatement.pending import find_pending
from lakehouse_tests.support.reproducible_lake import BIGGEST, TOTAL, ReproducibleLake, metric, reproducible_lake

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.spark

DAY = date(2024, 2, 1)
METRIC = metric("total", TOTAL, BIGGEST, publication={"rollups": ["week"]})
DAILY, WEEK = Series(METRIC), Series(METRIC, Kind.WEEK)


def shown(sample: ReproducibleLake, series: Series) -> tuple[str, Any, Any]:
    """The label and the measures of what readers see of the week, or of its first day."""
    newest = history.newest(sample.lake, series)[series.period(DAY).start]
    return newest.label, newest.rows[0]["total"], newest.rows[0]["biggest"]


def roll_up(sample: ReproducibleLake) -> None:
    pending = find_pending(sample.lake, WEEK)
    session: Callable[[], Any] = lambda: sample.sample.spark  # noqa: E731
    rollups.restate(sample.lake, sample.sample.contract, WEEK, session, pending.starts, Run("roll"), pending)


@pytest.mark.merge
def test_a_number_goes_back_and_its_release_catches_up(lake, spark) -> None:
    sample = reproducible_lake(lake, spark, [METRIC])
    sample.deliver(1, "a,1,1,insert,,red", "b,2,1,insert,,red")
    sample.publish()
    sample.deliver(2, "a,50,1,correct,,red", "c,4,2,insert,,red")
    sample.publish()
    roll_up(sample)
    assert (shown(sample, DAILY), shown(sample, WEEK)) == (("r2", 52, 50), ("r1", 56, 50))

    sample.at(3)
    run = Run("back", by="anna")
    revert.revert(lake, sample.sample.contract, DAILY, DAILY.period(DAY), parse("r1"), run, "the partner withdrew it")
    roll_up(sample)
    assert (shown(sample, DAILY), shown(sample, WEEK)) == (("r3", 3, 2), ("r2", 7, 4)), (
        "a measure that does not add up follows, too"
    )
    assert all(sample.reproduce(METRIC, DAY, revision).equal for revision in (1, 2, 3))
    assert find_pending(lake, DAILY).starts == set()

    sample.deliver(4, "d,100,1,insert,,red")
    sample.publish()
    roll_up(sample)
    assert (shown(sample, DAILY), shown(sample, WEEK)) == (("r3", 3, 2), ("r2", 7, 4))
    [outcome] = reconciliation.check_published(lake, DAILY, [DAY])
    assert outcome.passed
    assert "it was put back to r1 by anna" in (outcome.explanation or "")

    sample.at(5)
    assert revert.release(lake, WEEK, WEEK.period(DAY), "ben", "it is right after all") == [DAY]
    assert find_pending(lake, DAILY).starts == {DAY}
    sample.publish()
    roll_up(sample)
    assert (shown(sample, DAILY), shown(sample, WEEK)) == (("r4", 152, 100), ("r3", 156, 100))
    assert find_pending(lake, DAILY).starts == set()
    assert sample.reproduce(METRIC, DAY, 4).equal
