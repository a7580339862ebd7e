"""A promotion concurrent with readers and other publications, and stopped after any commit (R8, R11)."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse import locations
from lakehouse.delta import partition_writer
from lakehouse.gold.promotion import promotion, promotion_log
from lakehouse.ledger import publications
from lakehouse_tests.support import two_dataset_versions as total
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.silver_log import append_to_silver
from lakehouse_tests.support.stopped_commits import stopped_after_each_commit
from lakehouse_tests.support.two_dataset_versions import (
    V1,
    V2,
    at,
    catalog,
    latest_totals,
    metric,
    promote,
    publish_totals,
    rollback,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from deltalake import DeltaTable

    from lakehouse.lake import Lake


@pytest.mark.proof
def test_a_reader_sees_all_of_one_version_or_all_of_the_other(lake: Lake) -> None:
    at(lake, 20)
    days = range(1, 11)
    publish_totals(lake, V1, dict.fromkeys(days, 1))
    publish_totals(lake, V2, dict.fromkeys(days, 2))
    seen_totals: list[frozenset[int]] = []
    stop = threading.Event()

    def poll() -> None:
        while not stop.is_set():
            rows = latest_totals(lake)
            assert len(rows) == len(days)
            seen_totals.append(frozenset(rows.values()))

    reader = threading.Thread(target=poll)
    reader.start()
    try:
        for _ in range(3):
            promote(lake, catalog())
            rollback(lake, catalog())
    finally:
        stop.set()
        reader.join()
    assert set(seen_totals) <= {frozenset({1}), frozenset({2})}
    assert len(seen_totals) > 3


@pytest.mark.parametrize("published", [2, 1], ids=["a day that differs", "a day that does not"])
def test_a_day_that_is_published_meanwhile_is_not_lost(filled: Lake, monkeypatch: pytest.MonkeyPatch, published: int) -> None:
    once = iter([True])
    replace = partition_writer.replace

    def interrupted(table: DeltaTable, *args: Any, **kwargs: Any) -> bool:
        if kwargs.get("transaction") and next(once, False):
            publish_totals(filled, V1, {published: 99})
        return replace(table, *args, **kwargs)

    monkeypatch.setattr(partition_writer, "replace", interrupted)
    promote(filled, catalog())
    assert (2, None, 99, "manual", 1) in total.revisions(filled, published)
    assert latest_totals(filled) == {1: 10, 2: 22, 3: 30}


def outcome(lake: Lake) -> tuple[Any, ...]:
    names = ["event_date", "total", "revision", "is_latest", "reason", "dataset_version", "restatement_reason"]
    published = locations.gold(lake, V1).read(names)
    assert published is not None
    log = [
        (one.kind, one.to_version, one.periods, one.gold_version, one.release_notes) for one in promotion_log.of(lake, "total")
    ]
    told = [one.gold_version for one in publications.of(lake, "total")]
    return sorted(published.to_pylist(), key=str), log, told, promotion.shown_version(lake, metric())


@pytest.mark.merge
def test_a_stop_after_any_commit_changes_nothing(tmp_path_factory: pytest.TempPathFactory) -> None:
    def moved(run: Callable[[Callable[[], object]], object]) -> tuple[Any, ...]:
        lake = lake_in(tmp_path_factory.mktemp("lake"))
        at(lake, 3)
        version = append_to_silver(lake, ("a", 1, 10))
        publish_totals(lake, V1, {1: 10}, silver_version=version)
        publish_totals(lake, V2, {1: 11}, silver_version=version)
        run(lambda: promote(lake, catalog(), notes=lambda _: "notes"))
        at(lake, 4)
        run(lambda: rollback(lake, catalog()))
        return outcome(lake)

    stops: list[int] = []
    assert moved(lambda step: stops.append(stopped_after_each_commit(step))) == moved(lambda step: step())
    assert min(stops) >= 3


def test_the_same_again_changes_nothing(filled: Lake) -> None:
    promote(filled, catalog())
    before = outcome(filled)
    assert promote(filled, catalog()).plan is None
    assert outcome(filled) == before
    rollback(filled, catalog())
    before = outcome(filled)
    assert rollback(filled, catalog()).plan is None
    assert outcome(filled) == before
