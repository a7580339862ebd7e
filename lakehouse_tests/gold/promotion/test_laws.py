"""Whatever is published, held, signed off, dropped, promoted and rolled back in any order: readers see one complete version.

No Spark: silver's totals are given by hand. Arrivals through silver, closes and roll-ups are in ``gold/restatement/test_laws``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.calendar.periods import Calendar, Kind
from lakehouse.gold.numbers import history as numbers_history
from lakehouse.gold.numbers import published_table, served_version
from lakehouse.gold.numbers.version_selector import parse
from lakehouse.gold.promotion.promotion import PromotionRefusedError
from lakehouse.gold.publication import candidates, held_numbers
from lakehouse.gold.publication.write_audit_publish import Run
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.laws import law
from lakehouse_tests.support.numbers_without_spark import lawful_versions
from lakehouse_tests.support.two_dataset_versions import (
    V1,
    at,
    catalog,
    day,
    latest_totals,
    metric,
    promote,
    publish_totals,
    rollback,
)

if TYPE_CHECKING:
    import pytest

    from lakehouse.lake import Lake

CHECKED = {"checks": {"change": [{"measure": "total", "percent": 100}]}, "publication": {"final_after": 4}}
KNOWN = catalog(metric(1, **CHECKED), metric(2, **CHECKED))
ONE, TWO = (type(V1)(KNOWN.metrics[name]) for name in ("total", "total_v2"))
actions = st.one_of(
    st.tuples(st.just("say"), st.integers(1, 3), st.integers(1, 9)),
    st.tuples(st.sampled_from(["fill beside", "promote", "rollback", "sign off", "drop", "a day later", "publish"])),
)


@dataclass
class Readers:
    """The totals of Silver, the version that readers are served, what each version published, and what was seen when."""

    lake: Lake
    silver_totals: dict[int, int] = field(default_factory=dict)
    served_version: int = 1
    published_by: dict[int, dict[int, int]] = field(default_factory=lambda: {1: {}, 2: {}})
    snapshots: list[tuple[datetime, dict[int, Any]]] = field(default_factory=list)

    def do(self, action: tuple[Any, ...]) -> None:
        assert self.lake.settings.now is not None
        self.lake.settings.now += timedelta(hours=1)
        verb, *rest = action
        if verb == "say":
            self.silver_totals[rest[0]] = rest[1]
        elif verb == "a day later":
            self.lake.settings.now += timedelta(days=1)
        elif verb == "fill beside":
            publish_totals(self.lake, TWO, {number: 10 * value for number, value in self.silver_totals.items()})
        elif verb == "publish":
            self.publish()
        elif verb in {"promote", "rollback"}:
            self.move(verb)
        else:
            self.decide(verb)

    def publish(self) -> None:
        one = served_version.daily(self.lake, KNOWN, KNOWN.metrics["total"])
        times = 10 if self.served_version == 2 else 1
        assert one.metric.dataset_version == self.served_version
        done = publish_totals(self.lake, one, {number: times * value for number, value in self.silver_totals.items()})
        for start in done.days:
            self.published_by[self.served_version][start.day] = times * self.silver_totals[start.day]

    def move(self, direction: str) -> None:
        before = latest_totals(self.lake) if self.has_numbers() else {}
        try:
            if direction == "promote":
                promote(self.lake, KNOWN)
                if self.served_version == 2:
                    assert latest_totals(self.lake) == before, "they are there already"
                    return
                beside = latest_totals(self.lake, TWO.name)
                assert latest_totals(self.lake) == beside, "all of it, and nothing but it"
                self.published_by[2] |= beside
                self.served_version = 2
            else:
                rollback(self.lake, KNOWN)
                self.served_version = 1
                assert latest_totals(self.lake) == before | self.published_by[1]
        except PromotionRefusedError:
            assert (latest_totals(self.lake) if self.has_numbers() else {}) == before

    def decide(self, decision: str) -> None:
        series = served_version.daily(self.lake, KNOWN, KNOWN.metrics["total"])
        for held in candidates.held(self.lake, series):
            (total,) = held.draft.rows["total"].to_pylist()
            period = Calendar().containing(held.start, Kind.DAY)
            if decision == "drop":
                held_numbers.drop(self.lake, series, period, held.revision, "ana", "nonsense")
            else:
                try:
                    held_numbers.sign_off(self.lake, series, period, held.revision, Run("signed", by="ana"), "looked at")
                except held_numbers.HoldError:
                    continue  # it was proposed before the readers were moved
                self.published_by[self.served_version][held.start.day] = total

    def has_numbers(self) -> bool:
        return bool(published_table.starts(self.lake, ONE))

    def check(self) -> None:
        if not self.has_numbers():
            return
        lawful_versions(self.lake, ONE)
        now = latest_totals(self.lake)
        own = self.published_by[self.served_version]
        assert {number: value for number, value in now.items() if number in own} == own, "one version whole"
        assert self.lake.settings.now is not None
        self.snapshots.append((self.lake.settings.now, now))
        history = numbers_history.history(self.lake, ONE, [day(number) for number in now])
        for moment, then in self.snapshots:
            answers = numbers_history.versions(history, parse(moment.isoformat()))
            assert {start.day: version.rows[0]["total"] for start, version in answers.items()} == then, "as it was seen"


@law(100, in_each_run=3)
@given(steps=st.lists(actions, min_size=4, max_size=14))
def test_readers_see_one_complete_version_and_every_moment_can_be_queried(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[Any, ...]]
) -> None:
    readers = Readers(lake_in(tmp_path_factory.mktemp("lake")))
    at(readers.lake, 3)
    first = [("say", 1, 5), ("say", 2, 6), ("publish",), ("fill beside",)]
    for action in [*first, *steps]:
        readers.do(action)
        readers.check()
