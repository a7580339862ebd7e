"""Readers are moved to another dataset version and back: all numbers at once, with a reason, and nothing is lost."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from lakehouse import locations
from lakehouse.calendar.periods import Kind
from lakehouse.contracts.series import Series
from lakehouse.delta import provenance
from lakehouse.gold.numbers import history as numbers_history
from lakehouse.gold.numbers import served_version
from lakehouse.gold.numbers.version_selector import parse
from lakehouse.gold.promotion import promotion, promotion_log
from lakehouse.gold.restatement import rollups
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.ledger import publications
from lakehouse_tests.support import two_dataset_versions as total
from lakehouse_tests.support.two_dataset_versions import (
    TOTAL,
    V1,
    V2,
    at,
    catalog,
    day,
    latest_totals,
    metric,
    promote,
    publish_totals,
    refusal,
    rollback,
)

if TYPE_CHECKING:
    from lakehouse.lake import Lake

SHOWN_AS_V2 = Series(metric(2), called="total")


def test_all_that_differs_is_shown_in_one_commit_with_the_reason(filled: Lake) -> None:
    before = DeltaTable(locations.gold(filled, V1).address).version()
    done = promote(filled, catalog())
    assert DeltaTable(locations.gold(filled, V1).address).version() == before + 1
    assert latest_totals(filled) == {1: 10, 2: 22, 3: 30}
    assert total.revisions(filled, 2) == [(1, None, 20, "initial", 1), (2, None, 22, "manual", 2)]
    assert [len(total.revisions(filled, number)) for number in (1, 3)] == [1, 1]
    assert latest_totals(filled, column="restatement_reason")[2] == "promoted to v2 by ana: net of refunds"
    assert latest_totals(filled, column="signed_off_by")[2] == "ana"
    assert served_version.daily(filled, catalog(), metric()) == SHOWN_AS_V2
    assert (done.move.from_version, done.move.to_version, done.move.periods) == (1, 2, 1)
    assert publications.of(filled, "total")[-1].published == {"2024-02-02": "total_v2024-02-02.r2"}


def test_there_and_back_and_there_again(filled: Lake) -> None:
    promote(filled, catalog())
    at(filled, 6)
    publish_totals(filled, SHOWN_AS_V2, {3: 33, 4: 44})
    at(filled, 7)
    done = rollback(filled, catalog())
    assert latest_totals(filled) == {1: 10, 2: 20, 3: 30, 4: 44}
    assert total.revisions(filled, 2)[-1] == (3, None, 20, "rollback", 1)
    assert latest_totals(filled, column="restatement_reason")[3] == "rolled back to v1 by ana: it was wrong"
    assert done.plan is not None
    assert done.plan.left == [day(4)]
    assert served_version.daily(filled, catalog(), metric()) == V1
    publish_totals(filled, V2, {4: 44})
    at(filled, 8)
    promote(filled, catalog())
    assert latest_totals(filled) == {1: 10, 2: 22, 3: 30, 4: 44}
    assert [(one.kind.value, one.to_version, one.periods) for one in promotion_log.of(filled, "total")] == [
        ("promote", 2, 1),
        ("rollback", 1, 2),
        ("promote", 2, 1),
    ]


def test_equal_numbers_are_moved_by_a_commit_of_its_own(lake: Lake) -> None:
    at(lake, 3)
    publish_totals(lake, V1, {1: 10})
    publish_totals(lake, V2, {1: 10})
    before = DeltaTable(locations.gold(lake, V1).address).version()
    assert promote(lake, catalog()).move.periods == 0
    assert promotion.shown_version(lake, metric()) == 2
    assert rollback(lake, catalog()).move.periods == 0
    assert promotion.shown_version(lake, metric()) == 1
    assert DeltaTable(locations.gold(lake, V1).address).version() == before + 2
    assert total.revisions(lake, 1) == [(1, None, 10, "initial", 1)]


@pytest.mark.merge
def test_a_version_in_between_is_found_again(filled: Lake) -> None:
    known = catalog(metric(1), metric(2), metric(3))
    promote(filled, known)
    publish_totals(filled, Series(metric(3)), {1: 11, 2: 23, 3: 33})
    promote(filled, known, 3)
    rollback(filled, known)
    assert latest_totals(filled) == {1: 10, 2: 22, 3: 30}  # the first and the last came out as those of v1
    assert total.revisions(filled, 2)[-1] == (4, None, 22, "rollback", 2)
    rollback(filled, known, 1)
    assert latest_totals(filled) == {1: 10, 2: 20, 3: 30}


def test_reading_as_of_times_before_and_after_the_promotion(filled: Lake) -> None:
    promote(filled, catalog())
    promoted_at = filled.now()
    at(filled, 7)
    rollback(filled, catalog())
    period = V1.period(day(2))
    expected = {
        (promoted_at - timedelta(seconds=1)).isoformat(): 20,
        promoted_at.isoformat(): 22,
        "2024-02-06": 22,
        "latest": 20,
        "v2": 22,
        "v1": 20,
        "r2": 22,
    }
    found = {text: numbers_history.version(filled, V1, period, parse(text)).version.rows[0]["total"] for text in expected}
    assert found == expected


def test_new_numbers_of_the_version_come_along(filled: Lake) -> None:
    publish_totals(filled, V2, {4: 40})
    promote(filled, catalog())
    assert total.revisions(filled, 4) == [(1, None, 40, "initial", 2)]


def test_a_new_measure_is_added_and_an_ended_one_has_to_be_accepted(filled: Lake) -> None:
    known = catalog(metric(1), metric(2), metric(3, TOTAL, TOTAL | {"name": "orders"}))
    publish_totals(filled, Series(known.metrics["total_v3"]), {1: 10, 2: 20, 3: 30})
    promote(filled, known, 3)
    assert latest_totals(filled, column="orders") == {1: 10, 2: 20, 3: 30}
    assert total.revisions(filled, 1) == [(1, None, 10, "initial", 1), (2, None, 10, "manual", 3)]
    assert "v2 has no orders: it would be NULL" in refusal(lambda: promote(filled, known))
    promote(filled, known, accepted=True)
    assert latest_totals(filled, column="orders") == {1: None, 2: None, 3: None}
    assert latest_totals(filled) == {1: 10, 2: 22, 3: 30}
    assert promotion_log.of(filled, "total")[-1].accepted == ["v2 has no orders: it would be NULL from now on"]


def test_the_comparison_may_be_of_some_days(filled: Lake) -> None:
    found = promotion.compare(filled, catalog(), metric(), 2)
    assert (found.from_version, found.to_version, found.first, found.last) == ("v1", "v2", "2024-02-01", "2024-02-03")
    assert [(one.period, one.before, one.after) for one in found.changed()] == [("2024-02-02", 20, 22)]
    assert promotion.compare(filled, catalog(), metric(), 2, first=day(3)).periods == ("2024-02-03",)


def test_roll_ups_follow_the_move(lake: Lake) -> None:
    first, second = (metric(number, publication={"rollups": ["week"]}) for number in (1, 2))
    known = catalog(first, second)
    at(lake, 14)
    publish_totals(lake, Series(first), {5: 10, 12: 20})
    publish_totals(lake, Series(second), {5: 10, 12: 22})

    def follow() -> list[str]:
        daily = served_version.daily(lake, known, first)
        weekly = Series(daily.metric, Kind.WEEK, daily.called)
        waiting = find_pending(lake, weekly)
        rollups.restate(
            lake, known.sources["events"], weekly, lambda: pytest.fail("no Spark"), waiting.starts, total.ANA, waiting
        )
        return [weekly.period(start).name for start in sorted(waiting.starts)]

    assert follow() == ["2024-W06", "2024-W07"]
    promote(lake, known)
    assert follow() == ["2024-W07"]
    found = lake.table("gold", "total_weekly").read(["total"], {"is_latest": [True]})
    assert found is not None
    assert sorted(found["total"].to_pylist()) == [10, 22]


def test_a_version_goes_on_following_silver_where_it_stopped() -> None:
    assert served_version.follower(V1) == "total"
    assert served_version.follower(V2) == "total_v2"
    assert served_version.follower(SHOWN_AS_V2) == "total@v2"
    assert served_version.follower(Series(metric(2), Kind.WEEK, "total")) == "total_weekly"


def test_numbers_of_another_version_are_not_published(filled: Lake) -> None:
    table = locations.gold(filled, V1).snapshot()
    assert served_version.transaction(V1, table) == ("lakehouse:dataset_version", 1)
    assert served_version.transaction(V2, table) is None
    with pytest.raises(served_version.MovedError, match="gold/total shows v1 now, but these numbers were computed with v2"):
        served_version.transaction(SHOWN_AS_V2, table)


def test_a_number_keeps_the_contract_that_it_was_computed_under(filled: Lake) -> None:
    computed = provenance.of_contract(metric(2))
    promote(filled, catalog(metric(1), metric(2, TOTAL | {"sql": "sum(net)"})))
    assert latest_totals(filled, column="contract_version")[2] == computed
