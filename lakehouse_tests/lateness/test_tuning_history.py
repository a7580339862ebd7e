"""Which ``max_lateness`` was in force when, against a model that reads the decisions one by one."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.contracts.source_rules import BoundedWatermark, ProcessingTimeWatermark
from lakehouse.lateness.event_watermark import BEGINNING, steps
from lakehouse.lateness.max_lateness import MaxLatenessDecision, MaxLatenessHistory, in_force
from lakehouse.ledger.ingestions import Ingestion

NOON = datetime(2024, 2, 1, 12, tzinfo=timezone.utc)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
#: Minutes since noon, what is decided, the hours that it sets, and the hours of the contract at the time.
Entry = tuple[int, str, int, int]
ENTRIES = st.lists(
    st.tuples(
        st.integers(0, 60),
        st.sampled_from(["applied", "pinned", "unpinned", "undone"]),
        st.integers(0, 9),
        st.sampled_from([2, 2, 3]),
    ),
    max_size=8,
).map(lambda entries: sorted(entries, key=lambda entry: entry[0]))


def decisions(entries: list[Entry]) -> list[MaxLatenessDecision]:
    return [
        MaxLatenessDecision(
            *("events", number, kind, 0, hours * 3600, contract * 3600, "anna", "why", False, NOON + minutes * MINUTE)  # type: ignore[arg-type]
        )
        for number, (minutes, kind, hours, contract) in enumerate(entries, start=1)
    ]


def modelled(entries: list[Entry], contract: int, until: int) -> tuple[int, bool]:
    """The hours in force, and whether they are pinned: a stack of values that an edited contract empties."""
    values, pinned = [contract], False
    for minutes, kind, hours, of_contract in entries:
        if minutes > until:
            continue
        pinned = {"applied": pinned, "unpinned": False}.get(kind, True)
        if of_contract != contract:
            values = [contract]
        elif kind == "undone":
            values = values[:-1] or values
        elif hours != values[-1]:
            values.append(hours)
    return values[-1], pinned


@given(entries=ENTRIES, until=st.integers(-1, 61), order=st.randoms(use_true_random=False))
def test_what_is_in_force_follows_from_the_decisions_until_then(entries: list[Entry], until: int, order: Any) -> None:
    decided = decisions(entries)
    order.shuffle(decided)
    state = MaxLatenessHistory(2 * HOUR, decided).at(NOON + until * MINUTE)
    hours, pinned = modelled(entries, 2, until)
    assert (state.max_lateness, state.pinned is not None) == (hours * HOUR, pinned)
    later = MaxLatenessHistory(2 * HOUR, [entry for entry in decided if entry.decided_at <= NOON + until * MINUTE])
    assert later.at(NOON + until * MINUTE) == state, "later decisions change nothing before them"
    strategy = in_force(BoundedWatermark(strategy="bounded", max_lateness=2 * HOUR), decided)(NOON + until * MINUTE)
    assert isinstance(strategy, BoundedWatermark)
    assert strategy.max_lateness == state.max_lateness


@given(entries=ENTRIES)
def test_undoing_restores_what_was_in_force_before_the_newest_change(entries: list[Entry]) -> None:
    state = MaxLatenessHistory(2 * HOUR, decisions(entries)).at(NOON + HOUR)
    undone = MaxLatenessHistory(2 * HOUR, decisions([*entries, (60, "undone", 0, 2)])).at(NOON + HOUR)
    assert undone.max_lateness == state.before
    assert undone.pinned is not None
    assert undone.changes == state.changes[:-1]


def test_an_edited_contract_wins_over_what_was_decided_before_and_a_pin_lasts() -> None:
    entries: list[Entry] = [(0, "applied", 4, 2), (1, "pinned", 5, 2)]
    assert MaxLatenessHistory(2 * HOUR, decisions(entries)).at(NOON + HOUR).max_lateness == 5 * HOUR
    edited = MaxLatenessHistory(3 * HOUR, decisions(entries)).at(NOON + HOUR)
    assert (edited.max_lateness, edited.pinned is not None) == (3 * HOUR, True)
    back = MaxLatenessHistory(2 * HOUR, decisions([*entries, (2, "unpinned", 3, 3)])).at(NOON + HOUR)
    assert (back.max_lateness, back.pinned) == (2 * HOUR, None), "what was decided before an edit does not come back with it"


def test_a_strategy_without_max_lateness_is_as_the_contract_says() -> None:
    strategy = ProcessingTimeWatermark(strategy="processing_time", delay=HOUR)
    assert in_force(strategy, decisions([(0, "applied", 4, 2)]))(NOON + HOUR) is strategy


@given(
    arrivals=st.lists(st.tuples(st.integers(0, 61), st.integers(0, 300)), max_size=12),
    entries=ENTRIES,
    order=st.randoms(use_true_random=False),
)
def test_the_watermark_stays_monotone_and_each_delivery_counts_by_what_was_in_force_when_it_arrived(
    arrivals: list[tuple[int, int]], entries: list[Entry], order: Any
) -> None:
    deliveries = [
        Ingestion(
            *("events", f"{number:03}", f"{number:03}", NOON.date(), f"{number}.csv", 1, None, "ingested", "run", NOON),
            newest_arrival=NOON + arrived * MINUTE,
            newest_event=NOON + (arrived - older) * MINUTE,
        )
        for number, (arrived, older) in enumerate(arrivals)
    ]
    strategy = BoundedWatermark(strategy="bounded", max_lateness=2 * HOUR)
    decided = decisions(entries)
    in_order = sorted((arrived, f"{number:03}", arrived - older) for number, (arrived, older) in enumerate(arrivals))
    expected, watermark = [], BEGINNING
    for arrived, _, event in in_order:
        watermark = max(watermark, NOON + event * MINUTE - modelled(entries, 2, arrived)[0] * HOUR)
        expected.append(watermark)
    order.shuffle(deliveries)
    order.shuffle(decided)
    taken = [step.watermark for step in steps(strategy, deliveries, decided)]
    assert taken == expected
    assert taken == sorted(taken)
