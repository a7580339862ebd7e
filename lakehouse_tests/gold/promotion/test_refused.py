"""What forbids a promotion: each with a message that names the way out, and nothing has changed."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from lakehouse import locations
from lakehouse.contracts.series import Series
from lakehouse.gold.numbers import served_version
from lakehouse.gold.numbers.comparison import Threshold
from lakehouse.gold.numbers.lifecycle import PublishAction, RevisionReason, State
from lakehouse.gold.numbers.served_version import UnservedVersionError
from lakehouse.gold.promotion import promotion
from lakehouse.gold.publication import candidates
from lakehouse.gold.publication.candidates import Draft
from lakehouse_tests.support import two_dataset_versions as total
from lakehouse_tests.support.silver_log import append_to_silver
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


def test_periods_without_a_number_are_named_with_the_command(filled: Lake) -> None:
    at(filled, 6)
    publish_totals(filled, V1, {4: 40, 6: 60})
    message = refusal(lambda: promote(filled, catalog()))
    assert "gold/total_v2 has no number for 2024-02-04, 2024-02-06, which readers see" in message
    assert "'dagster asset materialize --select gold/total_v2 --partition-range 2024-02-04...2024-02-06'" in message
    assert promotion.shown_version(filled, metric()) == 1


def test_an_emptied_day_needs_no_number(filled: Lake) -> None:
    publish_totals(filled, V1, {4: None}, rows=0)
    promote(filled, catalog())
    assert latest_totals(filled) == {1: 10, 2: 22, 3: 30, 4: None}


def test_an_empty_version_is_refused(lake: Lake) -> None:
    at(lake, 3)
    publish_totals(lake, V1, {1: 10})
    assert "gold/total_v2 has no number; fill it first" in refusal(lambda: promote(lake, catalog()))


def test_numbers_behind_silver_are_not_shown(lake: Lake) -> None:
    at(lake, 5)
    first = append_to_silver(lake, ("a", 1, 10), ("b", 2, 20))
    publish_totals(lake, V1, {1: 10, 2: 20}, silver_version=first)
    publish_totals(lake, V2, {1: 11, 2: 22}, silver_version=first)
    second = append_to_silver(lake, ("c", 2, 5))
    message = refusal(lambda: promote(lake, catalog()))
    assert "silver/events has changed 2024-02-02 since gold/total_v2 was computed; fill it first" in message
    assert "2024-02-01" not in message
    publish_totals(lake, V2, {2: 27}, rows=2, silver_version=second)
    promote(lake, catalog())
    assert latest_totals(lake) == {1: 11, 2: 27}


@pytest.mark.parametrize(
    ("two", "message"),
    [
        (metric(2, TOTAL | {"type": "int"}), "total is integer in v2 and long in gold/total"),
        (metric(2, grain=["shop"]), "grain is ['shop'] in v2 and [] in v1"),
        (metric(2, publication={"rollups": ["week"]}), "publication.rollups is ['week'] in v2 and [] in v1"),
        (metric(2, source="others"), "source is others in v2 and events in v1"),
        (metric(2, sources=[{"source": "events"}, {"source": "others"}]), "sources is ['events', 'others'] in v2 and [] in v1"),
    ],
)
def test_what_one_table_cannot_hold(lake: Lake, two: Any, message: str) -> None:
    at(lake, 3)
    publish_totals(lake, V1, {1: 10})
    if not two.grain:
        publish_totals(lake, Series(two), {1: 10})
    assert message in refusal(lambda: promote(lake, catalog(metric(1), two)))


def test_a_promise_about_closed_periods_is_kept(lake: Lake) -> None:
    at(lake, 3)
    one = metric(1, publication={"after_close": "adjust"})
    publish_totals(lake, Series(one), {1: 10})
    publish_totals(lake, V2, {1: 10})
    assert "v1 promised that closed periods stay" in refusal(lambda: promote(lake, catalog(one, metric(2))))


@pytest.mark.merge
def test_closed_periods_are_adjusted_where_the_contract_says_so(lake: Lake) -> None:
    one, two = (metric(number, publication={"after_close": "adjust"}) for number in (1, 2))
    known = catalog(one, two)
    at(lake, 20)
    publish_totals(lake, Series(one), {1: 10, 19: 100})
    publish_totals(lake, Series(one), {1: 12})  # closed, and late
    publish_totals(lake, Series(two), {1: 15, 19: 101})
    publish_totals(lake, Series(two), {1: 16})
    promote(lake, known)
    revisions = [(1, None, 10, "initial", 1), (1, 1, 2, "manual", 1), (1, 2, 4, "manual", 2)]
    assert total.revisions(lake, 1) == revisions
    assert latest_totals(lake) == {1: 10, 19: 101}
    rollback(lake, known)
    assert total.revisions(lake, 1) == [*revisions, (1, 3, -4, "rollback", 1)]
    promote(lake, known)
    assert sum(row[2] for row in total.revisions(lake, 1)) == 16
    rollback(lake, known)
    assert sum(row[2] for row in total.revisions(lake, 1)) == 12


@pytest.mark.parametrize("side", [V1, V2])
def test_what_is_held_is_decided_first(filled: Lake, side: Series) -> None:
    draft = Draft(day(2), pa.table({"total": [7], "row_count": [1]}), *_like_published())
    candidates.propose(filled, side, [(draft, 2)], "run", filled.now())
    assert f"gold/{side.name} has held numbers of 2024-02-02" in refusal(lambda: promote(filled, catalog()))


def _like_published() -> tuple[Any, ...]:
    return State.LIVE, PublishAction.REVISION, RevisionReason.MANUAL


def test_one_failed_check_and_nothing_is_promoted(lake: Lake) -> None:
    at(lake, 3)
    publish_totals(lake, V1, {1: 10, 2: 20})
    publish_totals(lake, V2, {1: 11, 2: None})
    version = DeltaTable(locations.gold(lake, V1).address).version()
    strict = catalog(metric(1), metric(2, checks={"nulls": {"total": 0}, "change": [{"measure": "total", "percent": 1}]}))
    message = refusal(lambda: promote(lake, strict))
    assert message.startswith("nulls of 2024-02-02: ")
    assert "held" not in message
    assert DeltaTable(locations.gold(lake, V1).address).version() == version
    lenient = catalog(metric(1), metric(2, checks={"nulls": {"total": 1}}))
    promote(lake, lenient)
    assert latest_totals(lake) == {1: 11, 2: None}


CHANGE = {"change": [{"measure": "total", "percent": 5}]}


def test_a_change_is_judged_against_the_number_that_readers_see(filled: Lake) -> None:
    version = DeltaTable(locations.gold(filled, V1).address).version()
    strict = catalog(metric(1), metric(2, checks=CHANGE))
    message = refusal(lambda: promote(filled, strict))
    assert message == (
        "change fails against the numbers that readers see for 1 of 1 numbers: "
        "2024-02-02: total moves from 20 to 22; a restatement may move it by 5% at most"
    )
    assert DeltaTable(locations.gold(filled, V1).address).version() == version
    assert promote(filled, strict, accepted=True).move.accepted == [message]
    assert latest_totals(filled) == {1: 10, 2: 22, 3: 30}


def test_a_rule_that_only_warns_and_a_bound_that_is_kept_forbid_nothing(filled: Lake) -> None:
    promote(filled, catalog(metric(1), metric(2, checks={"change": [{"measure": "total", "percent": 5, "severity": "warn"}]})))
    rollback(filled, catalog())
    promote(filled, catalog(metric(1), metric(2, checks={"change": [{"measure": "total", "percent": 10}]})))


def test_a_rollback_is_not_judged_by_how_far_the_numbers_move_back(filled: Lake) -> None:
    strict = catalog(metric(1, checks=CHANGE), metric(2, checks=CHANGE))
    promote(filled, strict, accepted=True)
    rollback(filled, strict)
    assert latest_totals(filled) == {1: 10, 2: 20, 3: 30}


def test_numbers_in_other_proportions_than_the_days_before_are_named(lake: Lake) -> None:
    """The new version counts ten times as many rows each day: alike among itself, but not for readers."""
    at(lake, 12)
    totals = {number: 100 + number for number in range(1, 11)}
    publish_totals(lake, V1, totals, rows=3)
    publish_totals(lake, V2, {number: 10 * total for number, total in totals.items()}, rows=30)
    looks_back = {"days": 9, "needs": 5}
    checks = {"row_count": {"min": 1, "trailing": looks_back}, "drift": [{"measure": "total", "max_score": 4, **looks_back}]}
    message = refusal(lambda: promote(lake, catalog(metric(1), metric(2, checks=checks))))
    rows, drift = message.splitlines()
    assert rows.startswith("row_count fails against the numbers that readers see for 5 of 10 numbers: 2024-02-06: expected ")
    assert "times the median of 9 days before, 3 rows; found 30" in rows
    assert drift.startswith("drift fails against the numbers that readers see for 5 of 10 numbers: 2024-02-06: total is 1060")
    assert latest_totals(lake) == totals


def test_a_closed_period_is_compared_with_its_adjustments(lake: Lake) -> None:
    shown, later = (metric(number, publication={"after_close": "adjust"}, checks=CHANGE) for number in (1, 2))
    at(lake, 20)
    publish_totals(lake, Series(shown), {1: 10, 19: 100})
    publish_totals(lake, Series(metric(1, publication={"after_close": "adjust"})), {1: 20})  # closed, and late: 10 + 10
    publish_totals(lake, Series(later), {1: 21, 19: 104})
    promote(lake, catalog(shown, later))
    assert latest_totals(lake) == {1: 10, 19: 104}


def test_numbers_that_are_not_what_was_computed_are_not_shown(filled: Lake) -> None:
    table = DeltaTable(locations.gold(filled, V2).address)
    table.update({"total": "total + 1"}, predicate="event_date = '2024-02-02'")
    assert "gold/total_v2 no longer contains what was computed for 2024-02-02" in refusal(lambda: promote(filled, catalog()))


@pytest.mark.merge
def test_differences_beyond_a_threshold_have_to_be_accepted(filled: Lake) -> None:
    five, ten = ([Threshold("total", Decimal(percent))] for percent in (5, 10))
    message = refusal(lambda: promote(filled, catalog(), thresholds=five))
    assert message == "total of 2024-02-02: 20 -> 22 (+10.00 %) is beyond the threshold"
    assert "v2 has no measure revenue" in refusal(
        lambda: promote(filled, catalog(), thresholds=[Threshold("revenue", Decimal(1))], accepted=True)
    )
    promote(filled, catalog(), thresholds=ten)
    rollback(filled, catalog())
    assert promote(filled, catalog(), thresholds=five, accepted=True).move.accepted == [message]


def test_versions_that_nobody_can_move_to(filled: Lake) -> None:
    known = catalog()
    with pytest.raises(UnservedVersionError, match="no contract has 'metric: total' with 'dataset_version: 3'"):
        promote(filled, known, 3)
    assert "has not been promoted yet" in refusal(lambda: rollback(filled, known))
    promote(filled, known)
    assert "'lakehouse gold rollback total --to v1' shows it again" in refusal(lambda: promote(filled, known, 1))
    with pytest.raises(UnservedVersionError, match="dataset_version: 2"):
        served_version.daily(filled, catalog(metric(1)), metric(1))
    with pytest.raises(UnservedVersionError, match="dataset_version: 1"):
        rollback(filled, catalog(metric(2)))
    rollback(filled, catalog(metric(1)))  # the contract of what is left behind need not be there
    assert "and cannot be rolled back to v2" in refusal(lambda: rollback(filled, known, 2))
