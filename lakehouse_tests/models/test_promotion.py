"""Promotion and rollback: what a promotion needs, what is recorded, and which version is in use afterwards."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest

from lakehouse.contracts import Catalog
from lakehouse.models import backtest_log, canary, canary_log, promotion, promotion_log, tracking
from lakehouse.models.backtest_log import Backtest
from lakehouse.models.canary_log import CanaryEntry, CanaryEvent, CanaryOutcome
from lakehouse.models.promotion import ModelPromotionError
from lakehouse.training_sets import releases
from lakehouse.training_sets.releases import ReleaseError, ReleaseKind
from lakehouse_tests.support.trained_lake import CATALOG, MODEL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehouse.lake import Lake
    from lakehouse.models.promotion_log import ModelPromotion


def promote(lake: Lake, version: str, **options: str) -> ModelPromotion:
    return promotion.promote(lake, CATALOG, MODEL, version, **{"by": "ana", "notes": "it is better", **options})


def rollback(lake: Lake, to: str | None = None) -> ModelPromotion:
    return promotion.rollback(lake, MODEL, by="bo", notes="too many alarms", to=to)


def record_backtest(lake: Lake, *failed: str, month: int = 10, rules: Sequence[str] = MODEL.rules) -> None:
    moment = datetime(2024, month, 1, tzinfo=timezone.utc)
    months = ("2024-10", "2024-11")
    results = {"rules": list(rules)}
    entry = Backtest("fraud", "v2.4", "v2.3", *months, moment, not failed, list(failed), results, "report.md", "cy", moment)
    backtest_log.log(lake).append([entry])


def in_use(lake: Lake) -> tuple[str | None, str | None]:
    """The version in use by MLflow, and by the log."""
    return tracking.champion(lake, MODEL), promotion_log.in_use(lake, "fraud")


def test_the_first_version_needs_no_backtest_and_the_next_one_does(trained_lake: Lake) -> None:
    lake = trained_lake
    first = promote(lake, "v2.3")
    assert (first.from_version, first.to_version, first.accepted, first.sign_off) == (None, "v2.3", [], None)
    assert promote(lake, "v2.3") == first
    with pytest.raises(ModelPromotionError) as refused:
        promote(lake, "v2.4")
    assert str(refused.value) == (
        "fraud v2.4 is not promoted, v2.3 stays in use:\n"
        "    no backtest compares v2.4 with v2.3, the version in use, by the rules (roc_auc not worse than 0.01): run "
        "'lakehouse model backtest fraud v2.4 --against v2.3'\n"
        "    or sign it off with a reason: --sign-off 'REASON'"
    )
    record_backtest(lake, "roc_auc is worse by 0.02")
    assert promotion.objections(lake, MODEL, "v2.4", "v2.3")
    with pytest.raises(
        ModelPromotionError, match=r"v2.4 against v2.3 on 2024-10 to 2024-11 did not meet: roc_auc is worse by 0.02"
    ):
        promote(lake, "v2.4")
    assert in_use(lake) == ("v2.3", "v2.3")
    record_backtest(lake, month=11)
    assert not promotion.objections(lake, MODEL, "v2.4", "v2.3")
    done = promote(lake, "v2.4", sign_off="not needed")
    assert (done.accepted, done.sign_off, done.backtest) == ([], None, "v2.4 against v2.3 on 2024-10 to 2024-11")
    assert in_use(lake) == ("v2.4", "v2.4")
    record_backtest(lake, "roc_auc is worse by 0.02", month=12)
    rollback(lake)
    with pytest.raises(ModelPromotionError, match="did not meet"):  # the newest backtest counts
        promote(lake, "v2.4")


def test_a_backtest_counts_only_by_the_rules_that_the_contract_has_now(trained_lake: Lake) -> None:
    lake = trained_lake
    promote(lake, "v2.3")
    record_backtest(lake, rules=["log_loss better by 0.1"])
    assert promotion.objections(lake, MODEL, "v2.4", "v2.3")
    with pytest.raises(ModelPromotionError) as refused:
        promote(lake, "v2.4")
    assert (
        "the backtest of v2.4 against v2.3 on 2024-10 to 2024-11 was judged by other rules (log_loss better by 0.1) than the "
        "contract has now (roc_auc not worse than 0.01): run 'lakehouse model backtest fraud v2.4 --against v2.3'"
    ) in str(refused.value)
    record_backtest(lake, month=11)
    assert promote(lake, "v2.4").accepted == []


def test_a_canary_ends_when_another_version_comes_into_use(trained_lake: Lake) -> None:
    lake = trained_lake
    promote(lake, "v2.3")
    moves = [("v2.4", "promote fraud v2.3 -> v2.4"), ("v2.3", "rollback fraud v2.4 -> v2.3")]
    for number, (challenger, move) in enumerate(moves, start=1):
        canary.start(lake, MODEL, challenger, by="ana", reason="a look", share=Decimal("0.2"))
        if number == 1:
            promote(lake, "v2.4", sign_off="it is urgent")
        else:
            rollback(lake)
        ended = canary_log.of(lake, "fraud")[-1].stopped
        assert ended is not None
        assert (ended.number, ended.reason) == (number, move)
    assert canary_log.running(lake, "fraud") is None


@pytest.mark.parametrize(
    ("outcome", "stopped", "lacking"),
    [
        (CanaryOutcome.MET, True, []),
        (CanaryOutcome.NOT_MET, True, ["the {} did not meet the rules of its contract"]),
        (
            CanaryOutcome.TOO_FEW_LABELS,
            True,
            ["the {} has too few labels (3): 'lakehouse model canary compare fraud' judges it while it runs"],
        ),
        (None, True, ["the {} was not judged: 'lakehouse model canary compare fraud' judges it while it runs"]),
        (CanaryOutcome.MET, False, ["the {} is running: 'lakehouse model canary stop fraud' ends it"]),
    ],
)
def test_a_canary_that_failed_runs_or_has_too_few_labels_needs_a_sign_off(
    lake: Lake, outcome: CanaryOutcome | None, stopped: bool, lacking: list[str]
) -> None:
    """It stands in the notes and in the log of the promotion, as every rule that was not met."""
    moment = datetime(2024, 11, 1, tzinfo=timezone.utc)
    record_backtest(lake)
    started = CanaryEntry("fraud", 1, CanaryEvent.STARTED, "v2.4", "v2.3", "0.1", "salt", "ana", "a look", moment)
    canary_log.start(lake, started)
    if outcome is not None:
        canary_log.judge(lake, replace(started, event=CanaryEvent.JUDGED, outcome=outcome, labels=3))
    if stopped:
        canary_log.stop_running(lake, "fraud", by="ana", reason="enough")
    title = "canary of fraud v2.4 against v2.3 on 10.0000% of the entities"
    assert promotion.objections(lake, MODEL, "v2.4", "v2.3") == [text.format(title) for text in lacking]
    assert promotion.objections(lake, MODEL, "v2.3", "v2.4")[0].startswith("no backtest"), "it was not the challenger"
    of_another = [text for text in promotion.objections(lake, MODEL, "v2.4", "v2.5") if not text.startswith("no backtest")]
    assert of_another == [text.format(title) for text in lacking], "another version is in use since"


def test_a_canary_that_failed_stands_in_the_notes_and_in_the_log(trained_lake: Lake) -> None:
    lake = trained_lake
    promote(lake, "v2.3")
    record_backtest(lake)
    canary.start(lake, MODEL, "v2.4", by="ana", reason="a look", share=Decimal("0.2"))
    with pytest.raises(ModelPromotionError, match="is running: 'lakehouse model canary stop fraud' ends it"):
        promote(lake, "v2.4")
    done = promote(lake, "v2.4", sign_off="it is urgent")
    assert [text.rpartition(" entities ")[2].partition(":")[0] for text in done.accepted] == ["is running", "was not judged"]
    assert all(text in done.release_notes for text in done.accepted)


def test_a_person_may_sign_off_what_is_not_met_and_the_notes_tell_it(trained_lake: Lake) -> None:
    lake = trained_lake
    promote(lake, "v2.3")
    record_backtest(lake, "roc_auc is worse by 0.02")
    done = promote(lake, "v2.4", sign_off="fewer false alarms count more")
    assert done.sign_off == "fewer false alarms count more"
    assert done.accepted == ["the backtest of v2.4 against v2.3 on 2024-10 to 2024-11 did not meet: roc_auc is worse by 0.02"]
    for part in (
        "# fraud v2.4 replaces v2.3\n\nBy ana on 2024-06-01 12:00 UTC: it is better\n",
        "Released by ana: learns from corrected labels\n",
        "Learned from training_data_v5.1, with the labels chargebacks v3.0 by `fraud_training:train`",
        "- The parameter strength was 1.0 and is 0.5.\n",
        "| measure | v2.4 on training_data_v5.1/test | v2.3 on training_data_v5.0/test |\n",
        "Signed off by ana: fewer false alarms count more\n",
    ):
        assert part in done.release_notes
    records = promotion_log.records(lake)
    assert [(record["of"], record["kind"], record["from"], record["to"], record["sign_off"]) for record in records] == [
        ("model", "promote", None, "v2.3", None),
        ("model", "promote", "v2.3", "v2.4", "fewer false alarms count more"),
    ]


def test_a_model_without_acceptance_rules_needs_no_backtest(trained_lake: Lake) -> None:
    free = MODEL.model_copy(update={"acceptance": []})
    for version in ("v2.3", "v2.4"):
        promotion.promote(trained_lake, Catalog(models={"fraud": free}), free, version, by="ana", notes="")
    assert in_use(trained_lake) == ("v2.4", "v2.4")


def test_a_rollback_goes_one_promotion_back_and_not_further_when_repeated(trained_lake: Lake) -> None:
    lake = trained_lake
    with pytest.raises(ModelPromotionError, match=r"fraud has no version in use, so there is none to go back to"):
        rollback(lake)
    promote(lake, "v2.3")
    with pytest.raises(ModelPromotionError, match=r"fraud v2.3 is the first version in use"):
        rollback(lake)
    promote(lake, "v2.4", sign_off="try")
    done = rollback(lake)
    assert (done.kind.value, done.from_version, done.to_version, done.by) == ("rollback", "v2.4", "v2.3", "bo")
    assert in_use(lake) == ("v2.3", "v2.3")
    assert rollback(lake) == done
    assert rollback(lake, "v2.4").to_version == "v2.4"
    assert in_use(lake) == ("v2.4", "v2.4")
    with pytest.raises(ReleaseError, match=r"fraud v9.0 does not exist"):
        promote(lake, "v9.0")
    with pytest.raises(ModelPromotionError, match=r"fraud v9.0 was never in use \(v2.3, v2.4 were\); promote it instead"):
        rollback(lake, "v9.0")


def test_a_deprecated_version_is_neither_promoted_nor_gone_back_to(trained_lake: Lake) -> None:
    lake = trained_lake
    promote(lake, "v2.3")
    promote(lake, "v2.4", sign_off="try")
    releases.deprecate(lake, ReleaseKind.MODEL, "fraud", "v2.3", by="cy", notes="learned from wrong labels")
    with pytest.raises(ModelPromotionError, match=r"fraud v2.3 is deprecated since 2024-06-01: learned from wrong labels"):
        promote(lake, "v2.3", sign_off="please")
    with pytest.raises(ModelPromotionError, match=r"fraud v2.3 is deprecated"):
        rollback(lake)
    assert in_use(lake) == ("v2.4", "v2.4")


def test_an_alias_that_was_moved_in_mlflow_is_noticed_and_taken_over(trained_lake: Lake) -> None:
    lake = trained_lake
    promote(lake, "v2.3")
    tracking.set_champion(lake, releases.find(lake, ReleaseKind.MODEL, "fraud", "v2.4"))
    with pytest.raises(ModelPromotionError, match=r"no backtest compares v2.4 with v2.3"):
        promote(lake, "v2.4")
    done = promote(lake, "v2.4", sign_off="moved by hand")
    assert (done.from_version, done.to_version) == ("v2.3", "v2.4")
    assert in_use(lake) == ("v2.4", "v2.4")
