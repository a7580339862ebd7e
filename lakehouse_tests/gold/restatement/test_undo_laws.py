"""The law of undoing, against a plain model: any order of changes, named runs, undos and releases."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.gold.publication import held_numbers
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse.gold.restatement import days as restatement_days
from lakehouse.gold.restatement import revert
from lakehouse.gold.restatement.revert import UndoError
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.laws import law
from lakehouse_tests.support.numbers_without_spark import ScriptedNumbers, day, metric, without_spark

DAYS = (1, 2, 3)
RUNS = st.sampled_from(["stage a", "stage b"])


@dataclass
class Day:
    """The model of a day: what Silver gives, each content with the run that published it, and the version that it is kept at."""

    silver: int | None = None
    versions: list[tuple[int | None, str | None]] = field(default_factory=list)
    kept: int | None = None

    def publish(self, run: str | None) -> None:
        is_new = bool(self.versions) or self.silver is not None
        if self.kept is None and is_new and (not self.versions or self.versions[-1][0] != self.silver):
            self.versions.append((self.silver, run))

    def before(self, run: str) -> int | None:
        """The version before a run; None if it published nothing, or the first one.

        :raises UndoError: if a newer content came after it.
        """
        places = [place for place, (_, name) in enumerate(self.versions) if name == run]
        if not places or places[0] == 0:
            return None
        target = places[0] - 1
        if len(self.versions) > places[-1] + 1 and self.kept != target:
            raise UndoError
        return target

    def go_back(self, target: int) -> None:
        if self.versions[-1][0] != self.versions[target][0]:
            self.versions.append((self.versions[target][0], None))
        self.kept = target


_steps = st.lists(
    st.one_of(
        st.tuples(st.just("silver"), st.sampled_from(DAYS), st.one_of(st.none(), st.integers(1, 4))),
        st.tuples(st.just("run"), RUNS, st.none()),
        st.tuples(st.just("undo"), RUNS, st.none()),
        st.tuples(st.just("release"), st.sampled_from(DAYS), st.none()),
        st.tuples(st.just("publish"), st.none(), st.none()),
    ),
    min_size=4,
    max_size=14,
)


def _undo(numbers: ScriptedNumbers, model: dict[int, Day], run: str) -> bool:
    """Undo a run in the model; whether it is possible."""
    try:
        targets = {number: known.before(run) for number, known in model.items()}
    except UndoError:
        return False
    for number, target in targets.items():
        if target is not None:
            model[number].go_back(target)
    return any(target is not None for target in targets.values())


@law(100, in_each_run=4)
@given(steps=_steps)
def test_undos_in_any_order_give_what_the_model_gives(steps: list[tuple[str, Any, Any]], tmp_path_factory: Any) -> None:
    with without_spark():
        numbers = ScriptedNumbers(lake_in(tmp_path_factory.mktemp("undos")), metric())
        model = {number: Day() for number in DAYS}
        numbers.at(3)
        for kind, which, value in [("silver", 1, 3), ("silver", 2, 4), ("publish", None, None), *steps]:
            if kind == "silver":
                numbers.set(which, value)
                model[which].silver = value
            elif kind in {"run", "publish"}:
                days, run = [day(number) for number in DAYS], Run("run", backfill=which)
                restatement_days.restate(numbers.lake, numbers.source, numbers.series, numbers.session, days, run)
                for known in model.values():
                    known.publish(which)
            elif kind == "undo":
                is_possible = _undo(numbers, model, which)
                run = Run("undo", by="anna")
                try:
                    revert.undo(numbers.lake, numbers.source, [numbers.series], which, run, "wrong")
                except UndoError:
                    assert not is_possible
                else:
                    assert is_possible
            elif kind == "release" and model[which].kept is not None:
                revert.release(numbers.lake, numbers.series, numbers.series.period(day(which)), "ben", "enough")
                model[which].kept = None
        for number, known in model.items():
            assert [line[1] for line in numbers.history(number)] == [content for content, _ in known.versions], number
        kept = {day(number): f"r{known.kept + 1}" for number, known in model.items() if known.kept is not None}
        found = held_numbers.kept_periods(numbers.lake, "total")
        assert {start: entry.version for start, entry in found.items()} == kept
