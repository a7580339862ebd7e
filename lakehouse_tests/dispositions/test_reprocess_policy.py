"""The reprocess policies as rules: which delivery is chosen, which days a row affects, and that the contract knows them all."""

from __future__ import annotations

from datetime import date, datetime, timezone
from typing import get_args

import pytest

from lakehouse.contracts.source_rules import ReprocessPolicyName
from lakehouse.dispositions.reprocess_policy import NO_DELIVERY, POLICIES, Choice, ReprocessPolicy, Share
from lakehouse.ledger.row_states import Disposition
from lakehouse_tests.support.disposed_claims import dispose
from lakehouse_tests.support.row_by_row import Claim

MONDAY, TUESDAY, WEDNESDAY = (date(2024, 1, day) for day in (1, 2, 3))


def policy(name: ReprocessPolicyName, max_shrink: float = 0.5) -> ReprocessPolicy:
    return POLICIES[name](by_sequence=False, one_event=False, max_shrink=max_shrink)


def claim(ingestion: str, line: int, day: date = MONDAY) -> Claim:
    return Claim("insert", 0, datetime(2024, 2, line, tzinfo=timezone.utc), ingestion, line, day)


def test_each_policy_of_the_contract_is_registered_under_its_name() -> None:
    assert set(POLICIES) == set(get_args(ReprocessPolicyName))
    assert all(registered.name == name for name, registered in POLICIES.items())


@pytest.mark.parametrize(
    ("name", "affected"),
    [
        ("merge", {MONDAY, TUESDAY}),
        ("append", {MONDAY, TUESDAY}),
        ("overwrite_partition_safe", {MONDAY}),
        ("overwrite_all", {MONDAY, TUESDAY, WEDNESDAY}),
    ],
)
def test_the_days_that_a_row_of_monday_affects(name: ReprocessPolicyName, affected: set[date]) -> None:
    assert policy(name).affected_days({MONDAY}, lambda: {TUESDAY}, lambda: {MONDAY, TUESDAY, WEDNESDAY}) == affected


def test_no_row_affects_no_day_however_many_there_are() -> None:
    assert policy("overwrite_all").affected_days(set(), set, lambda: {MONDAY}) == set()


def share(ids: str, rows: int, order: int, *, accepted: bool = False) -> Share:
    return Share(f"delivery {order}", frozenset(ids.split()), rows, (order,), accepted)


def choice(counting: str, held: str = "") -> Choice:
    return Choice(frozenset(counting.split()), frozenset(held.split()))


def test_a_delivery_that_lacks_too_many_rows_is_held_with_all_its_files_until_it_is_accepted() -> None:
    shares = [share("first", 10, 0), share("short shorter", 4, 1), share("whole", 9, 2)]
    safe = policy("overwrite_partition_safe")
    assert safe.choose({MONDAY: shares[:2]}, [MONDAY]) == {MONDAY: choice("first", "short shorter")}
    assert safe.choose({MONDAY: shares[::-1]}, [MONDAY]) == {MONDAY: choice("whole", "short shorter")}
    accepted = share("short shorter", 4, 1, accepted=True)
    assert safe.choose({MONDAY: [shares[0], accepted]}, [MONDAY, TUESDAY]) == {
        MONDAY: choice("short shorter"),
        TUESDAY: NO_DELIVERY,
    }


def test_a_file_that_counts_in_one_delivery_is_not_held_for_another() -> None:
    shares = [share("a b", 10, 0), share("a", 4, 1)]
    assert policy("overwrite_partition_safe").choose({MONDAY: shares}, [MONDAY]) == {MONDAY: choice("a b")}


def test_under_overwrite_all_the_newest_delivery_is_chosen_for_every_day() -> None:
    shares = {MONDAY: [share("old", 3, 0), share("new", 1, 1)], TUESDAY: [share("newer", 1, 1)]}
    chosen = policy("overwrite_all").choose(shares, [MONDAY, TUESDAY])
    assert chosen == dict.fromkeys([MONDAY, TUESDAY], choice("new newer"))
    assert policy("overwrite_all").choose({}, [MONDAY]) == {MONDAY: NO_DELIVERY}
    shares[MONDAY][0] = share("old", 10, 0)
    chosen = policy("overwrite_all").choose(shares, [MONDAY, TUESDAY])
    assert chosen == dict.fromkeys([MONDAY, TUESDAY], choice("old", "new newer")), "too small a delivery is held as a whole"


@pytest.mark.parametrize(
    ("name", "became"),
    [
        ("merge", {"old": Disposition.SUPERSEDED, "new": Disposition.APPLIED}),
        ("append", {"old": Disposition.APPLIED, "new": Disposition.APPLIED}),
        ("overwrite_partition_safe", {"old": Disposition.SUPERSEDED, "new": Disposition.APPLIED}),
        ("overwrite_all", {"old": Disposition.SUPERSEDED, "new": Disposition.APPLIED}),
    ],
)
def test_what_becomes_of_a_key_that_came_twice(name: ReprocessPolicyName, became: dict[str, Disposition]) -> None:
    claims = {"a": [claim("old", 1), claim("new", 2)]}
    rows = dispose(policy(name), claims, {}, {MONDAY: choice("new")})
    assert {row_id[0]: row.disposition for row_id, row in rows.items()} == became


def test_on_its_own_days_a_key_lives_twice_only_where_each_day_stands_for_itself() -> None:
    claims = {"a": [claim("new", 1), claim("new", 2, TUESDAY)]}
    chosen = dict.fromkeys([MONDAY, TUESDAY], choice("new"))
    living = {name: sum(row.lives for row in dispose(policy(name), claims, {}, chosen).values()) for name in POLICIES}
    assert living == {"merge": 1, "overwrite_all": 1, "overwrite_partition_safe": 2, "append": 2}


def test_rows_of_a_held_delivery_wait_for_a_steward() -> None:
    chosen = {MONDAY: choice("first", "short")}
    [row] = dispose(policy("overwrite_partition_safe", 0.25), {"a": [claim("short", 1)]}, {}, chosen).values()
    assert row.disposition is Disposition.QUARANTINED
    assert row.because == "its delivery would shrink 2024-01-01 by more than 25%"
