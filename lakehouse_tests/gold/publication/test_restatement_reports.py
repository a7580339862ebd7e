"""Each publication that restates numbers has a report: what its revisions were before and after, however often it was stopped."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.calendar.periods import Kind
from lakehouse.contracts.series import Series
from lakehouse.gold.numbers import history
from lakehouse.gold.publication import restatement_reports
from lakehouse.gold.publication.restatement_reports import RestatementReport, sides_of
from lakehouse.ledger import publications
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.laws import law
from lakehouse_tests.support.numbers_without_spark import ScriptedNumbers, day, metric, without_spark
from lakehouse_tests.support.stopped_commits import stopped_after_each_commit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date

    from lakehouse.lake import Lake

STORES = metric(grain=["store"], type="decimal(18,2)", publication={"rollups": ["week"]})
ADJUSTS = metric(publication={"after_close": "adjust"})


@pytest.fixture(autouse=True, scope="module")
def _without_spark() -> Iterator[None]:
    with without_spark():
        yield


def reports(lake: Lake, series: Series) -> list[RestatementReport]:
    return sorted(restatement_reports.log(lake).read({"series": [series.name]}), key=lambda one: one.gold_version)


def publish_days(numbers: ScriptedNumbers, number: int, totals: dict[int, Any]) -> None:
    numbers.at(number)
    for one, value in totals.items():
        numbers.set(one, value)
    numbers.publish(*totals)


def test_a_report_says_what_a_publication_changed_and_why(lake: Lake) -> None:
    numbers = ScriptedNumbers(lake, STORES)
    publish_days(numbers, 3, {1: {"a": "1.50", "b": "2.00"}, 2: {"a": "7.00"}})
    assert reports(lake, numbers.series) == [], "first numbers restate nothing"
    publish_days(numbers, 4, {1: {"a": "1.50", "b": "4.25", "c": "1.00"}, 2: {"a": "7.00"}, 3: {"a": "1.00"}})
    (report,) = reports(lake, numbers.series)
    newest = publications.of(lake, "total")[-1]
    assert (report.publication_id, report.gold_version, report.run_id) == (newest.publication_id, newest.gold_version, "run")
    assert (report.period_count, list(report.periods), report.grain, report.measures) == (1, [f"{day(1)}"], ["store"], ["total"])
    entry = report.periods[f"{day(1)}"]
    assert (entry["before"], entry["after"], entry["reason"], report.reasons) == (
        "r1",
        "r2",
        report.reason.value,
        {report.reason.value: 1},
    )
    assert entry["explanation"] == history.history(lake, numbers.series, [day(1)])[day(1)][-1].restatement_reason
    moved = {"before": "3.50", "after": "6.75", "difference": "3.25", "percent": "92.86"}
    assert entry["moved"] == report.totals == {"total": moved}
    changed = [(row["grain"], sides_of(row["moved"]["total"])) for row in entry["rows"]]
    assert changed == [({"store": "b"}, (Decimal("2.00"), Decimal("4.25"))), ({"store": "c"}, (None, Decimal("1.00")))]
    assert entry["row_count"] == 2
    assert restatement_reports.find(lake, ["total", "total_weekly"], newest.publication_id) == report
    assert restatement_reports.find(lake, ["total"], publications.of(lake, "total")[0].publication_id) is None
    numbers.roll_up()
    numbers.set(1, {"a": "1.00"})
    numbers.publish(1)
    numbers.roll_up()
    (weekly,) = reports(lake, Series(STORES, Kind.WEEK))
    assert sides_of(weekly.totals["total"]) == (Decimal("14.75"), Decimal("9.00"))


def test_a_change_of_state_has_no_report_and_a_person_is_named(lake: Lake) -> None:
    limited = metric(checks={"change": [{"measure": "total", "absolute": 5}]})
    numbers = ScriptedNumbers(lake, limited)
    publish_days(numbers, 2, {1: 1})
    publish_days(numbers, 3, {1: 100})
    assert reports(lake, numbers.series) == [], "it is held"
    numbers.sign_off(1, 2)
    (report,) = reports(lake, numbers.series)
    assert (report.by, report.signed_off_by, report.sign_off_reason) == ("anna", "anna", "looked at")
    assert report.causes["overruled"]
    numbers.at(20)
    numbers.close()
    assert numbers.history(1)[-1][2] == "final"
    assert reports(lake, numbers.series) == [report]


def test_an_adjustment_is_reported_as_what_it_does_to_the_closed_number(lake: Lake) -> None:
    numbers = ScriptedNumbers(lake, ADJUSTS)
    publish_days(numbers, 2, {1: 10})
    numbers.at(20)
    numbers.close()
    for value in (12, 15):
        publish_days(numbers, 20, {1: value})
    first, second = (report.periods[f"{day(1)}"] for report in reports(lake, numbers.series))
    assert [(one["before"], one["after"], *sides_of(one["moved"]["total"])) for one in (first, second)] == [
        ("r2", "r2.a1", 10, 12),
        ("r2.a1", "r2.a2", 12, 15),
    ]


def test_many_periods_are_counted_and_only_the_greatest_are_listed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("PERIODS", 2), ("ROWS", 1), ("_AT_ONCE", 2)):
        monkeypatch.setattr(restatement_reports, name, value)
    numbers = ScriptedNumbers(lake, STORES)
    publish_days(numbers, 9, {number: {"a": "1.00", "b": "1.00"} for number in range(1, 8)})
    publish_days(numbers, 9, {number: {"a": f"{1 + number}.00", "b": "0.00"} for number in range(1, 8)})
    (report,) = reports(lake, numbers.series)
    assert (report.period_count, sorted(report.periods)) == (7, [f"{day(6)}", f"{day(7)}"])
    assert sides_of(report.totals["total"]) == (14, 35)
    entry = report.periods[f"{day(7)}"]
    assert (entry["row_count"], [row["grain"] for row in entry["rows"]]) == (2, [{"store": "a"}])


def test_a_publication_whose_run_was_killed_gets_its_report_from_the_next_one(lake: Lake) -> None:
    numbers = ScriptedNumbers(lake, STORES)
    publish_days(numbers, 3, {1: {"a": "1.00"}, 2: {"a": "1.00"}})
    numbers.set(1, {"a": "5.00"})
    assert stopped_after_each_commit(lambda: numbers.publish(1)), "among others between the publication and its report"
    numbers.set(2, {"a": "6.00"})
    numbers.publish(2)
    assert [list(report.periods) for report in reports(lake, numbers.series)] == [[f"{day(1)}"], [f"{day(2)}"]]


def test_a_lost_report_is_made_again_as_it_was(lake: Lake) -> None:
    numbers = ScriptedNumbers(lake, STORES)
    for total in ("1.00", "5.00", "6.50"):
        publish_days(numbers, 3, {1: {"a": total}})
    before = reports(lake, numbers.series)
    assert len(before) == 2
    commits = {one.publication_id: one for one in publications.of(lake, "total")}
    again = [restatement_reports.of_publication(lake, numbers.series, commits[one.publication_id]) for one in before]
    assert json.dumps([vars(one) for one in again if one], default=str, sort_keys=True) == json.dumps(
        [vars(one) for one in before], default=str, sort_keys=True
    )


def test_what_was_looked_at_is_not_read_again(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = ScriptedNumbers(lake, metric())
    publish_days(numbers, 2, {1: 1})
    publish_days(numbers, 2, {1: 2})
    numbers.at(20)
    numbers.close()
    looked_at: list[int] = []
    of_publication = restatement_reports.of_publication
    monkeypatch.setattr(
        restatement_reports, "of_publication", lambda *all_: looked_at.append(all_[2].gold_version) or of_publication(*all_)
    )
    restatement_reports.follow(lake, numbers.series)
    assert looked_at == []
    publish_days(numbers, 20, {2: 5})
    assert looked_at == [], "a first number"
    publish_days(numbers, 20, {2: 6})
    assert len(looked_at) == 1


def test_values_of_the_grain_are_masked_in_the_periods_where_they_are_hidden(lake: Lake) -> None:
    numbers = ScriptedNumbers(lake, STORES)
    for total in ("1.00", "5.00"):
        publish_days(numbers, 3, {1: {"a": total, "b": total}, 2: {"a": total}})
    (before,) = reports(lake, numbers.series)

    def mask() -> int:
        return restatement_reports.mask(lake, numbers.series, [day(1)], lambda _: {"store": {"a", "z"}})

    assert (mask(), mask()) == (1, 0), "repeating it changes nothing"
    (after,) = reports(lake, numbers.series)
    stores = {period: [row["grain"]["store"] for row in entry["rows"]] for period, entry in after.periods.items()}
    assert stores == {f"{day(1)}": [None, "b"], f"{day(2)}": ["a"]}
    assert (after.totals, after.causes, after.published_at) == (before.totals, before.causes, before.published_at)


@pytest.mark.merge
@law(100, in_each_run=3)
@given(steps=st.lists(st.dictionaries(st.integers(1, 3), st.integers(0, 3), min_size=1), min_size=2, max_size=6))
def test_reports_are_the_history_of_the_revisions(tmp_path_factory: pytest.TempPathFactory, steps: list[dict[int, int]]) -> None:
    """Every version that changed a number is in the report of its publication, with its totals before and after."""
    numbers = ScriptedNumbers(lake_in(tmp_path_factory.mktemp("lake")), ADJUSTS)
    for place, step in enumerate(steps):
        publish_days(numbers, 4 + 3 * place, step)
        numbers.close()
    wanted: dict[tuple[str, date], tuple[Any, Any]] = {}
    for start, versions in history.history(numbers.lake, numbers.series, [day(number) for number in (1, 2, 3)]).items():
        for version, moved in list(zip(versions, history.moved(numbers.series, versions)))[1:]:
            if moved["total"].changed:
                wanted[version.row["publication_id"], start] = tuple(moved["total"])
    in_reports = {
        (report.publication_id, numbers.series.period(day(1)).start.fromisoformat(entry["start"])): tuple(
            sides_of(entry["moved"]["total"])
        )
        for report in reports(numbers.lake, numbers.series)
        for entry in report.periods.values()
    }
    assert in_reports == wanted
