"""Publishing stopped after any commit: readers see the old or the new number of a period, and a second attempt ends the same.

Restating, closing, signing off, dropping, rolling up and adjusting, each stopped after its first commit, its second, and so
on (R8 and R11). No Spark: the commits are those that count.
"""

from __future__ import annotations

from shutil import copytree, rmtree
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse import locations
from lakehouse.calendar.periods import Kind
from lakehouse.contracts.series import Series
from lakehouse.gold.publication import held_numbers
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.ledger import publications
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.numbers_without_spark import (
    ScriptedNumbers,
    day,
    lawful_versions,
    metric,
    published_rows,
    without_spark,
)
from lakehouse_tests.support.stopped_commits import Killed, kill_after, stopped_after_each_commit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakehouse.lake import Lake

KINDS = (Kind.DAY, Kind.WEEK)
PLAIN = metric(publication={"rollups": ["week"]}, checks={"change": [{"measure": "total", "absolute": 50}]})
ADJUST = metric(publication={"after_close": "adjust", "rollups": ["week"]})


@pytest.fixture(autouse=True, scope="module")
def _without_spark() -> Iterator[None]:
    with without_spark():
        yield


def restate(numbers: ScriptedNumbers) -> None:
    numbers.at(3)
    for number, value in ((1, 11), (2, None), (3, 30)):
        numbers.set(number, value)
    numbers.publish()
    everything_rolls(numbers)


def close(numbers: ScriptedNumbers) -> None:
    numbers.at(9)
    numbers.close()
    everything_rolls(numbers)


def restate_after_closing(numbers: ScriptedNumbers) -> None:
    """Adjust closed days where the contract asks for it, among them one without a number."""
    numbers.at(20)
    numbers.close()
    everything_rolls(numbers)
    for number, value in ((1, 17), (4, 7)):
        numbers.set(number, value)
    numbers.publish()
    everything_rolls(numbers)


def hold(numbers: ScriptedNumbers) -> None:
    numbers.at(3)
    for number, value in ((1, 99), (2, 21)):
        numbers.set(number, value)
    numbers.publish()
    everything_rolls(numbers)


def sign_off(numbers: ScriptedNumbers) -> None:
    if numbers.held():
        numbers.sign_off(1, 2)
    publications.follow(numbers.lake, numbers.series.name, locations.gold(numbers.lake, numbers.series))
    everything_rolls(numbers)


def drop(numbers: ScriptedNumbers) -> None:
    if numbers.held():
        numbers.drop(1, 2)
    numbers.at(4)
    numbers.publish()


def everything_rolls(numbers: ScriptedNumbers) -> None:
    for one in numbers.series.rollups:
        numbers.roll_up(one.kind)


def prepared(lake: Lake, metric_contract: Any, *before: Callable[[ScriptedNumbers], None]) -> ScriptedNumbers:
    numbers = ScriptedNumbers(lake, metric_contract)
    numbers.at(2)
    for number, value in ((1, 10), (2, 20)):
        numbers.set(number, value)
    numbers.publish()
    everything_rolls(numbers)
    for action in before:
        action(numbers)
    return numbers


def outcome(numbers: ScriptedNumbers) -> dict[str, Any]:
    """What is in the tables, without the ids and times of the runs."""
    contents: dict[str, Any] = {}
    names = (
        "row_count",
        "reason",
        "due_on",
        "booked_on",
        "made_from",
        "restatement_reason",
        "signed_off_by",
        "content",
        "published_at",
    )
    for kind in KINDS:
        series = Series(numbers.metric, kind)
        contents[series.name] = lawful_versions(numbers.lake, series)
        contents[f"{series.name}, more"] = sorted(
            [tuple(row[name] for name in names) for row in published_rows(numbers.lake, series)], key=str
        )
        published = [entry.published for entry in publications.of(numbers.lake, series.name)]
        versions = [commit.gold_version for commit in publications.of(numbers.lake, series.name)]
        assert len(versions) == len(set(versions)), "each commit is told of once"
        contents[f"{series.name}, ledger"] = sorted(name for entry in published for name in entry.values())
        if kind is not Kind.DAY:
            contents[f"{series.name}, waiting"] = find_pending(numbers.lake, series).starts
    contents["held"] = numbers.held()
    contents["dropped"] = [
        (rejected.period_start, rejected.content) for rejected in held_numbers.rejected(numbers.lake, numbers.series.name)
    ]
    return contents


def seen(numbers: ScriptedNumbers) -> dict[tuple[str, Any], Any]:
    """What readers see of each period; a period that they see twice, or not at all any more, breaks the laws."""
    return {
        (kind.value, start): (label, value, state)
        for kind in KINDS
        for start, label, value, state, newest in lawful_versions(numbers.lake, Series(numbers.metric, kind))
        if newest
    }


@pytest.mark.parametrize(
    ("metric_contract", "before", "action", "least"),
    [
        pytest.param(PLAIN, [], restate, 8, marks=pytest.mark.merge),
        pytest.param(PLAIN, [], close, 8, marks=pytest.mark.proof),
        pytest.param(PLAIN, [], hold, 8, marks=pytest.mark.proof),
        pytest.param(PLAIN, [hold], sign_off, 6, marks=pytest.mark.proof),
        (PLAIN, [hold], drop, 2),
        pytest.param(ADJUST, [close], restate_after_closing, 9, marks=pytest.mark.proof),
    ],
    ids=["restate", "close", "hold", "sign off", "drop", "adjust"],
)
def test_stopped_after_any_commit(
    tmp_path_factory: pytest.TempPathFactory,
    metric_contract: Any,
    before: list[Any],
    action: Callable[[ScriptedNumbers], None],
    least: int,
) -> None:
    folder = tmp_path_factory.mktemp("lake")
    numbers = prepared(lake_in(folder), metric_contract, *before)
    start, says, clock = folder / "start", dict(numbers.by_day), numbers.lake.settings.now
    copytree(folder / "lake", start)
    old = seen(numbers)
    action(numbers)
    expected, new = outcome(numbers), seen(numbers)
    assert new.keys() >= old.keys()
    for one in (numbers.series, *numbers.series.rollups):
        assert expected[f"{one.name}, ledger"] == sorted({row["version_name"] for row in published_rows(numbers.lake, one)})
    stops = 0
    while True:
        rmtree(folder / "lake")
        copytree(start, folder / "lake")
        numbers.by_day, numbers.lake.settings.now = dict(says), clock
        with pytest.MonkeyPatch.context() as patched:
            kill_after(patched, stops + 1)
            try:
                action(numbers)
            except Killed:
                stops += 1
            else:
                break
        between(seen(numbers), old, new, expected)
        numbers.by_day, numbers.lake.settings.now = dict(says), clock
        action(numbers)
        assert outcome(numbers) == expected, f"stopped behind commit {stops}"
    assert stops >= least, "it was stopped behind every commit"


def between(now: dict[Any, Any], old: dict[Any, Any], new: dict[Any, Any], expected: dict[str, Any]) -> None:
    """Each period as it was, as it will be, or as one of the versions in between; none is lost."""
    assert now.keys() >= old.keys()
    for (kind, start), version in now.items():
        of = "total" + Kind(kind).suffix
        coming = {line[1:4] for line in expected[of] if line[0] == start}
        assert version in {old.get((kind, start)), new[kind, start], *coming}


@pytest.mark.parametrize("action", [restate, close, hold], ids=["restate", "close", "hold"])
def test_stopped_again_and_again(tmp_path_factory: pytest.TempPathFactory, action: Callable[[ScriptedNumbers], None]) -> None:
    """Each attempt is stopped after its first commit that has an effect: it still reaches its end."""
    undisturbed = prepared(lake_in(tmp_path_factory.mktemp("lake")), metric(checks=PLAIN.checks))
    action(undisturbed)
    numbers = prepared(lake_in(tmp_path_factory.mktemp("lake")), metric(checks=PLAIN.checks))
    assert stopped_after_each_commit(lambda: action(numbers)) >= 3
    assert lawful_versions(numbers.lake, numbers.series) == lawful_versions(undisturbed.lake, undisturbed.series)
    assert numbers.held() == undisturbed.held()


def test_a_run_that_was_stopped_after_its_commit_is_reported_by_the_next_one(lake) -> None:
    numbers = prepared(lake, metric())
    numbers.set(1, 11)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(publications, "follow", lambda *_: (_ for _ in ()).throw(Killed()))
        with pytest.raises(Killed):
            numbers.publish()
    assert numbers.latest_total(1) == 11
    assert len(publications.of(lake, "total")) == 1
    assert numbers.publish().revisions == [], "there is nothing to publish"
    assert [dict(entry.published) for entry in publications.of(lake, "total")][1:] == [{"2024-01-01": "total_v2024-01-01.r2"}]
    assert len(publications.restatements_of(lake, "total")) == 1
    found = locations.publications(lake).read(["series"])
    assert found is not None
    assert len(found) == 2
    assert numbers.history(1)[-1][:2] == ("r2", 11)
    assert numbers.starts() == {day(1), day(2)}
