"""What a command that records a decision asks before it updates the numbers; without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.contracts import Catalog
from lakehouse.orchestration.commands import is_behind
from lakehouse_tests.support.numbers_without_spark import ScriptedNumbers, metric, without_spark

if TYPE_CHECKING:
    from lakehouse.lake import Lake


def test_a_command_repeated_after_a_kill_between_days_and_weeks_updates_the_weeks(lake: Lake) -> None:
    numbers = ScriptedNumbers(lake, metric(publication={"rollups": ["week"]}))
    catalog = Catalog({"events": numbers.source}, {"total": numbers.metric})
    with without_spark():
        for total in (100, 200):
            numbers.set(1, total)
            numbers.publish()
            assert is_behind(lake, catalog, "events"), "the week does not follow its day yet"
            numbers.roll_up()
            assert not is_behind(lake, catalog, "events")
