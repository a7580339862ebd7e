"""The checks of a day of scores pass on a day like the set, and each fails on the fault that it is for, with a sentence."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakehouse.models import score, score_checks
from lakehouse.models import scores as model_scores
from lakehouse.models.scores import LoadedVersion, ScoringRun
from lakehouse.training_sets.releases import Release, ReleaseEvent, ReleaseKind
from lakehouse_tests.support.scored_rows import DAY, events, linear_model, model_contract, payments, set_contract

if TYPE_CHECKING:
    from lakehouse.lake import Lake

CONTRACT = model_contract(checks={"needs_rows": 50})
V24 = LoadedVersion(CONTRACT, "v2.4", linear_model(), ["amount", "country"][:1])
NOW = datetime(2024, 12, 15, tzinfo=timezone.utc)


def _set() -> Release:
    """A set with the manifest of 4,000 payments."""
    rows = payments(4_000, seed=11)
    amounts = np.quantile(rows["amount"].to_numpy(), np.linspace(0, 1, 41), method="inverted_cdf")
    counts = pc.value_counts(rows["country"])
    frequent = dict(zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist()))
    columns = {
        "amount": {"nulls": 0.0, "quantiles": amounts.tolist()},
        "country": {"nulls": 0.05, "distinct": 3, "frequent": frequent},
        "label": {"nulls": 0.0, "quantiles": [0.0] * 30 + [1.0] * 11},
    }
    about: dict[str, Any] = {"rows": 4_000, "columns": columns}
    return Release("payments_set", ReleaseKind.TRAINING_SET, "v5.0", ReleaseEvent.RELEASED, "", "ann", NOW, about=about)


def _scores(lake: Lake, rows: pa.Table) -> pa.Table:
    score.score_rows(lake, rows, [DAY], V24, None, ScoringRun("run", "ann", lake.now()))
    return model_scores.read(lake, "fraud", {"event_date": [DAY]})


def test_a_day_like_the_set_passes_every_check(lake) -> None:
    rows, of_set = events(500, seed=3), _set()
    scores = _scores(lake, rows)
    reference = V24.scores(payments(4_000, seed=11))
    results = [
        score_checks.row_count(CONTRACT, DAY, scores, rows),
        score_checks.null_shares(CONTRACT, DAY, rows, of_set),
        score_checks.feature_drift(CONTRACT, DAY, rows, of_set),
        score_checks.prediction_drift(CONTRACT, DAY, scores, "v2.4", reference),
        score_checks.label_maturity(set_contract(), DAY, scores, rows, NOW),
        score_checks.training_serving_skew(CONTRACT, DAY, scores, V24, rows),
    ]
    assert [(result.check, result.passed, result.explanation) for result in results] == [
        (name, True, None)
        for name in (
            *("row_count", "null_shares", "feature_drift", "prediction_drift"),
            *("label_maturity", "training_serving_skew"),
        )
    ]
    drifted = results[2].numbers
    assert drifted.keys() == {"rows", "bound", "amount", "country"}  # not the label, which is unknown when events are scored
    assert max(drifted["amount"], drifted["country"]) < 0.1


def test_events_without_a_score_and_scores_without_an_event_are_counted(lake) -> None:
    rows = events(100)
    scores = _scores(lake, rows.slice(0, 90))
    result = score_checks.row_count(CONTRACT, DAY, scores, rows.slice(5))
    assert (result.passed, result.warns) == (False, False)
    assert result.numbers == {"events": 95, "served": 90, "without_score": 10, "surplus": 5}
    assert "'lakehouse model score fraud --from 2024-10-01' scores the day again" in (result.explanation or "")
    twice = pa.concat_tables([scores, scores.slice(0, 1)])
    assert score_checks.row_count(CONTRACT, DAY, twice, rows.slice(0, 90)).numbers["surplus"] == 1


def test_a_feature_that_is_missing_more_often_is_named() -> None:
    rows = events(200)
    place = rows.schema.get_field_index("country")
    gone = rows.set_column(place, "country", pa.array([None] * 100 + rows["country"].to_pylist()[100:]))
    result = score_checks.null_shares(CONTRACT, DAY, gone, _set())
    assert (result.passed, result.warns) == (False, True)
    assert result.numbers["country"] == pytest.approx(0.45)
    assert result.explanation == (
        "country (0.450): NULL more often than in payments_set_v5.0, by more than 0.2; look at what arrived on the day"
    )


def test_a_feature_with_other_values_is_named() -> None:
    result = score_checks.feature_drift(CONTRACT, DAY, events(300, shift=200), _set())
    assert not result.passed
    assert result.numbers["amount"] > 0.6
    assert result.numbers["country"] < 0.1
    assert (result.explanation or "").startswith("amount (0.")


def test_scores_that_are_distributed_otherwise_are_noticed(lake) -> None:
    scores = _scores(lake, events(300, shift=150))
    reference = V24.scores(payments(1_000, seed=11))
    result = score_checks.prediction_drift(CONTRACT, DAY, scores, "v2.4", reference)
    assert not result.passed
    assert result.numbers["mean"] > result.numbers["mean_on_its_set"]
    assert score_checks.prediction_drift(CONTRACT, DAY, scores, "v2.3", reference).numbers == {"rows": 0, "judged": False}


def test_few_rows_are_not_judged(lake) -> None:
    rows, of_set = events(49, shift=500), _set()
    scores = _scores(lake, rows)
    for result in (
        score_checks.null_shares(CONTRACT, DAY, rows, of_set),
        score_checks.feature_drift(CONTRACT, DAY, rows, of_set),
        score_checks.prediction_drift(CONTRACT, DAY, scores, "v2.4", np.zeros(100)),
    ):
        assert (result.passed, result.numbers) == (True, {"rows": 49, "judged": False})


def test_a_label_that_is_missing_once_it_should_be_believed_is_noticed(lake) -> None:
    rows = events(100)
    scores = _scores(lake, rows)
    early = score_checks.label_maturity(set_contract(), DAY, scores, rows.slice(0, 0), datetime(2024, 11, 1, tzinfo=timezone.utc))
    assert (early.passed, early.numbers) == (True, {"rows": 100, "mature": 0, "labelled": 0, "missing": 0})
    late = score_checks.label_maturity(set_contract(), DAY, scores, rows.slice(10), NOW)
    assert (late.passed, late.warns, late.numbers["missing"]) == (False, True, 10)
    assert "10 of 100 events are older than 60 days and have no label; ask the owner of chargebacks" in (late.explanation or "")
    at_noon = datetime(2024, 10, 1, 12, tzinfo=timezone.utc) + timedelta(days=60)
    mature = pc.sum(pc.less_equal(rows["event_ts"], pa.scalar(at_noon - timedelta(days=60)))).as_py()
    assert score_checks.label_maturity(set_contract(), DAY, scores, rows, at_noon).numbers["mature"] == mature


def test_features_that_are_others_afterwards_are_skew(lake) -> None:
    rows = events(200)
    scores = _scores(lake, rows)
    place = rows.schema.get_field_index("amount")
    later = rows.set_column(place, "amount", pc.add(rows["amount"], pa.array([1.0] * 3 + [0.0] * 197))).slice(0, 190)
    shuffled = later.take(pa.array(np.random.default_rng(0).permutation(190)))
    result = score_checks.training_serving_skew(CONTRACT, DAY, scores, V24, shuffled)
    assert (result.passed, result.warns) == (False, False)
    assert result.numbers == {"rows": 190, "differing": 3, "share": round(3 / 190, 4), "bound": 0.01, "gone": 10}
    generous = model_contract(checks={"skew": "0.05"})
    assert score_checks.training_serving_skew(generous, DAY, scores, V24, shuffled).passed
    assert score_checks.training_serving_skew(CONTRACT, DAY, scores.slice(0, 0), V24, rows).passed
