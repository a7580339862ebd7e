"""Generated histories of one source: files, the order of their arrival, and the days that are updated in between.

Histories in which stewards decide are in :mod:`lakehouse_tests.support.steward_histories`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from typing import Any

from hypothesis import strategies as st

from lakehouse_tests.support.reference_model import Record

DAYS = [date(2024, 1, day) for day in range(1, 5)]
KEYS = ["a", "b", "c"]
NOON = datetime(2024, 2, 1, 12, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Step:
    """One file is delivered (again, under another name, where it was before), and some waiting days are updated."""

    file: int
    arrival: date
    updated: frozenset[date]


@dataclass(frozen=True)
class History:
    """The files of a source and the order of their arrival.

    ``piece_rows`` is how many rows are processed at a time, 0: all. ``file_bytes`` is the target size of the files that days of
    silver share, 0: a partition for each day.
    """

    files: list[list[Record]]
    steps: list[Step]
    local_rows: int
    piece_rows: int
    file_bytes: int = 2**18


@st.composite
def records(draw: st.DrawFn) -> Record:
    op = draw(st.sampled_from(["insert", "insert", "correct", "correct", "delete"]))
    days = st.sampled_from(DAYS)
    return Record(
        key=draw(st.sampled_from(KEYS)),
        op=op,  # type: ignore[arg-type]
        day=draw(st.none() | days) if op == "delete" else draw(days),
        amount=draw(st.integers(0, 2)),
        arrival=NOON + timedelta(hours=draw(st.integers(0, 5))),
        corrects=draw(st.none() | st.none() | st.sampled_from(KEYS)),
        sequence=draw(st.integers(0, 4)),
    )


@st.composite
def histories(draw: st.DrawFn) -> History:
    pool = draw(st.lists(records(), min_size=5, max_size=9))
    # Drawn from a pool: the same record stands in several files, or twice in one.
    files = draw(st.lists(st.lists(st.sampled_from(pool), min_size=1, max_size=5), min_size=3, max_size=4, unique_by=tuple))
    order = draw(st.permutations(range(len(files))))
    again = draw(st.lists(st.sampled_from(order), max_size=1))
    arrivals = st.sampled_from([date(2024, 2, day) for day in (1, 2, 3)])
    subset = st.frozensets(st.sampled_from(DAYS), max_size=3)
    steps = [Step(file, draw(arrivals), draw(subset)) for file in [*order, *again]]
    local_rows, piece_rows = draw(st.sampled_from([0, 2, 20_000])), draw(st.sampled_from([0, 1, 3]))
    return History([[*file] for file in files], steps, local_rows, piece_rows, draw(st.sampled_from([0, 1, 4_000, 2**18])))


def record_at(hour: int, key: str, op: Any, day: int | None, corrects: str | None = None) -> Record:
    return Record(key, op, DAYS[day] if day is not None else None, hour, NOON + timedelta(hours=hour), corrects, hour % 3)


#: Each key is a corner of R2, which few generated histories would meet.
CORNERS = [
    [
        record_at(1, "new id", "correct", 1, corrects="original comes late"),
        record_at(5, "retired behind", "insert", 0),
        record_at(1, "retires first", "correct", 1, corrects="revived"),
        record_at(4, "moved", "correct", 1),
        record_at(2, "deleted first", "delete", None),
        record_at(2, "inserted again", "delete", 2),
    ],
    [
        record_at(3, "original comes late", "insert", 0),
        record_at(3, "retires behind", "correct", 2, corrects="retired behind"),
        record_at(4, "revived", "insert", 2),
        record_at(1, "moved", "insert", 0),
        record_at(1, "deleted first", "insert", 3),
        record_at(3, "inserted again", "insert", 3),
    ],
    [
        record_at(2, "revived", "correct", 0),
        record_at(2, "moved", "insert", 3),
        record_at(5, "moved", "correct", 2),
        record_at(5, "inserted again", "correct", 3, corrects="inserted again"),
    ],
]


def corners(order: list[int], updated: list[list[date]], *, local_rows: int, piece_rows: int, file_bytes: int = 2**18) -> History:
    steps = [Step(file, date(2024, 2, 1 + file), frozenset(days)) for file, days in zip(order, updated)]
    return History(CORNERS, steps, local_rows, piece_rows, file_bytes)


#: Everything is updated after each file, two rows at a time, in the process; each day has a file.
FORWARD = corners([0, 1, 2], [DAYS, DAYS, DAYS], local_rows=20_000, piece_rows=2, file_bytes=1)
#: Of what has come some days are updated; the middle file comes again; silver is partitioned by day, as in earlier releases.
BACKWARD = corners([2, 1, 0, 1], [DAYS[:1], DAYS[2:], [], []], local_rows=20_000, piece_rows=0, file_bytes=0)
#: Two files, by Spark: the rows of one, and what the other changes of them.
BY_SPARK = corners([1, 0], [DAYS, []], local_rows=0, piece_rows=0)
