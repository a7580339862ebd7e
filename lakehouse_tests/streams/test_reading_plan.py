"""Where reading goes on, and what of a topic is missing for good: the rules, without a topic."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.streams.reading_plan import OffsetGap, PartitionLog, TopicState, plan

LOG = PartitionLog("t", "a", 0)


def state(first: int, end: int, topic_id: str = "a") -> TopicState:
    return TopicState("cluster", "t", topic_id, {0: (first, end)})


def test_a_topic_that_was_never_read_begins_with_what_it_still_has() -> None:
    assert plan(state(7, 20), {}).begin == {LOG: 7}


def test_a_new_partition_of_a_topic_that_was_read_begins_with_its_first_message() -> None:
    two = TopicState("cluster", "t", "a", {0: (0, 5), 1: (3, 9)})
    planned = plan(two, {LOG: 5})
    assert planned.begin == {LOG: 5}
    assert planned.gaps == [OffsetGap("lost", PartitionLog("t", "a", 1), 0, 3)]


@given(first=st.integers(0, 30), length=st.integers(0, 30), position=st.integers(0, 70))
def test_a_log_is_read_from_its_next_offset_or_it_has_a_gap(first: int, length: int, position: int) -> None:
    planned = plan(state(first, first + length), {LOG: position})
    if first <= position <= first + length:
        assert (planned.begin, list(planned.gaps)) == ({LOG: position}, [])
        return
    assert planned.begin == {}
    [gap] = planned.gaps
    again = plan(state(first, first + length), {LOG: position}, [gap])
    assert not again.gaps
    [(log, resume)] = again.begin.items()
    assert resume == (first if position < first else first + length)
    assert (log == LOG) == (position < first), "offsets that are given out again are those of another log"


def test_a_log_that_was_reset_is_not_read_on_when_it_has_grown_past_the_next_offset() -> None:
    [gap] = plan(state(0, 4), {LOG: 9}).gaps
    assert gap == OffsetGap("reset", LOG, 9, 4)
    assert plan(state(0, 30), {LOG: 9}, waiting=[gap]).gaps == [gap]
    assert plan(state(0, 30), {LOG: 9}, [gap]).begin == {PartitionLog("t", "a", 0, 1): 4}
    successor = PartitionLog("t", "a", 0, 1)
    assert plan(state(0, 30), {LOG: 9, successor: 12}, [gap]).begin == {successor: 12}


def test_a_topic_that_was_created_again_is_not_read_before_that_is_accepted() -> None:
    for end in (3, 90):
        planned = plan(state(0, end, "b"), {LOG: 9})
        assert planned.begin == {}
        [gap] = planned.gaps
        assert gap == OffsetGap("recreated", LOG, 9, 0)
        assert plan(state(0, end, "b"), {LOG: 9}, [gap]).begin == {PartitionLog("t", "b", 0): 0}


def test_accepting_a_first_recreation_accepts_no_second_one() -> None:
    second = PartitionLog("t", "b", 0)
    [gap] = plan(state(0, 3, "b"), {LOG: 9}).gaps
    assert plan(state(0, 3, "c"), {LOG: 9, second: 2}, [gap]).gaps == [OffsetGap("recreated", second, 2, 0)]


def test_a_gap_that_has_grown_since_it_was_accepted_is_another_one() -> None:
    [gap] = plan(state(5, 20), {LOG: 2}).gaps
    planned = plan(state(8, 20), {LOG: 2}, [gap])
    assert planned.gaps == [OffsetGap("lost", LOG, 5, 8)]


def test_each_gap_says_what_happened_and_where() -> None:
    assert f"{OffsetGap('lost', LOG, 2, 5)}" == "partition 0 of t: the offsets 2 to 4 were deleted before they were read"
    assert "ends at offset 4, and 9 was to be read next" in f"{OffsetGap('reset', LOG, 9, 4)}"
    assert "created again" in f"{OffsetGap('recreated', LOG, 9, 0)}"
