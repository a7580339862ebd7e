"""Numbers in memory say what the table says, however it came to be and however they were brought up to date. No JVM."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from lakehouse import locations
from lakehouse.gold.numbers import history as numbers_history
from lakehouse.gold.numbers.version_selector import choose, parse
from lakehouse.serving.http import snapshot
from lakehouse.serving.http.snapshot import Snapshot
from lakehouse_tests.support.lake_settings import lake_settings
from lakehouse_tests.support.numbers_without_spark import Desk, metric, without_spark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakehouse.contracts.series import Series

ASKED = ("latest", "final", "first", "r1", "r2", "r2.a1", "v1", "2024-01-03", "2024-01-05T12:00:00Z")
STEPS = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3), st.integers(0, 5), st.booleans()), min_size=1, max_size=7)


@pytest.fixture(autouse=True, scope="module")
def _without_spark() -> Iterator[None]:
    with without_spark():
        yield


def taken(desk: Desk, known: Snapshot | None) -> Snapshot:
    return snapshot.read(desk.settings, locations.gold(desk.settings, desk.series), desk.series.by, known)


def said(one: Series, found: Snapshot) -> dict[Any, Any]:
    return {start: found.periods[start].versions(one) for start in found.starts}


@examples(max_examples=20, deadline=None, derandomize=True)
@given(steps=STEPS, closed=st.sampled_from(["restate", "adjust"]), grain=st.booleans())
def test_it_follows_the_table(tmp_path_factory, steps: list[tuple[int, int, int, bool]], closed: str, grain: bool) -> None:
    made = metric(publication={"after_close": closed, "final_after": 3}, grain=["store"] if grain else [])
    desk = Desk(lake_settings(tmp_path_factory.mktemp("lake")), made)
    followed, clock = taken(desk, None), 1
    assert (followed.version, followed.starts) == (-1, [])
    for days_on, number, value, look in steps:
        clock += days_on
        desk.at(clock)
        desk.say(number, {"a": value, "b": 1} if grain else value)
        desk.publish()
        before = followed
        if look:
            followed = taken(desk, followed)
            kept = [start for start in before.starts if followed.files[start] == before.files[start]]
            assert all(followed.periods[start] is before.periods[start] for start in kept), "what did not change is not read"
    followed = taken(desk, followed)
    assert taken(desk, followed) is followed
    one, starts = desk.series, desk.starts()
    assert said(one, followed) == numbers_history.history(desk.settings, one, starts) == said(one, taken(desk, None))
    for start, versions in numbers_history.history(desk.settings, one, starts).items():
        kept_ = followed.periods[start]
        for text in ASKED:
            answer, chosen = numbers_history.pick(versions, parse(text)), choose(kept_.summaries, parse(text))
            assert (answer is None) == (chosen is None)
            if answer and chosen:
                assert (kept_.version(one, chosen[0]), chosen[1]) == (answer.version, answer.note)


def test_files_that_were_put_together_by_others_are_read(tmp_path) -> None:
    desk = Desk(lake_settings(tmp_path), metric(grain=["store"]))
    for value in (1, 2, 3):
        desk.at(value)
        desk.say(1, {"a": value, "b": None})
        desk.publish(1)
    followed = taken(desk, None)
    table = DeltaTable(locations.gold(desk.settings, desk.series))
    table.optimize.z_order(["store"])
    again = taken(desk, followed)
    assert again.version > followed.version
    assert said(desk.series, again) == said(desk.series, followed)
    table.vacuum(0, enforce_retention_duration=False, dry_run=False)
    assert said(desk.series, taken(desk, None)) == said(desk.series, followed)


def test_a_column_that_came_later_is_empty_in_older_rows(tmp_path) -> None:
    desk = Desk(lake_settings(tmp_path), metric())
    desk.say(1, 1)
    desk.at(1)
    desk.publish()
    more = [*desk.metric.measures, desk.metric.measures[0].model_copy(update={"name": "most"})]
    desk.metric = desk.metric.model_copy(update={"measures": more})
    followed = taken(desk, None)
    desk.at(2)
    desk.say(2, 5)
    desk.publish(2)
    followed = taken(desk, followed)
    rows = [versions[0].rows for versions in said(desk.series, followed).values()]
    assert rows == [[{"total": 1, "most": None, "row_count": 1}], [{"total": 5, "most": 5, "row_count": 1}]]


def test_where_there_is_no_table_there_is_nothing(tmp_path, monkeypatch) -> None:
    desk = Desk(lake_settings(tmp_path), metric())
    desk.at(1)
    desk.say(1, 1)
    desk.publish()
    followed = taken(desk, None)
    monkeypatch.setattr(snapshot, "_REOPEN", -1.0)
    shutil.rmtree(locations.gold(desk.settings, desk.series))
    assert taken(desk, followed) == Snapshot()
