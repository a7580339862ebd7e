"""The names of ranges of messages, and the ids that follow from them."""

from __future__ import annotations

from datetime import date

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.streams import reading_plan
from lakehouse.streams.reading_plan import MessageRange, PartitionLog

DAY = date(2024, 1, 3)
LOGS = st.builds(
    PartitionLog,
    st.from_regex(r"[a-zA-Z0-9._-]{1,30}", fullmatch=True),
    st.from_regex(r"[a-zA-Z0-9_-]{22}", fullmatch=True),
    st.integers(0, 2**23),
    st.integers(0, 3),
)
OFFSETS = st.integers(0, 2**55)


@given(log=LOGS, begin=OFFSETS, length=st.integers(1, 10**6))
def test_a_name_is_read_as_it_was_written(log: PartitionLog, begin: int, length: int) -> None:
    delivered = MessageRange(log, begin, begin + length)
    assert reading_plan.parse(f"{delivered}") == delivered


@given(log=LOGS, first=OFFSETS, second=OFFSETS, lengths=st.tuples(st.integers(1, 9), st.integers(1, 9)))
def test_ids_are_ordered_as_offsets_are_however_long_the_ranges_are(
    log: PartitionLog, first: int, second: int, lengths: tuple[int, int]
) -> None:
    one, other = MessageRange(log, first, first + lengths[0]), MessageRange(log, second, second + lengths[1])
    ids = one.ingestion_id("cluster"), other.ingestion_id("cluster")
    assert (first < second, first == second) == (ids[0] < ids[1], ids[0] == ids[1])


def test_the_same_offsets_of_another_log_are_another_delivery() -> None:
    logs = [PartitionLog("t", "a", 0), PartitionLog("t", "b", 0), PartitionLog("t", "a", 1), PartitionLog("t", "a", 0, 1)]
    assert len({MessageRange(log, 0, 5).ingestion_id("c") for log in logs}) == 4
    assert len({MessageRange(log, 0, 5).content_hash("c", DAY) for log in logs}) == 4
    assert len({log.app_id for log in logs}) == 4


def test_the_ends_of_what_was_delivered_and_names_of_files_are_left_out() -> None:
    log = PartitionLog("t", "a", 0)
    names = [f"{MessageRange(log, 5, 9)}", f"{MessageRange(log, 0, 5)}", "2024-01-03/orders.json"]
    assert reading_plan.ends(names) == {log: 9}
