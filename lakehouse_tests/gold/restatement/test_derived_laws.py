"""The laws of derived numbers on generated publications of two inputs; a plain model over the inputs' rows is the reference.

One input books adjustments after its close, the other holds large changes. After each run of the derived metric its number is
what the model makes of the inputs' tables, exactly the days whose number differs were restated, no state is ahead of an input's,
and every revision is made again from the revisions that it names.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from datetime import date
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse.gold.numbers.lifecycle import PublishAction, State
from lakehouse.gold.numbers.published_table import digest
from lakehouse.gold.reproduction import recompute
from lakehouse.gold.restatement.pending import find_due, find_pending
from lakehouse_tests.support.derived_numbers import (
    BIGGEST,
    SALES,
    DerivedNumbers,
    adjusting,
    day,
    metric,
    metrics,
    revenue,
    sessions,
)
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.lake import contract
from lakehouse_tests.support.laws import law

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DAYS, STORES = (1, 2, 3), ("north", "south")
CHECKED = metric("revenue", SALES, BIGGEST, grain=["store"], checks={"change": [{"measure": "sales", "absolute": 50}]})


@dataclass(frozen=True)
class Publish:
    """An input publishes a day: by store sales or visits; of no store, the number of an emptied day."""

    input: str
    day: int
    by_store: tuple[tuple[str, int], ...]
    at_most: State = State.FINAL


@dataclass(frozen=True)
class Follow:
    """The derived metric follows."""


@dataclass(frozen=True)
class Wait:
    """A day passes."""


VALUES = st.lists(
    st.tuples(st.sampled_from(STORES), st.sampled_from([0, 1, 3, 7, 90])), max_size=2, unique_by=lambda pair: pair[0]
)
PUBLICATIONS = st.builds(
    Publish, st.sampled_from(["revenue", "sessions"]), st.sampled_from(DAYS), VALUES.map(tuple), st.sampled_from(State)
)
HISTORIES = st.lists(
    st.one_of(PUBLICATIONS, PUBLICATIONS, PUBLICATIONS, st.builds(Follow), st.builds(Wait)), min_size=5, max_size=14
)
ADJUSTED = [
    Publish("sessions", 1, (("north", 3),)),
    Publish("revenue", 1, (("north", 7), ("south", 1))),
    Follow(),
    Wait(),
    Wait(),
    Publish("sessions", 1, (("north", 3),)),
    Publish("sessions", 3, (("south", 1),)),
    Publish("revenue", 3, (("north", 3),)),
    Follow(),
    Publish("sessions", 1, (("north", 7), ("south", 3))),
    Follow(),
    Publish("revenue", 1, (("north", 90),)),
    Publish("revenue", 1, ()),
]

#: A ratio to nothing; a state that moves without a number; a day of which one input has no number; a day that both inputs empty.
MOVED = [
    Publish("revenue", 1, (("north", 7),), State.LIVE),
    Publish("sessions", 1, (("north", 0), ("south", 1))),
    Publish("sessions", 2, (("south", 3),)),
    Follow(),
    Wait(),
    Publish("revenue", 1, (("north", 7),)),
    Follow(),
    Publish("revenue", 1, ()),
    Publish("sessions", 1, ()),
]


def number_of(rows: dict[str, list[dict[str, Any]]], start: date) -> dict[Any, tuple[Any, int]] | None:
    """The conversion of each store and its row count, from all published rows of both inputs; None without a number of one."""
    parts = {}
    for name, of_input in rows.items():
        revision = [row for row in of_input if row["is_latest"] and row["event_date"] == start]
        if not revision:
            return None
        booked = [row for row in of_input if row["booked_on"] == start]
        is_emptied = revision[0]["store"] is None
        parts[name] = booked if is_emptied else [*revision, *booked]
    if not any(parts.values()):
        return {None: (None, 0)}
    sums: dict[Any, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for name, measure in (("revenue", "sales"), ("sessions", "n")):
        for row in parts[name]:
            sums[row["store"]][name] += row[measure]
            sums[row["store"]]["rows"] += row["row_count"]
    return {store: (_ratio(of_store), of_store["rows"]) for store, of_store in sums.items()}


def _ratio(sums: dict[str, int]) -> Decimal | None:
    if "revenue" not in sums or not sums.get("sessions"):
        return None
    return Decimal(repr(sums["revenue"] / sums["sessions"])).quantize(Decimal("0.000001"), ROUND_HALF_UP)


class World:
    """The lake, and what the model expects of the derived metric."""

    def __init__(self, sample: DerivedNumbers) -> None:
        self.sample, self.today = sample, 1
        self.expected: dict[date, list[tuple[Any, State]]] = {}
        sample.at(1)

    def do(self, step: Publish | Follow | Wait) -> None:
        if isinstance(step, Wait):
            self.today += 1
            self.sample.at(self.today)
        elif isinstance(step, Publish):
            rows = (revenue if step.input == "revenue" else sessions)(**dict(step.by_store))
            self.sample.publish(step.input, {day(step.day): rows}, at_most=step.at_most)
        else:
            self.follow()

    def follow(self) -> None:
        lake, series = self.sample.lake, self.sample.series()
        rows = {name: self.sample.published(name) for name in ("revenue", "sessions")}
        pending, due = find_pending(lake, series), find_due(lake, contract(), series)
        changed, moved = set(), set()
        for start in map(day, DAYS):
            number, state = number_of(rows, start), self._state(rows, start)
            history = self.expected.setdefault(start, [])
            if number is None:
                continue
            if not history or number != history[-1][0]:
                changed.add(start)
            elif state is not history[-1][1]:
                moved.add(start)
            if start in changed | moved:
                history.append((number, state))
        assert changed <= pending.starts, "no change of an input is missed"
        assert changed | moved <= pending.starts | set(due)
        done = self.sample.follow()
        restated = {one.start for one in done.revisions if one.action is PublishAction.REVISION}
        assert restated == changed, "exactly the days whose number differs are restated"
        assert {one.start for one in done.revisions} == changed | moved
        assert find_pending(lake, series).starts == frozenset()
        self.check()

    def _state(self, rows: dict[str, list[dict[str, Any]]], start: date) -> State:
        """The least final of the inputs' states and of what the metric's own calendar says, and never an earlier one."""
        states = [
            State(row["state"])
            for of_input in rows.values()
            for row in of_input
            if row["is_latest"] and row["event_date"] == start
        ]
        age = self.today - (start - day(1)).days - 1
        calendar = State.FINAL if age >= 5 else State.PRELIMINARY if age >= 1 else State.LIVE
        before = [state for _, state in self.expected.get(start, [])[-1:]]
        least = min([*states, calendar], key=lambda state: state.rank)
        return max([least, *before], key=lambda state: state.rank)

    def check(self) -> None:
        versions: dict[date, dict[int, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
        for row in self.sample.published():
            versions[row["event_date"]][row["revision"]].append(row)
        actual = {
            start: [
                ({row["store"]: (row["conversion"], row["row_count"]) for row in rows}, State(rows[0]["state"]))
                for _, rows in sorted(of_day.items())
            ]
            for start, of_day in versions.items()
        }
        assert actual == {start: history for start, history in self.expected.items() if history}

    def reproduce(self) -> None:
        series = self.sample.series()
        revisions = {row["version_name"]: row for row in self.sample.published()}
        for row in revisions.values():
            made = recompute.computed(self.sample.lake, contract(), series, row["event_date"], row, self.sample.session)
            assert digest(made.rows) == row["content"], row["version_name"]
            assert json.loads(row["made_from"]).keys() == {"revenue", "sessions"}


@law(60, shrinks=True)
@example(ADJUSTED)
@example(MOVED)
@given(HISTORIES)
def test_derived_numbers_are_those_of_the_model_after_every_run(
    spark: SparkSession, history: list[Publish | Follow | Wait]
) -> None:
    with TemporaryDirectory() as folder:
        known = metrics(CHECKED, adjusting())
        world = World(DerivedNumbers(lake_in(Path(folder)), spark, known))
        for step in [*history, Follow()]:
            world.do(step)
        world.reproduce()
