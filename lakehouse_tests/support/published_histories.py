"""Generated histories of published numbers: files that arrive, runs that follow, days that pass, people who decide."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timezone

from hypothesis import strategies as st

from lakehouse.calendar.periods import Kind
from lakehouse_tests.support.reference_model import Record

DAYS = [date(2024, 1, day) for day in (27, 28, 29, 31)] + [date(2024, 2, 1)]  # two weeks, two months
START = datetime(2024, 2, 1, 13, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Deliver:
    lines: tuple[Record, ...]


@dataclass(frozen=True)
class Follow:
    """Silver and the days follow what was delivered; the clock may have moved on."""

    on: int


@dataclass(frozen=True)
class Roll:
    kind: Kind


@dataclass(frozen=True)
class Decide:
    """About the first number that is held, if any."""

    publish: bool


@st.composite
def records(draw: st.DrawFn) -> Record:
    op = draw(st.sampled_from(["insert", "insert", "correct", "correct", "delete"]))
    day = draw(st.sampled_from(DAYS))
    return Record(draw(st.sampled_from("abcd")), op, day, draw(st.sampled_from([1, 2, 9])), START, sequence=0)  # type: ignore[arg-type]


FOLLOWS = st.builds(Follow, st.sampled_from([0, 0, 1, 2, 4]))
ACTIONS = st.one_of(
    st.builds(Deliver, st.lists(records(), min_size=1, max_size=3).map(tuple)),
    FOLLOWS,
    FOLLOWS,
    st.builds(Roll, st.sampled_from([Kind.WEEK, Kind.MONTH])),
    st.builds(Decide, st.booleans()),
)
HISTORIES = st.tuples(st.lists(records(), min_size=2, max_size=4).map(tuple), st.lists(ACTIONS, min_size=3, max_size=7))
