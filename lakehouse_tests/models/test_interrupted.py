"""Promotions that are stopped between MLflow and the log, that fail, or that meet another one."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from lakehouse.delta import leases
from lakehouse.models import canary, canary_log, promotion, promotion_log, tracking
from lakehouse.models.promotion import ModelPromotionError
from lakehouse.models.promotion_log import ModelPromotion, PromotionKind, PromotionStep
from lakehouse.training_sets import releases
from lakehouse.training_sets.releases import ReleaseKind
from lakehouse_tests.support.dead_process import dead_process
from lakehouse_tests.support.stopped_mlflow import stopped_behind_each
from lakehouse_tests.support.trained_lake import CATALOG, MODEL

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakehouse.lake import Lake


def promote(lake: Lake, version: str) -> ModelPromotion:
    return promotion.promote(lake, CATALOG, MODEL, version, by="ana", notes="it is better", sign_off="no months yet")


def rollback(lake: Lake) -> ModelPromotion:
    return promotion.rollback(lake, MODEL, by="bo", notes="too many alarms")


def in_use(lake: Lake) -> tuple[str | None, str | None]:
    """The version in use by MLflow, and by the log."""
    return tracking.champion(lake, MODEL), promotion_log.in_use(lake, "fraud")


def moves(lake: Lake) -> list[tuple[str | None, str]]:
    return [(entry.from_version, entry.to_version) for entry in promotion_log.completed(lake, "fraud")]


def begun(lake: Lake, process: str, seconds: float = 60) -> ModelPromotion:
    """The first entry of a promotion of v2.4 that a process has begun."""
    expires = datetime.now(timezone.utc) + timedelta(seconds=seconds)
    terms = ("fraud", promotion_log.next_number(lake, "fraud"), PromotionStep.BEGUN, PromotionKind.PROMOTE)
    entry = ModelPromotion(*terms, "v2.3", "v2.4", "cy", "at night", lake.now(), process, expires)
    assert promotion_log.begin(lake, entry)
    return entry


@pytest.mark.proof
@pytest.mark.parametrize("step", ["promote", "rollback"])
def test_one_that_is_stopped_anywhere_is_completed_by_the_same_command(new_lake: Callable[[], Lake], step: str) -> None:
    lakes: list[Lake] = []

    def prepare() -> None:
        lakes.append(new_lake())
        promote(lakes[-1], "v2.3")
        if step == "rollback":
            promote(lakes[-1], "v2.4")

    def run() -> None:
        promote(lakes[-1], "v2.4") if step == "promote" else rollback(lakes[-1])

    def check() -> None:
        back = [("v2.4", "v2.3")] if step == "rollback" else []
        assert moves(lakes[-1]) == [(None, "v2.3"), ("v2.3", "v2.4"), *back]
        assert in_use(lakes[-1]) == (("v2.3", "v2.3") if step == "rollback" else ("v2.4", "v2.4"))
        assert promotion_log.unended(lakes[-1], "fraud") is None

    assert stopped_behind_each(run, check, prepare) == 5  # behind two entries, their copies in the journal, and not at all


@pytest.mark.merge
@pytest.mark.parametrize("is_moved", [True, False], ids=["behind the alias", "before it"])
def test_a_canary_ends_with_a_promotion_that_another_command_settles(new_lake: Callable[[], Lake], is_moved: bool) -> None:
    sample = new_lake()
    promote(sample, "v2.3")
    started = canary.start(sample, MODEL, "v2.4", by="cy", reason="a look", share=Decimal("0.2"))
    begun(sample, dead_process())
    if is_moved:
        tracking.set_champion(sample, releases.find(sample, ReleaseKind.MODEL, "fraud", "v2.4"))
    assert promotion.settle(sample, MODEL) is None
    ended = canary_log.of(sample, "fraud")[-1].stopped
    assert (canary_log.running(sample, "fraud"), ended and (ended.by, ended.reason)) == (
        (None, ("cy", "promote fraud v2.3 -> v2.4")) if is_moved else (started, None)
    )


def test_the_next_command_ends_what_was_interrupted_by_where_the_alias_points_to(new_lake: Callable[[], Lake]) -> None:
    before_alias = new_lake()
    promote(before_alias, "v2.3")
    begun(before_alias, dead_process())
    assert promotion.settle(before_alias, MODEL) is None
    assert (moves(before_alias), in_use(before_alias)) == ([(None, "v2.3")], ("v2.3", "v2.3"))

    behind_alias = new_lake()
    promote(behind_alias, "v2.3")
    entry = begun(behind_alias, dead_process())
    tracking.set_champion(behind_alias, promotion._usable(behind_alias, MODEL, "v2.4"))
    done = rollback(behind_alias)  # ends the promotion, and then goes back from it
    assert moves(behind_alias) == [(None, "v2.3"), ("v2.3", "v2.4"), ("v2.4", "v2.3")]
    assert promotion_log.completed(behind_alias, "fraud")[1].by == entry.by == "cy"
    assert (done.to_version, in_use(behind_alias)) == ("v2.3", ("v2.3", "v2.3"))


def test_another_command_waits_for_one_that_runs_until_it_expires(trained_lake: Lake) -> None:
    lake = trained_lake
    promote(lake, "v2.3")
    running = begun(lake, leases.this_process())
    assert promotion.settle(lake, MODEL) == running
    message = r"another promotion has begun at the same time: promote fraud v2.3 -> v2.4 by cy .*Nothing was changed"
    for command in (lambda: promote(lake, "v2.4"), lambda: rollback(lake)):
        with pytest.raises(ModelPromotionError, match=message):
            command()
    promotion_log.end(lake, running, done=False)
    begun(lake, "another-host 1 0.0")
    assert promotion.settle(lake, MODEL) is not None
    promotion_log.end(lake, promotion_log.unended(lake, "fraud"), done=False)
    begun(lake, leases.this_process(), seconds=-1)
    assert promotion.settle(lake, MODEL) is None
    assert moves(lake) == [(None, "v2.3")]


def test_of_two_at_once_one_wins_and_the_other_is_refused(trained_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = trained_lake
    both_have_looked, objections = threading.Barrier(2), promotion.objections

    def look(*arguments: Any) -> list[str]:
        both_have_looked.wait(60)
        return objections(*arguments)

    monkeypatch.setattr(promotion, "objections", look)

    def outcome(version: str) -> str | ModelPromotionError:
        try:
            return promote(lake, version).to_version
        except ModelPromotionError as refused:
            return refused

    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(outcome, ["v2.3", "v2.4"]))
    (winner,) = [result for result in outcomes if isinstance(result, str)]
    (refused,) = [result for result in outcomes if isinstance(result, ModelPromotionError)]
    assert in_use(lake) == (winner, winner)
    assert moves(lake) == [(None, winner)]
    assert f"fraud none -> {winner} by ana" in str(refused)


def test_one_that_rests_on_what_another_one_has_changed_meanwhile_is_refused(
    trained_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample, objections = trained_lake, promotion.objections

    def look(*arguments: Any) -> list[str]:
        """While this one looks at its backtest, another one takes place."""
        monkeypatch.setattr(promotion, "objections", objections)
        promote(sample, "v2.3")
        return objections(*arguments)

    monkeypatch.setattr(promotion, "objections", look)
    with pytest.raises(
        ModelPromotionError, match=r"another promotion took place at the same time: promote fraud none -> v2.3 by ana"
    ):
        promote(sample, "v2.4")
    assert (moves(sample), in_use(sample)) == ([(None, "v2.3")], ("v2.3", "v2.3"))


@pytest.mark.parametrize("is_moved", [False, True])
def test_one_that_mlflow_fails_is_undone_unless_the_alias_was_moved(
    trained_lake: Lake, monkeypatch: pytest.MonkeyPatch, is_moved: bool
) -> None:
    lake = trained_lake
    promote(lake, "v2.3")
    move = MlflowClient.set_registered_model_alias

    def fails(*arguments: Any) -> None:
        if is_moved:
            move(*arguments)
        raise MlflowException("the database is read-only")

    monkeypatch.setattr(MlflowClient, "set_registered_model_alias", fails)
    if is_moved:
        assert promote(lake, "v2.4").step is PromotionStep.DONE
    else:
        with pytest.raises(
            tracking.TrackingError, match=r"fraud v2.4 could not be made the champion: .*the database is read-only"
        ):
            promote(lake, "v2.4")
    version = "v2.4" if is_moved else "v2.3"
    assert in_use(lake) == (version, version)
    assert promotion_log.unended(lake, "fraud") is None
