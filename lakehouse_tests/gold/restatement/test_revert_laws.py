"""Laws of the way back, against a plain model: any order of changes, reverts, releases and closes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.calendar.periods import Kind
from lakehouse.contracts.series import Series
from lakehouse.gold.numbers.version_selector import parse
from lakehouse.gold.publication import held_numbers
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.restatement import revert
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.laws import law
from lakehouse_tests.support.numbers_without_spark import ScriptedNumbers, day, metric, without_spark

STATES = ("live", "preliminary", "final")
PRELIMINARY_AFTER, FINAL_AFTER = 2, 4
DAYS = (1, 2, 3)


@dataclass
class Day:
    """The model of a day: what Silver gives, the published contents with their states, and whether it is kept."""

    silver: int | None = None
    versions: list[tuple[int | None, str]] = field(default_factory=list)
    kept: bool = False

    def publish(self, content: int | None, age: int) -> None:
        by_calendar = STATES[(age >= PRELIMINARY_AFTER) + (age >= FINAL_AFTER)]
        state = max(by_calendar, *(state for _, state in self.versions), key=STATES.index) if self.versions else by_calendar
        if not self.versions or self.versions[-1] != (content, state):
            self.versions.append((content, state))

    def go_back(self, revision: int, age: int) -> None:
        content = self.versions[revision - 1][0]
        if content != self.versions[-1][0]:
            self.publish(content, age)
        self.kept = True


_numbers = st.sampled_from(DAYS)
_steps = st.lists(
    st.one_of(
        st.tuples(st.just("silver"), _numbers, st.one_of(st.none(), st.integers(1, 9))),
        st.tuples(st.just("publish"), st.just(0), st.just(0)),
        st.tuples(st.just("revert"), _numbers, st.integers(1, 5)),
        st.tuples(st.just("release"), _numbers, st.just(0)),
        st.tuples(st.just("later"), st.just(0), st.integers(1, 2)),
    ),
    min_size=4,
    max_size=14,
)


@law(100, in_each_run=4)
@given(steps=_steps)
def test_reverts_and_releases_in_any_order_give_what_the_model_gives(
    steps: list[tuple[str, int, Any]], tmp_path_factory: Any
) -> None:
    terms = {"preliminary_after": PRELIMINARY_AFTER, "final_after": FINAL_AFTER, "rollups": ["week"]}
    with without_spark():
        numbers = ScriptedNumbers(lake_in(tmp_path_factory.mktemp("reverts")), metric(publication=terms))
        model, today = {number: Day() for number in DAYS}, 3
        numbers.at(today)
        for kind, number, value in [("silver", 1, 5), ("publish", 0, 0), *steps, ("publish", 0, 0)]:
            if kind == "silver":
                numbers.set(number, value)
                model[number].silver = value
            elif kind == "later":
                today += value
                numbers.at(today)
            elif kind == "publish":
                numbers.publish()
                for each, known in model.items():
                    if known.versions or known.silver is not None:
                        known.publish(known.versions[-1][0] if known.kept else known.silver, today - each)
            elif kind == "revert" and len(model[number].versions) >= value:
                _put_back(numbers, number, value)
                model[number].go_back(value, today - number)
            elif kind == "release" and model[number].kept:
                revert.release(numbers.lake, numbers.series, numbers.series.period(day(number)), "ben", "enough")
                model[number].kept = False
        for number, known in model.items():
            assert [line[1:3] for line in numbers.history(number)] == known.versions, number
        assert set(held_numbers.kept_periods(numbers.lake, "total")) == {day(each) for each, known in model.items() if known.kept}
        assert held_numbers.released_periods(numbers.lake, "total") == {}, "all of them have been computed again"
        numbers.roll_up()
        totals = [known.versions[-1][0] or 0 for known in model.values() if known.versions]
        assert (numbers.latest_total(1, Series(numbers.metric, Kind.WEEK)) or 0) == sum(totals)


def _put_back(numbers: ScriptedNumbers, number: int, revision: int) -> None:
    period, run = numbers.series.period(day(number)), Run("back", by="anna")
    revert.revert(numbers.lake, numbers.source, numbers.series, period, parse(f"r{revision}"), run, "withdrawn")
