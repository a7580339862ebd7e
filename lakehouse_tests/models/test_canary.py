"""A canary: one at a time, judged by the labels that are mature, on the entities that both versions have scored."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakehouse.models import canary, canary_log, score, score_checks
from lakehouse.models.canary import CanaryError
from lakehouse.models.canary_log import CanaryEntry, CanaryEvent, CanaryOutcome
from lakehouse.models.scores import LoadedVersion, ScoringRun
from lakehouse_tests.support.scored_rows import DAY, catalog, constant_model, linear_model, model_contract, payments

if TYPE_CHECKING:
    from lakehouse.lake import Lake

CONTRACT = model_contract(
    metrics=["roc_auc", "brier_score"],
    canary={"share": "50%", "needs_labels": 100, "success": [{"metric": "roc_auc", "better_by": 0.1}]},
)
V23 = LoadedVersion(CONTRACT, "v2.3", constant_model(0.25), ["amount"])
V24 = LoadedVersion(CONTRACT, "v2.4", linear_model(), ["amount"])
DAYS = [DAY + timedelta(days=at) for at in range(60)]


def _entry(lake: Lake, **changes: Any) -> CanaryEntry:
    entry = CanaryEntry(
        model="fraud",
        number=0,
        event=CanaryEvent.STARTED,
        challenger="v2.4",
        champion="v2.3",
        share="0.5",
        salt="fraud:",
        by="ann",
        reason="it looks better",
        recorded_at=lake.now(),
    )
    return replace(entry, **changes)


def _scored(lake: Lake, count: int = 600) -> tuple[CanaryEntry, pa.Table]:
    """A started canary with scores of both versions, and the labelled events."""
    entry = canary.begin(lake, _entry(lake))
    labelled = payments(count, seed=7)
    rows = labelled.append_column("event_date", labelled["event_ts"].cast(pa.date32()))
    run = ScoringRun("run", "ann", lake.now())
    score.score_rows(lake, rows, DAYS, V23, score.RunningCanary(entry, V24), run)
    return entry, labelled


def _judged(lake: Lake, entry: CanaryEntry, labelled: pa.Table | None, contract=CONTRACT) -> canary.CanaryStatus:
    return canary.judged(catalog(contract), contract, entry, canary.scores_of_both(lake, entry), labelled)


def test_a_canary_is_judged_on_its_entities_alone(lake) -> None:
    entry, labelled = _scored(lake)
    status = _judged(lake, entry, labelled)
    assert status.outcome is CanaryOutcome.MET
    assert 230 < status.scored == status.labels < 370
    assert status.result is not None
    area = status.result.comparison.total.measure("roc_auc")
    assert (area.champion.value, status.result.comparison.total.rows) == (0.5, status.labels)
    assert area.difference.low > 0.1


def test_labels_that_are_not_mature_do_not_count(lake) -> None:
    entry, labelled = _scored(lake)
    few = _judged(lake, entry, labelled.slice(0, 150))
    assert few.outcome is CanaryOutcome.TOO_FEW_LABELS
    assert 50 < few.labels < 100 == few.needs_labels
    assert few.result is not None  # the numbers so far are shown
    for nothing in (None, labelled.slice(0, 0)):
        assert _judged(lake, entry, nothing).outcome is CanaryOutcome.TOO_FEW_LABELS


def test_criteria_that_are_not_met_are_named(lake) -> None:
    entry, labelled = _scored(lake)
    strict = model_contract(canary={"share": "50%", "needs_labels": 1}, acceptance=[{"metric": "roc_auc", "better_by": 0.49}])
    status = _judged(lake, entry, labelled, strict)
    assert status.outcome is CanaryOutcome.NOT_MET
    assert status.result is not None
    assert "too little" in status.result.verdicts[0].text


def test_an_event_that_was_moved_since_is_not_judged(lake) -> None:
    entry, labelled = _scored(lake)
    place = labelled.schema.get_field_index("event_ts")
    moved = labelled.set_column(place, "event_ts", pc.add(labelled["event_ts"], pa.scalar(timedelta(hours=1))))
    assert _judged(lake, entry, moved).labels == 0


def test_scores_from_before_the_canary_or_after_it_are_left_out(lake) -> None:
    entry, _ = _scored(lake)
    later = replace(entry, recorded_at=entry.recorded_at + timedelta(seconds=1))
    assert len(canary.scores_of_both(lake, later)) == 0
    assert len(canary.scores_of_both(lake, entry, entry.recorded_at - timedelta(seconds=1))) == 0
    assert len(canary.scores_of_both(lake, entry, entry.recorded_at)) > 200


def test_a_promoted_challenger_keeps_what_its_canary_has_scored(lake) -> None:
    entry, _ = _scored(lake)
    before = len(canary.scores_of_both(lake, entry))
    labelled = payments(600, seed=7)
    of_day = labelled.append_column("event_date", labelled["event_ts"].cast(pa.date32()))
    of_day = of_day.filter(pc.equal(of_day["event_date"], pa.scalar(DAYS[-1])))
    score.score_rows(lake, of_day, DAYS[-1:], V24, None, ScoringRun("later", "ann", lake.now()))
    left = canary.scores_of_both(lake, entry)
    assert len(left) < before  # the day that was scored again is one of a champion now
    assert DAYS[-1] not in left["event_date"].to_pylist()


def test_there_is_one_canary_at_a_time(lake) -> None:
    canary.begin(lake, _entry(lake))
    with pytest.raises(
        CanaryError, match=r"the canary of fraud v2\.4 against v2\.3 on 50\.0000% of the entities, started by ann"
    ):
        canary.begin(lake, _entry(lake, challenger="v2.5"))
    canary.stop(lake, "fraud", by="bob", reason="enough")
    second = canary.begin(lake, _entry(lake, challenger="v2.5"))
    assert (second.number, canary_log.running(lake, "fraud")) == (2, second)


@pytest.mark.parametrize("in_use", ["v2.4", "v2.9"])
def test_a_canary_that_compares_with_another_version_than_the_one_in_use_scores_nothing(lake, in_use) -> None:
    canary.begin(lake, _entry(lake))
    assert score.running_canary(lake, catalog(CONTRACT), CONTRACT, in_use) is None


def test_of_two_starts_at_once_one_wins(lake) -> None:
    together = threading.Barrier(2)

    def start(challenger: str) -> str:
        together.wait()
        try:
            return canary.begin(lake, _entry(lake, challenger=challenger)).challenger
        except CanaryError as refused:
            return f"refused: {refused}"

    with ThreadPoolExecutor(2) as threads:
        outcomes = list(threads.map(start, ["v2.4", "v2.5"]))
    (winner,) = [outcome for outcome in outcomes if outcome.startswith("v")]
    (refused,) = [outcome for outcome in outcomes if outcome.startswith("refused")]
    assert f"canary of fraud {winner} " in refused
    assert len(canary_log.of(lake, "fraud")) == 1


def test_a_stop_keeps_the_last_judgement(lake) -> None:
    with pytest.raises(
        CanaryError, match="no canary of fraud is running; 'lakehouse model canary start fraud VERSION' starts one"
    ):
        canary.stop(lake, "fraud", by="bob", reason="enough")
    entry, labelled = _scored(lake)
    canary.record(lake, _judged(lake, entry, labelled), by="cy")
    stopped = canary.stop(lake, "fraud", by="bob", reason="enough")
    assert (stopped.outcome, stopped.by, stopped.reason) == (CanaryOutcome.MET, "bob", "enough")
    assert canary_log.running(lake, "fraud") is None
    with pytest.raises(CanaryError, match="no canary of fraud is running"):
        canary.stop(lake, "fraud", by="bob", reason="again")
    events = [(event["event"], event["outcome"], event["by"]) for event in canary_log.events_of(lake, "fraud", "v2.4")]
    assert events == [("started", None, "ann"), ("judged", "met", "cy"), ("stopped", "met", "bob")]
    assert canary_log.events_of(lake, "fraud", "v9.9") == []


def test_a_judgement_is_recorded_when_it_says_something_new(lake) -> None:
    entry, labelled = _scored(lake)
    for some in (labelled.slice(0, 300), labelled.slice(0, 300), labelled):
        canary.record(lake, _judged(lake, entry, some), by="cy")
    entries = canary_log.log(lake).read()
    assert sorted(event.labels for event in entries if event.event is CanaryEvent.JUDGED) == [
        _judged(lake, entry, some).labels for some in (labelled.slice(0, 300), labelled)
    ]
    canary.stop(lake, "fraud", by="bob", reason="enough")
    canary.record(lake, _judged(lake, entry, labelled.slice(0, 10)), by="cy")
    assert len(canary_log.log(lake).read()) == len(entries) + 1


def test_a_model_that_never_had_a_canary_has_no_status(lake) -> None:
    with pytest.raises(CanaryError, match="fraud has had no canary"):
        canary.judge(pytest.fail, lake, catalog(CONTRACT), CONTRACT, by="cy")  # type: ignore[arg-type]


def test_before_anything_is_scored_no_spark_is_needed(lake) -> None:
    canary.begin(lake, _entry(lake))
    status = canary.judge(pytest.fail, lake, catalog(CONTRACT), CONTRACT, by="cy")  # type: ignore[arg-type]
    assert (status.scored, status.labels, status.outcome) == (0, 0, CanaryOutcome.TOO_FEW_LABELS)


@pytest.mark.parametrize(
    ("contract", "share", "message"),
    [
        (model_contract(), None, "fraud: a canary needs a share of the entities; give --share 10%"),
        (CONTRACT, Decimal("1.5"), r"a share of the entities \(1.5 is none\)"),
        (model_contract(), Decimal("0.1"), "fraud has no rules to judge a canary by; add 'canary.success' or 'acceptance'"),
    ],
)
def test_what_cannot_be_judged_is_not_started(lake, contract, share, message) -> None:
    with pytest.raises(CanaryError, match=message):
        canary.start(lake, contract, "v2.4", by="ann", reason="why", share=share)
    assert canary_log.of(lake, "fraud") == []


def test_both_scores_of_a_day_are_compared_without_labels(lake) -> None:
    entry, _ = _scored(lake)
    scores = canary.scores_of_both(lake, entry)
    day = scores["event_date"][0].as_py()
    of_day = scores.filter(pc.equal(scores["event_date"], pa.scalar(day)))
    compared = score_checks.compare_day(day, scores)
    assert compared is not None
    assert (compared.entities, compared.champion_mean, compared.correlation) == (len(of_day), 0.25, None)
    apart = np.abs(of_day["challenger"].to_numpy() - 0.25)
    assert compared.mean_difference == pytest.approx(apart.mean())
    assert compared.decisions == (of_day["challenger"].to_numpy() >= 0.5).sum()
    assert abs(compared.furthest[0].challenger - 0.25) == apart.max()
    assert score_checks.compare_day(date(2020, 1, 1), scores) is None
