"""Numbers in memory equal those of the table, however it was written and however they were brought up to date."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from lakehouse import locations
from lakehouse.gold.numbers import history as numbers_history
from lakehouse.gold.numbers.version_selector import choose, parse
from lakehouse.serving import snapshot
from lakehouse.serving.snapshot import Snapshot
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.laws import law
from lakehouse_tests.support.numbers_without_spark import ScriptedNumbers, metric, without_spark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakehouse.contracts.series import Series

ASKED = ("latest", "final", "first", "r1", "r2", "r2.a1", "v1", "2024-01-03", "2024-01-05T12:00:00Z")
STEPS = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3), st.integers(0, 5), st.booleans()), min_size=1, max_size=7)


@pytest.fixture(autouse=True, scope="module")
def _without_spark() -> Iterator[None]:
    with without_spark():
        yield


def taken(numbers: ScriptedNumbers, known: Snapshot | None) -> Snapshot:
    return snapshot.read(locations.gold(numbers.lake, numbers.series), numbers.series.by, known)


def versions_by_start(series: Series, snapshot: Snapshot) -> dict[Any, Any]:
    return {start: snapshot.periods[start].versions(series) for start in snapshot.starts}


@pytest.mark.merge
@law(100, in_each_run=4)
@given(steps=STEPS, closed=st.sampled_from(["restate", "adjust"]), grain=st.booleans())
def test_it_follows_the_table(tmp_path_factory, steps: list[tuple[int, int, int, bool]], closed: str, grain: bool) -> None:
    made = metric(publication={"after_close": closed, "final_after": 3}, grain=["store"] if grain else [])
    numbers = ScriptedNumbers(lake_in(tmp_path_factory.mktemp("lake")), made)
    followed, clock = taken(numbers, None), 1
    assert (followed.version, followed.starts) == (-1, [])
    for days_on, number, value, look in steps:
        clock += days_on
        numbers.at(clock)
        numbers.set(number, {"a": value, "b": 1} if grain else value)
        numbers.publish()
        before = followed
        if look:
            followed = taken(numbers, followed)
            kept = [start for start in before.starts if followed.files[start] == before.files[start]]
            assert all(followed.periods[start] is before.periods[start] for start in kept), "what did not change is not read"
    followed = taken(numbers, followed)
    assert taken(numbers, followed) is followed
    series, starts = numbers.series, numbers.starts()
    assert (
        versions_by_start(series, followed)
        == numbers_history.history(numbers.lake, series, starts)
        == versions_by_start(series, taken(numbers, None))
    )
    for start, versions in numbers_history.history(numbers.lake, series, starts).items():
        kept_ = followed.periods[start]
        for text in ASKED:
            answer, chosen = numbers_history.pick(versions, parse(text)), choose(kept_.summaries, parse(text))
            assert (answer is None) == (chosen is None)
            if answer and chosen:
                assert (kept_.version(series, chosen[0]), chosen[1]) == (answer.version, answer.note)


def test_files_that_were_put_together_by_others_are_read(tmp_path) -> None:
    numbers = ScriptedNumbers(lake_in(tmp_path), metric(grain=["store"]))
    for value in (1, 2, 3):
        numbers.at(value)
        numbers.set(1, {"a": value, "b": None})
        numbers.publish(1)
    followed = taken(numbers, None)
    table = DeltaTable(locations.gold(numbers.lake, numbers.series).address)
    table.optimize.z_order(["store"])
    again = taken(numbers, followed)
    assert again.version > followed.version
    assert versions_by_start(numbers.series, again) == versions_by_start(numbers.series, followed)
    table.vacuum(0, enforce_retention_duration=False, dry_run=False)
    assert versions_by_start(numbers.series, taken(numbers, None)) == versions_by_start(numbers.series, followed)


def test_a_column_that_came_later_is_empty_in_older_rows(tmp_path) -> None:
    numbers = ScriptedNumbers(lake_in(tmp_path), metric())
    numbers.set(1, 1)
    numbers.at(1)
    numbers.publish()
    more = [*numbers.metric.measures, numbers.metric.measures[0].model_copy(update={"name": "most"})]
    numbers.metric = numbers.metric.model_copy(update={"measures": more})
    followed = taken(numbers, None)
    numbers.at(2)
    numbers.set(2, 5)
    numbers.publish(2)
    followed = taken(numbers, followed)
    rows = [versions[0].rows for versions in versions_by_start(numbers.series, followed).values()]
    assert rows == [[{"total": 1, "most": None, "row_count": 1}], [{"total": 5, "most": 5, "row_count": 1}]]


def test_where_there_is_no_table_there_is_nothing(tmp_path) -> None:
    numbers = ScriptedNumbers(lake_in(tmp_path), metric())
    numbers.at(1)
    numbers.set(1, 1)
    numbers.publish()
    followed = taken(numbers, None)
    shutil.rmtree(locations.gold(numbers.lake, numbers.series).address)
    assert taken(numbers, followed) == Snapshot()
