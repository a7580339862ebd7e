"""A steward admits rows that came too late for a metric, and takes that back."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse import locations
from lakehouse.contracts.series import Series
from lakehouse.late_events import counters, late_rows, left_out
from lakehouse.ledger import ingestions, late_decisions
from lakehouse.ledger.ids import row_id_of
from lakehouse.stewardship import admit_late
from lakehouse.stewardship.quarantine import StewardError
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.late_lake import CORNERS, LateLake, histories, late
from lakehouse_tests.support.laws import law
from lakehouse_tests.support.numbers_without_spark import without_spark
from lakehouse_tests.support.windowed_lake import BEGINS, DAYS, FIRST, TUMBLING, Event

if TYPE_CHECKING:
    from lakehouse.contracts.metric import MetricContract
    from lakehouse.lake import Lake

EVERY_DAY = [FIRST + timedelta(days=number) for number in range(-1, DAYS + 2)]


def decide(sample: LateLake, metric: MetricContract, rows: Any, *, counts: bool, reason: str = "the till was offline") -> Any:
    return admit_late.decide(sample.lake, metric, sample.sources["orders"], rows, counts=counts, by="anna", reason=reason)


def too_late(sample: LateLake, metric: MetricContract) -> list[Any]:
    rows = late_rows.read(sample.lake, "orders", {"metric": [metric.name]})
    return sorted(row_id_of(row) for row in admit_late.undecided(rows, counts=True).to_pylist())


def not_counting(sample: LateLake, metric: MetricContract, ids: set[str]) -> set[Any]:
    found = left_out.on_days(sample.lake, metric, sample.sources["orders"], EVERY_DAY, ids)
    return set() if found is None else {row_id_of(row) for row in found.rows.to_pylist()}


@law(25)
@example(history=CORNERS, decided=[(0, True), (1, True), (0, False)])
@given(history=histories(), decided=st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=4))
def test_what_counts_follows_from_the_decisions_that_a_number_knows(tmp_path_factory, history, decided) -> None:
    with without_spark():
        sample = LateLake(lake_in(tmp_path_factory.mktemp("lake")), None, [late(TUMBLING, "drop", at_close="exclude")])
        [metric] = sample.metrics
        for arrived, events in history:
            sample.classify_at(arrived, *events)
        dropped, files = too_late(sample, metric), set(ingestions.completed(sample.lake, "orders"))
        known, model = [(files, set(dropped))], set(dropped)
        for number, counts in decided:
            wanted = [row for place, row in enumerate(dropped) if place % 2 == number % 2 and (row in model) == counts]
            decide(sample, metric, wanted, counts=counts)
            model = model - set(wanted) if counts else model | set(wanted)
            known.append((files | late_decisions.ids(sample.lake, "orders"), set(model)))
        assert too_late(sample, metric) == sorted(model)
        assert counters.of_metric(sample.lake, metric).late_dropped == len(model)
        for ids, left in known:
            # A delete of a key that has no row, or a row of a key that is on no day, concerns no day.
            assert not_counting(sample, metric, ids) <= left
            assert not_counting(sample, metric, ids) == left & not_counting(sample, metric, files)
        assert not_counting(sample, metric, files | {late_decisions.EVERY_ROW}) == set()


def test_a_row_that_is_not_late_or_counts_already_is_refused(lake: Lake) -> None:
    with without_spark():
        sample = LateLake(lake, None, [late(TUMBLING, "recompute", 30)])
        [metric] = sample.metrics
        sample.classify_at(0, Event("a", 5), Event("push", 150))
        sample.classify_at(1, Event("within", 135), Event("beyond", 10))
        [beyond] = too_late(sample, metric)
        with pytest.raises(StewardError, match="is no late row of hourly that does not count"):
            decide(sample, metric, [(beyond[0], 99)], counts=True)
        with pytest.raises(StewardError, match="that a steward has admitted"):
            decide(sample, metric, [beyond], counts=False)
        with pytest.raises(StewardError, match="needs a name"):
            decide(sample, metric, [beyond], counts=True, reason=" ")
        assert decide(sample, metric, [beyond], counts=True).rows == 1
        assert decide(sample, metric, [beyond], counts=True).repeated == 1


@pytest.mark.merge
@pytest.mark.spark
def test_an_admitted_row_counts_with_the_reason_and_the_withdrawal_takes_it_back(lake: Lake, spark: Any) -> None:
    sample = LateLake(lake, spark, [late(TUMBLING, "recompute")])
    [hourly] = sample.metrics
    sample.deliver_at(0, Event("a", 5), Event("b", 30), Event("push", 150))
    sample.deliver_at(1, Event("beyond", 10, 100), Event("b", 31, 7))
    assert sample.numbers_of(hourly)[BEGINS] == (2, 2)
    rows = late_rows.read(lake, "orders").to_pylist()
    [beyond] = [row_id_of(row) for row in rows if row["record_key"] == "beyond"]
    decide(sample, hourly, [beyond], counts=True)
    assert sample.publish() == [{FIRST}]
    assert sample.numbers_of(hourly)[BEGINS] == (102, 3)
    assert _explanation(sample, hourly) == "late_data: 1 late row admitted by anna (the till was offline)"
    decide(sample, hourly, [beyond], counts=False, reason="it was a test")
    sample.publish()
    assert sample.numbers_of(hourly)[BEGINS] == (2, 2)
    assert _explanation(sample, hourly) == "late_data: 1 late row left out again by anna (it was a test)"
    assert sample.unlike_published() == []


def _explanation(sample: LateLake, metric: MetricContract) -> str:
    series = Series(metric)
    rows = locations.gold(sample.lake, series).read(None, {series.by: [FIRST]}).to_pylist()
    return str(max(rows, key=lambda row: row["revision"])["restatement_reason"])
