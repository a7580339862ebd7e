"""The history of a window follows from that of its day: revisions that leave it alone are not its own."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.gold.numbers import window_history
from lakehouse.gold.numbers.history import PublishedVersion
from lakehouse.gold.numbers.lifecycle import RevisionReason, State
from lakehouse.gold.numbers.window_history import WindowReason

DAY = date(2024, 1, 15)
MIDNIGHT = datetime(2024, 1, 15, tzinfo=timezone.utc)
Totals = dict[int, int]


def version(number: int, totals: Totals, adjustment: int | None = None) -> PublishedVersion:
    """A version of a day, given the total of each hour."""
    rows: list[dict[str, Any]] = [{"window_start": hour(number_), "total": total} for number_, total in totals.items()]
    at = MIDNIGHT + timedelta(days=number)
    reason = RevisionReason.INITIAL
    return PublishedVersion(
        DAY, f"{DAY}", f"hourly.r{number}", number, adjustment, State.LIVE, reason, False, at, None, None, None, rows
    )


def hour(number: int) -> datetime:
    return MIDNIGHT + timedelta(hours=number)


def labels(versions: list[PublishedVersion], number: int) -> list[str]:
    return [one.label for one in window_history.history(versions, hour(number))]


@given(st.lists(st.dictionaries(st.integers(0, 3), st.integers(1, 2)), min_size=1, max_size=5))
def test_a_version_belongs_to_the_windows_that_it_changed(histories: list[Totals]) -> None:
    versions = [version(number, totals) for number, totals in enumerate(histories, 1)]
    last = window_history.last_changes(versions)
    for number in range(4):
        totals = [None, *(of_version.get(number) for of_version in histories)]
        changed = [f"r{place}" for place in range(1, len(totals)) if totals[place] != totals[place - 1]]
        assert labels(versions, number) == changed
        assert last.get(hour(number)) == (changed[-1] if changed else None)


def test_a_change_of_state_belongs_to_every_window_and_an_adjustment_to_those_that_it_names() -> None:
    first, adjusted = version(1, {0: 5, 1: 7}), version(2, {1: 1}, adjustment=1)
    final = replace(version(2, {0: 5, 1: 7}), state=State.FINAL)
    assert labels([first, final, adjusted], 0) == ["r1", "r2"]
    assert labels([first, final, adjusted], 1) == ["r1", "r2", "r2.a1"]
    assert labels([first, final, adjusted], 2) == []
    assert window_history.last_changes([first, final, adjusted]) == {hour(0): "r1", hour(1): "r2.a1"}
    seen = {number: window_history.versions_of([first, final, adjusted], hour(number)) for number in (0, 1, 2)}
    assert {number: [one.label for one in every] for number, every in seen.items()} == {
        0: ["r1", "r2"],
        1: ["r1", "r2", "r2.a1"],
        2: ["r1", "r2"],
    }


def restated(number: int, totals: Totals, rows: int, reason: RevisionReason = RevisionReason.LATE_DATA) -> PublishedVersion:
    """A revision of a day that replaced a number that readers had."""
    made = version(number, totals)
    why, row = f"{reason.value}: {rows} arrived late", {"changed_rows": rows}
    return replace(made, reason=reason, restated_on=made.published_at, restatement_reason=why, row=row)


def test_an_hour_that_alone_is_restated_has_the_new_version_and_reason_and_no_other_hour_does() -> None:
    first, late = version(1, {0: 5, 1: 7}), replace(restated(2, {0: 5, 1: 9}, 3), is_latest=True)
    of_hour = {number: window_history.shown([first, late], late, hour(number)) for number in (0, 1)}
    assert (of_hour[1].label, of_hour[1].restatement_reason) == ("r2", "late_data: 3 arrived late")
    assert (of_hour[1].restated_on, of_hour[1].row["changed_rows"]) == (late.published_at, 3)
    assert (of_hour[0].label, of_hour[0].published_at, of_hour[0].reason) == ("r1", first.published_at, RevisionReason.INITIAL)
    assert (of_hour[0].restated_on, of_hour[0].restatement_reason, of_hour[0].row["changed_rows"]) == (None, None, None)
    assert [one.is_latest for one in of_hour.values()] == [True, True]


def test_a_revision_of_another_hour_is_no_reason_of_this_one() -> None:
    first, late = version(1, {0: 5, 1: 7}), restated(2, {0: 5, 1: 9}, 3)
    corrected = restated(3, {0: 8, 1: 9}, 1, RevisionReason.CORRECTION)
    seen = window_history.versions_of([first, late, corrected], hour(1))
    assert [(one.label, one.has_new_content) for one in seen] == [("r1", True), ("r2", True), ("r3", False)]
    assert [one.reason for one in seen][1:] == [RevisionReason.LATE_DATA, RevisionReason.DAILY_FINALIZATION]


def test_where_several_hours_are_restated_the_rows_of_each_are_not_known() -> None:
    first, late = version(1, {0: 5, 1: 7, 2: 1}), restated(2, {0: 6, 1: 9, 2: 1}, 3)
    shown = window_history.shown([first, late], late, hour(0))
    assert (shown.label, shown.restatement_reason, shown.row["changed_rows"]) == ("r2", "late_data", None)


def test_a_closing_revision_that_changes_another_hour_only_closes_this_one() -> None:
    first = version(1, {0: 5, 1: 7})
    final = replace(restated(2, {0: 5, 1: 9}, 1), state=State.FINAL)
    [_, closed] = window_history.history([first, final], hour(0))
    assert (closed.label, closed.reason, closed.restated_on) == ("r2", RevisionReason.DAILY_FINALIZATION, None)
    [_, changed] = window_history.history([first, final], hour(1))
    assert (changed.label, changed.reason, changed.restates) == ("r2", RevisionReason.LATE_DATA, True)


def test_where_several_hours_change_each_has_the_reason_of_its_rows() -> None:
    first, late = version(1, {0: 5, 1: 7}), restated(2, {0: 6, 1: 9, 2: 1}, 5)
    reasons = {hour(0): WindowReason("late_data: 1 arrived late", 1), hour(1): WindowReason("new_data: 4 on time", 4)}
    late = replace(late, windows=reasons)
    shown = [window_history.shown([first, late], late, hour(number)) for number in range(3)]
    assert [each.reason.value for each in shown] == ["late_data", "new_data", "initial"]
    assert [each.row["changed_rows"] for each in shown] == [1, 4, None]
    assert [each.restated_on for each in shown] == [late.published_at, None, None]
    assert [each.restatement_reason for each in shown] == ["late_data: 1 arrived late", None, None]
    assert [each.restates for each in shown] == [True, False, False]
    assert [each.why for each in shown] == ["late_data: 1 arrived late", "new_data: 4 on time", "initial"]
    standings = {each.start: (each.restated, each.update_count) for each in window_history.standings([first, late])}
    assert standings == {hour(0): (1, 1), hour(1): (0, 1), hour(2): (0, 0)}


def test_the_first_number_of_an_hour_restates_a_final_day() -> None:
    final = replace(version(1, {0: 5}), state=State.FINAL)
    late = replace(restated(2, {0: 5, 1: 9}, 3), state=State.FINAL)
    [shown] = window_history.history([final, late], hour(1))
    assert (shown.reason, shown.restates, shown.restatement_reason) == (
        RevisionReason.LATE_DATA,
        True,
        "late_data: 3 arrived late",
    )


@given(st.lists(st.tuples(st.dictionaries(st.integers(0, 3), st.integers(1, 2)), st.booleans()), min_size=1, max_size=6))
def test_every_window_has_the_provenance_of_its_own_last_change(history: list[tuple[Totals, bool]]) -> None:
    """Against a plain reading of the day: the newest revision whose total of the window differs from the one before it."""
    versions = [
        restated(number, totals, 1) if late and number > 1 else version(number, totals)
        for number, (totals, late) in enumerate(history, 1)
    ]
    versions[-1] = replace(versions[-1], is_latest=True)
    for place, chosen in enumerate(versions):
        for number in range(4):
            totals = [None, *(of_version.get(number) for of_version, _ in history)]
            changed = [at for at in range(1, len(totals)) if totals[at] != totals[at - 1]]
            until = [at for at in changed if at <= place + 1]
            shown = window_history.shown(versions, chosen, hour(number))
            assert [row["total"] for row in shown.rows] == [total for total in [totals[place + 1]] if total is not None]
            if not until:
                assert (shown.restated_on, shown.restatement_reason) == (None, None)
                continue
            assert shown.label == f"r{until[-1]}"
            assert shown.published_at == versions[until[-1] - 1].published_at
            restating = [at for at in until[1:] if history[at - 1][1]]
            assert shown.restated_on == (versions[restating[-1] - 1].published_at if restating else None)
            later = [at for at in changed if at > until[-1]]
            assert shown.superseded_at == (versions[later[0] - 1].published_at if later else None)
            assert shown.is_latest == (not later)
            own = ("restated_on", "restatement_reason", "superseded_at", "is_latest")
            assert {name: shown.row[name] for name in own} == {name: getattr(shown, name) for name in own}
            assert shown.row["reason"] == shown.reason.value
