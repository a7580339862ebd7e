"""Generated histories in which stewards decide about rows and redact values between deliveries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Any, Literal

from hypothesis import strategies as st

from lakehouse_tests.support.silver_histories import DAYS, KEYS, records

if TYPE_CHECKING:
    from lakehouse_tests.support.reference_model import Record


#: All event days are from then on, so that no row comes as history (see ``lateness.history``).
ARRIVAL = date(2024, 1, 1)


@dataclass(frozen=True)
class Deliver:
    file: int


@dataclass(frozen=True)
class Decide:
    """On the n-th record that was delivered, counted round."""

    record: int
    verdict: Literal["accept", "reject", "duplicate"]


@dataclass(frozen=True)
class Redact:
    key: str


@dataclass(frozen=True)
class Update:
    days: frozenset[date]


@dataclass(frozen=True)
class History:
    files: list[list[Record]]
    actions: list[Any]


@st.composite
def histories(draw: st.DrawFn, *, plain: bool = False) -> History:
    """:param plain: only inserts on a day, as the policies that overwrite want them."""
    one = records()
    if plain:
        one = one.map(lambda record: replace(record, op="insert", day=record.day or DAYS[0], corrects=None))
    pool = draw(st.lists(one, min_size=5, max_size=8))
    files = draw(st.lists(st.lists(st.sampled_from(pool), min_size=1, max_size=5), min_size=3, max_size=3, unique_by=tuple))
    actions: list[Any] = []
    number = st.integers(0, 30)
    decide = st.builds(Decide, number, st.sampled_from(["accept", "accept", "reject", "duplicate"]))
    update = st.builds(Update, st.frozensets(st.sampled_from(DAYS), max_size=3))
    redact = st.builds(Redact, st.sampled_from(KEYS))
    for file in draw(st.permutations(range(len(files)))):
        actions.append(Deliver(file))
        actions += draw(st.lists(st.one_of(decide, decide, update, redact), max_size=3))
    return History([[*file] for file in files], actions)
