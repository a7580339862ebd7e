"""When a number changes its state, what a new number becomes next to the published one, and how versions are named.

Histories are played through the two decisions alone: a closed number never moves where the contract says so, states only go
forward, and equal content is never published twice (rules R7 and R9).
"""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.contracts.publication import PublicationRules
from lakehouse.gold.numbers.lifecycle import (
    PublishAction,
    PublishedState,
    RevisionReason,
    State,
    VersionName,
    is_restatement,
    may_be_published,
    next_change,
    parse_version_name,
    publish_action,
    reason_for,
    state_on,
)

LAST = date(2024, 11, 7)
NOW = datetime(2024, 11, 8, tzinfo=timezone.utc)
LIVE, PRELIMINARY, FINAL = State


@st.composite
def terms(draw: st.DrawFn) -> PublicationRules:
    preliminary = draw(st.integers(0, 5))
    return PublicationRules(
        start_delay=draw(st.integers(0, 3)),
        preliminary_after=preliminary,
        final_after=preliminary + draw(st.integers(0, 5)),
        after_close=draw(st.sampled_from(["restate", "adjust"])),
    )


@pytest.mark.parametrize(
    ("age", "state"), [(-30, LIVE), (0, LIVE), (1, PRELIMINARY), (6, PRELIMINARY), (7, FINAL), (4000, FINAL)]
)
def test_states_by_age(age: int, state: State) -> None:
    assert state_on(LAST, LAST + timedelta(days=age), PublicationRules()) is state


@given(terms(), st.integers(-3, 15))
def test_the_next_change_is_the_first_day_of_another_state(rules: PublicationRules, age: int) -> None:
    today = LAST + timedelta(days=age)
    state = state_on(LAST, today, rules)
    coming = next_change(LAST, state, rules)
    assert (coming is None) == (state is FINAL)
    if coming is not None:
        assert coming > today
        assert state_on(LAST, coming - timedelta(days=1), rules) is state
        assert state_on(LAST, coming, rules).rank > state.rank
        assert next_change(LAST, state_on(LAST, coming, rules), rules) != coming, "publishing it then settles it"


@given(terms(), st.integers(-3, 15))
def test_states_only_go_forward(rules: PublicationRules, age: int) -> None:
    today = LAST + timedelta(days=age)
    assert state_on(LAST, today, rules).rank <= state_on(LAST, today + timedelta(days=1), rules).rank


@pytest.mark.parametrize(("delay", "age", "may"), [(0, -5, True), (0, 0, True), (1, 0, False), (1, 1, True), (3, 2, False)])
def test_the_start_delay(delay: int, age: int, may: bool) -> None:
    assert may_be_published(LAST, LAST + timedelta(days=age), PublicationRules(start_delay=delay)) is may


@pytest.mark.parametrize(
    ("published", "content", "state", "restate", "adjust"),
    [
        (None, "a", LIVE, "revision", "revision"),
        (None, "a", FINAL, "revision", "revision"),
        (PublishedState(1, LIVE, "a"), "a", LIVE, "nothing", "nothing"),
        (PublishedState(1, LIVE, "a"), "a", PRELIMINARY, "state_change", "state_change"),
        (PublishedState(1, LIVE, "a"), "a", FINAL, "state_change", "state_change"),
        (PublishedState(1, PRELIMINARY, "a"), "a", LIVE, "nothing", "nothing"),
        (PublishedState(1, PRELIMINARY, "a"), "b", LIVE, "revision", "revision"),
        (PublishedState(1, PRELIMINARY, "a"), "b", FINAL, "revision", "revision"),
        (PublishedState(1, FINAL, "a"), "a", FINAL, "nothing", "nothing"),
        (PublishedState(1, FINAL, "a"), "b", FINAL, "revision", "adjustment"),
        (PublishedState(1, FINAL, "a"), "b", LIVE, "revision", "adjustment"),
        (PublishedState(1, FINAL, "a", restated="b"), "b", FINAL, "revision", "nothing"),
        (PublishedState(1, FINAL, "a", restated="b"), "a", FINAL, "revision", "adjustment"),
        (PublishedState(1, FINAL, "a", restated="b"), "c", FINAL, "revision", "adjustment"),
    ],
)
def test_what_a_number_becomes(published: PublishedState | None, content: str, state: State, restate: str, adjust: str) -> None:
    assert publish_action(published, content, state, PublicationRules(after_close="restate")).value == restate
    assert publish_action(published, content, state, PublicationRules(after_close="adjust")).value == adjust


@given(terms(), st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 12)), max_size=12))
def test_a_history_of_numbers(rules: PublicationRules, moments: list[tuple[str, int]]) -> None:
    """What is published of a period on days in any order: a replay's clock may go back."""
    standing: PublishedState | None = None
    for content, age in moments:
        state = state_on(LAST, LAST + timedelta(days=age), rules)
        action = publish_action(standing, content, state, rules)
        closed = standing is not None and standing.state is FINAL
        if standing is not None and action is PublishAction.NOTHING:
            assert content == (standing.restated or standing.content), "nothing is left out"
        if closed and rules.after_close == "adjust":
            assert action in (PublishAction.NOTHING, PublishAction.ADJUSTMENT), "final stays final"
        if action is PublishAction.ADJUSTMENT:
            assert standing is not None
            assert closed
            standing = PublishedState(standing.revision, standing.state, standing.content, restated=content)
        elif action is not PublishAction.NOTHING:
            before = standing
            later = state if before is None else max(state, before.state, key=lambda one: one.rank)
            standing = PublishedState(1 if before is None else before.revision + 1, later, content)
            assert before is None or (before.content, before.state) != (standing.content, standing.state)
            assert before is None or later.rank >= before.state.rank
        assert publish_action(standing, content, state, rules) is PublishAction.NOTHING, "saying it again changes nothing"


SOME: dict[str, int] = {"inserted": 2, "corrected": 0}


@pytest.mark.parametrize(
    ("published", "action", "requested", "causes", "reason"),
    [
        (None, PublishAction.REVISION, RevisionReason.BUG_REPLAY, SOME, RevisionReason.INITIAL),
        (
            PublishedState(1, LIVE, "a"),
            PublishAction.STATE_CHANGE,
            RevisionReason.BUG_REPLAY,
            SOME,
            RevisionReason.DAILY_FINALIZATION,
        ),
        (PublishedState(1, LIVE, "a"), PublishAction.REVISION, RevisionReason.BUG_REPLAY, SOME, RevisionReason.BUG_REPLAY),
        (PublishedState(1, LIVE, "a"), PublishAction.REVISION, RevisionReason.ROLLBACK, {}, RevisionReason.ROLLBACK),
        (PublishedState(1, LIVE, "a"), PublishAction.REVISION, None, SOME, RevisionReason.LATE_DATA),
        (PublishedState(1, LIVE, "a"), PublishAction.REVISION, RevisionReason.BACKFILL, SOME, RevisionReason.LATE_DATA),
        (PublishedState(1, LIVE, "a"), PublishAction.REVISION, None, {"inserted": 1, "deleted": 1}, RevisionReason.CORRECTION),
        (PublishedState(1, LIVE, "a"), PublishAction.REVISION, None, {"moved_out": 1}, RevisionReason.CORRECTION),
        (PublishedState(1, LIVE, "a"), PublishAction.REVISION, RevisionReason.BACKFILL, {}, RevisionReason.BACKFILL),
        (PublishedState(1, LIVE, "a"), PublishAction.REVISION, None, {"inserted": 0}, RevisionReason.MANUAL),
        (PublishedState(1, FINAL, "a"), PublishAction.ADJUSTMENT, None, SOME, RevisionReason.LATE_DATA),
        (PublishedState(1, LIVE, "a"), PublishAction.REVISION, RevisionReason.INITIAL, {}, RevisionReason.INITIAL),
        (PublishedState(1, FINAL, "a"), PublishAction.REVISION, RevisionReason.INITIAL, {}, RevisionReason.LATE_DATA),
        (PublishedState(1, FINAL, "a"), PublishAction.ADJUSTMENT, RevisionReason.NEW_DATA, {}, RevisionReason.LATE_DATA),
    ],
)
def test_why_it_is_published(
    published: Any, action: PublishAction, requested: RevisionReason | None, causes: dict[str, int], reason: RevisionReason
) -> None:
    assert reason_for(action, published, requested, causes) is reason


PERIODS = st.sampled_from(["2024-11-07", "2024-W45", "2024-11", "2024-Q4", "FY2025-Q1", "FY2025", "0024-W03"])
SERIES = st.from_regex(r"[a-z][a-z0-9_]{0,12}", fullmatch=True) | st.sampled_from(
    ["revenue_v2", "revenue_v2_weekly", "x_v2024_v"]
)
NUMBERS = st.integers(1, 10**6)


@given(SERIES, PERIODS, NUMBERS, st.none() | NUMBERS)
def test_a_version_name_is_read_back(series: str, period: str, revision: int, adjustment: int | None) -> None:
    name = VersionName(series, period, revision, adjustment)
    assert parse_version_name(f"{name}") == parse_version_name(f" {name} ") == name


def test_version_names() -> None:
    assert f"{VersionName('revenue', '2024-11-07', 2)}" == "revenue_v2024-11-07.r2"
    assert f"{VersionName('revenue_weekly', '2024-W45', 1, 3)}" == "revenue_weekly_v2024-W45.r1.a3"
    for text in ["", "r2", "revenue", "revenue_v2024-11-07", "revenue_v2024-11-07.r", "Revenue_v2024-11-07.r1", "revenue.r2"]:
        assert parse_version_name(text) is None, text


@given(st.text(max_size=30))
def test_any_text_is_a_version_name_or_none(text: str) -> None:
    parse_version_name(text)


@pytest.mark.parametrize(
    ("reason", "state", "restated_on", "expected"),
    [
        (RevisionReason.LATE_DATA, State.LIVE, NOW, True),
        (RevisionReason.LATE_DATA, State.LIVE, None, False),
        (RevisionReason.NEW_DATA, State.PRELIMINARY, NOW, False),
        (RevisionReason.INITIAL, State.FINAL, NOW, True),
        (RevisionReason.NEW_DATA, State.FINAL, None, False),
        (RevisionReason.DAILY_FINALIZATION, State.FINAL, NOW, False),
    ],
)
def test_what_is_recorded_tells_a_restatement_from_growth(
    reason: RevisionReason, state: State, restated_on: datetime | None, expected: bool
) -> None:
    assert is_restatement(reason, state, NOW, restated_on) is expected, "a closed week that gets a day is restated"
