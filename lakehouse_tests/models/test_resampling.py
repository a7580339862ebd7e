"""The measures of resamples are those of scikit-learn for weighted rows, and resamples are drawn with replacement."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.contracts.model import OF_PROBABILITIES, OF_VALUES
from lakehouse.models import comparison
from lakehouse.models.comparison import quality
from lakehouse_tests.support.scored_rows import model_contract

#: Scores with many ties, and both sides of the threshold.
_rows = st.lists(st.tuples(st.booleans(), st.sampled_from([0.0, 0.1, 0.4, 0.5, 0.5001, 0.9, 1.0]), st.integers(0, 3)), min_size=1)


@given(_rows, st.sampled_from(["probability", "value"]))
def test_a_weighted_measure_is_that_of_the_rows_repeated_as_often(rows, predicts) -> None:
    labels, scores, counts = (np.array(column, dtype=float) for column in zip(*rows))
    if not counts.sum():
        return
    drawn = comparison.Resamples(comparison.Scored(labels, scores), np.stack([counts, np.ones_like(counts)]))
    expected = [
        quality(model_contract(predicts=predicts), labels.repeat(times), scores.repeat(times))
        for times in (counts.astype(int), np.ones(len(counts), dtype=int))
    ]
    for name in OF_PROBABILITIES if predicts == "probability" else OF_VALUES:
        measured = comparison.MEASURES[name](drawn)
        assert measured == pytest.approx([by_measure[name] for by_measure in expected], nan_ok=True, abs=1e-9), name


def test_every_measure_of_a_contract_can_be_resampled() -> None:
    assert comparison.MEASURES.keys() == {*OF_PROBABILITIES, *OF_VALUES}


def test_resamples_vary_as_the_mean_of_as_many_rows_does() -> None:
    labels = np.arange(400) % 2.0
    (values,) = comparison.resampled(labels, [np.zeros(400)], ["mean_absolute_error"], 2_000, seed=1)
    drawn = values["mean_absolute_error"]
    assert drawn.mean() == pytest.approx(0.5, abs=0.005)
    assert drawn.std() == pytest.approx(0.5 / np.sqrt(400), rel=0.1)


def test_pieces_of_resamples_are_the_same_as_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    labels, scores = (random.random(50) < 0.3).astype(float), random.random(50)
    whole = comparison.resampled(labels, [scores], ["roc_auc", "brier_score"], 40, seed=3)
    monkeypatch.setattr(comparison, "_WEIGHTS_AT_A_TIME", 150)
    pieces = comparison.resampled(labels, [scores], ["roc_auc", "brier_score"], 40, seed=3)
    assert all(np.allclose(whole[0][name], pieces[0][name], equal_nan=True, rtol=1e-12) for name in whole[0])
