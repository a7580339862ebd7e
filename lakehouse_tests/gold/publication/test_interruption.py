"""Stopped behind any commit of publishing: readers see the old or the new number of a period, and the same again ends the same.

Restating, closing, signing off, dropping, rolling up and adjusting, each stopped behind its first commit, its second, and so
on (R8 and R11). No Spark: the commits are those that count.
"""

from __future__ import annotations

from shutil import copytree, rmtree
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse import locations
from lakehouse.calendar.periods import Kind
from lakehouse.contracts.series import Series
from lakehouse.delta import table_io
from lakehouse.gold.publication import rejected_candidates
from lakehouse.gold.restatement.pending import find_pending
from lakehouse.ledger import publications, restatements
from lakehouse_tests.support.lake_settings import lake_settings
from lakehouse_tests.support.numbers_without_spark import Desk, day, lawful, metric, rows, without_spark
from lakehouse_tests.support.stopped_commits import Killed, kill_after, stopped_after_each_commit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakehouse.settings import Settings

KINDS = (Kind.DAY, Kind.WEEK)
PLAIN = metric(publication={"rollups": ["week"]}, checks={"change": [{"measure": "total", "absolute": 50}]})
ADJUST = metric(publication={"after_close": "adjust", "rollups": ["week"]})


@pytest.fixture(autouse=True, scope="module")
def _without_spark() -> Iterator[None]:
    with without_spark():
        yield


def restate(desk: Desk) -> None:
    desk.at(3)
    for number, value in ((1, 11), (2, None), (3, 30)):
        desk.say(number, value)
    desk.publish()
    everything_rolls(desk)


def close(desk: Desk) -> None:
    desk.at(9)
    desk.close()
    everything_rolls(desk)


def restate_after_closing(desk: Desk) -> None:
    """Of what is closed an adjustment, where the contract says so; a day that nobody knew of among it."""
    desk.at(20)
    desk.close()
    everything_rolls(desk)
    for number, value in ((1, 17), (4, 7)):
        desk.say(number, value)
    desk.publish()
    everything_rolls(desk)


def hold(desk: Desk) -> None:
    desk.at(3)
    for number, value in ((1, 99), (2, 21)):
        desk.say(number, value)
    desk.publish()
    everything_rolls(desk)


def sign_off(desk: Desk) -> None:
    if desk.held():
        desk.sign_off(1, 2)
    publications.follow(desk.settings, desk.series.name, locations.gold(desk.settings, desk.series))
    everything_rolls(desk)


def drop(desk: Desk) -> None:
    if desk.held():
        desk.drop(1, 2)
    desk.at(4)
    desk.publish()


def everything_rolls(desk: Desk) -> None:
    for one in desk.series.rollups:
        desk.roll(one.kind)


def prepared(settings: Settings, said: Any, *before: Callable[[Desk], None]) -> Desk:
    desk = Desk(settings, said)
    desk.at(2)
    for number, value in ((1, 10), (2, 20)):
        desk.say(number, value)
    desk.publish()
    everything_rolls(desk)
    for action in before:
        action(desk)
    return desk


def outcome(desk: Desk) -> dict[str, Any]:
    """What is in the tables, without the ids and times of the runs."""
    told: dict[str, Any] = {}
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
        one = Series(desk.metric, kind)
        told[one.name] = lawful(desk.settings, one)
        told[f"{one.name}, more"] = sorted([tuple(row[name] for name in names) for row in rows(desk.settings, one)], key=str)
        published = [entry.published for entry in publications.of(desk.settings, one.name)]
        versions = [commit.gold_version for commit in publications.of(desk.settings, one.name)]
        assert len(versions) == len(set(versions)), "each commit is told of once"
        told[f"{one.name}, ledger"] = sorted(name for entry in published for name in entry.values())
        if kind is not Kind.DAY:
            told[f"{one.name}, waiting"] = find_pending(desk.settings, one).starts
    told["held"] = desk.held()
    told["dropped"] = [(one.period_start, one.content) for one in rejected_candidates.of(desk.settings, desk.series.name)]
    return told


def seen(desk: Desk) -> dict[tuple[str, Any], Any]:
    """What readers see of each period; a period that they see twice, or not at all any more, breaks the laws."""
    return {
        (kind.value, start): (label, value, state)
        for kind in KINDS
        for start, label, value, state, newest in lawful(desk.settings, Series(desk.metric, kind))
        if newest
    }


@pytest.mark.parametrize(
    ("said", "before", "action", "least"),
    [
        (PLAIN, [], restate, 8),
        (PLAIN, [], close, 8),
        (PLAIN, [], hold, 8),
        (PLAIN, [hold], sign_off, 6),
        (PLAIN, [hold], drop, 2),
        (ADJUST, [close], restate_after_closing, 9),
    ],
    ids=["restate", "close", "hold", "sign off", "drop", "adjust"],
)
def test_stopped_behind_any_commit(
    tmp_path_factory: pytest.TempPathFactory, said: Any, before: list[Any], action: Callable[[Desk], None], least: int
) -> None:
    folder = tmp_path_factory.mktemp("lake")
    desk = prepared(lake_settings(folder), said, *before)
    start, says, clock = folder / "start", dict(desk.says), desk.settings.now
    copytree(folder / "lake", start)
    old = seen(desk)
    action(desk)
    expected, new = outcome(desk), seen(desk)
    assert new.keys() >= old.keys()
    for one in (desk.series, *desk.series.rollups):
        assert expected[f"{one.name}, ledger"] == sorted({row["version_name"] for row in rows(desk.settings, one)})
    stops = 0
    while True:
        rmtree(folder / "lake")
        copytree(start, folder / "lake")
        desk.says, desk.settings.now = dict(says), clock
        with pytest.MonkeyPatch.context() as patched:
            kill_after(patched, stops + 1)
            try:
                action(desk)
            except Killed:
                stops += 1
            else:
                break
        between(seen(desk), old, new, expected)
        desk.says, desk.settings.now = dict(says), clock
        action(desk)
        assert outcome(desk) == expected, f"stopped behind commit {stops}"
    assert stops >= least, "it was stopped behind every commit"


def between(now: dict[Any, Any], old: dict[Any, Any], new: dict[Any, Any], expected: dict[str, Any]) -> None:
    """Each period as it was, as it will be, or as one of the versions in between; none is lost."""
    assert now.keys() >= old.keys()
    for (kind, start), version in now.items():
        of = "total" + Kind(kind).suffix
        coming = {line[1:4] for line in expected[of] if line[0] == start}
        assert version in {old.get((kind, start)), new[kind, start], *coming}


@pytest.mark.parametrize("action", [restate, close, hold], ids=["restate", "close", "hold"])
def test_stopped_again_and_again(tmp_path_factory: pytest.TempPathFactory, action: Callable[[Desk], None]) -> None:
    """Each attempt is stopped behind its first commit that has an effect: it comes to its end all the same."""
    undisturbed = prepared(lake_settings(tmp_path_factory.mktemp("lake")), metric(checks=PLAIN.checks))
    action(undisturbed)
    desk = prepared(lake_settings(tmp_path_factory.mktemp("lake")), metric(checks=PLAIN.checks))
    assert stopped_after_each_commit(lambda: action(desk)) >= 3
    assert lawful(desk.settings, desk.series) == lawful(undisturbed.settings, undisturbed.series)
    assert desk.held() == undisturbed.held()


def test_a_run_that_was_stopped_behind_its_commit_is_told_of_by_the_next_one(settings) -> None:
    desk = prepared(settings, metric())
    desk.say(1, 11)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(publications, "follow", lambda *_: (_ for _ in ()).throw(Killed()))
        with pytest.raises(Killed):
            desk.publish()
    assert desk.shown(1) == 11
    assert len(publications.of(settings, "total")) == 1
    assert desk.publish().revisions == [], "there is nothing to publish"
    assert [dict(entry.published) for entry in publications.of(settings, "total")][1:] == [{"2024-01-01": "total_v2024-01-01.r2"}]
    assert len(restatements.of(settings, "total")) == 1
    found = table_io.read(locations.publications(settings), ["series"])
    assert found is not None
    assert len(found) == 2
    assert desk.history(1)[-1][:2] == ("r2", 11)
    assert desk.starts() == {day(1), day(2)}
