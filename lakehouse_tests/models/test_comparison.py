"""Two versions on the same rows: by month and in total, with intervals that depend on the rows only."""

from __future__ import annotations

from datetime import datetime, timezone

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from lakehouse.models.comparison import IntervalEstimate, ScoredPair, compare, numbers, scored_pair, scores_of
from lakehouse_tests.support.scored_rows import model_contract, payments

CONTRACT = model_contract()
#: For laws: scikit-learn takes some milliseconds a measure.
FEW = model_contract(metrics=["roc_auc", "brier_score"])
_scores = st.floats(0, 1, allow_nan=False).map(lambda score: round(score, 2))
_rows = st.lists(st.tuples(st.sampled_from(["2024-10", "2024-11"]), st.booleans(), _scores, _scores), min_size=1, max_size=40)


def _pair(rows) -> ScoredPair:
    months, labels, champion, challenger = zip(*rows)
    return ScoredPair(pa.array(months), *(np.array(column, dtype=float) for column in (labels, champion, challenger)))


def _flat(comparison) -> list[object]:
    """Every number of a comparison; NaN as text, so that two of them are equal."""
    parts = [*comparison.months, comparison.total]
    estimates = [(part.name, part.rows, part.positives, f"{measure}") for part in parts for measure in part.measures]
    return [len(parts), *estimates]


@settings(max_examples=25)
@given(_rows, st.randoms(use_true_random=False))
def test_the_order_of_the_rows_does_not_matter(rows, random) -> None:
    shuffled = [*rows]
    random.shuffle(shuffled)
    assert _flat(compare(FEW, _pair(rows), resamples=30)) == _flat(compare(FEW, _pair(shuffled), resamples=30))


@settings(max_examples=25)
@given(_rows)
def test_a_version_differs_from_itself_by_nothing(rows) -> None:
    same = [(month, label, score, score) for month, label, score, _ in rows]
    comparison = compare(FEW, _pair(same), resamples=30)
    for part in (*comparison.months, comparison.total):
        for measure in part.measures:
            nothing = [measure.difference.value, measure.difference.low, measure.difference.high]
            assert [number for number in nothing if not np.isnan(number)] == [0.0] * sum(not np.isnan(n) for n in nothing)
            assert f"{measure.champion}" == f"{measure.challenger}"
            assert np.isnan(measure.difference.value) == np.isnan(measure.champion.value)


@settings(max_examples=25)
@given(_rows)
def test_exchanged_versions_have_the_opposite_difference(rows) -> None:
    exchanged = [(month, label, other, score) for month, label, score, other in rows]
    ours, theirs = (compare(FEW, _pair(some), resamples=1) for some in (rows, exchanged))
    for measure, other in zip(ours.total.measures, theirs.total.measures):
        assert measure.difference.value == pytest.approx(-other.difference.value, nan_ok=True)
        assert measure.gain == pytest.approx(-other.gain, nan_ok=True)


def _better_and_worse() -> tuple[pa.Table, np.ndarray, np.ndarray]:
    """Rows of October and November with the scores of a model that knows the amounts, and of one that guesses."""
    learned, rows = payments(800, seed=1), payments(1_200, seed=2)
    features = learned.select(["amount"]).to_pandas()
    model = LogisticRegression().fit(features, learned["label"].to_numpy())
    guesses = np.random.default_rng(0).random(len(rows))
    return rows, scores_of(CONTRACT, model, rows.select(["amount"]).to_pandas()), guesses


def test_a_better_version_is_better_in_every_month_and_its_interval_says_so() -> None:
    rows, scores, guesses = _better_and_worse()
    comparison = compare(CONTRACT, scored_pair(rows, guesses, scores, "UTC"))
    assert [part.name for part in comparison.months] == ["2024-10", "2024-11"]
    assert sum(part.rows for part in comparison.months) == comparison.total.rows == 1_200
    assert sum(part.positives or 0 for part in comparison.months) == comparison.total.positives == rows["label"].to_numpy().sum()
    for part in (*comparison.months, comparison.total):
        area, loss = part.measure("roc_auc"), part.measure("log_loss")
        assert area.difference.low > 0.2
        assert loss.difference.high < 0 < loss.gain  # of a loss, less is better
        assert area.challenger.low < area.challenger.value < area.challenger.high
    whole = comparison.total.measure("roc_auc")
    assert whole.challenger.value == roc_auc_score(rows["label"].to_numpy(), scores)
    widths = [part.measure("roc_auc").challenger for part in comparison.months]
    assert all(width.high - width.low > whole.challenger.high - whole.challenger.low for width in widths)


def test_the_difference_of_two_close_versions_is_more_certain_than_either() -> None:
    rows, scores, _ = _better_and_worse()
    close = scores + np.random.default_rng(1).normal(0, 0.01, len(scores)).clip(-0.02, 0.02)
    area = compare(CONTRACT, scored_pair(rows, scores, close.clip(0, 1), "UTC")).total.measure("roc_auc")
    assert area.difference.high - area.difference.low < 0.5 * (area.champion.high - area.champion.low)


def test_the_same_seed_gives_the_same_intervals_and_another_one_others() -> None:
    rows, scores, guesses = _better_and_worse()
    pair = scored_pair(rows, guesses, scores, "UTC")
    first, again, other = (compare(CONTRACT, pair, resamples=50, seed=seed) for seed in (1, 1, 2))
    assert first == again != other
    assert first.total.measure("roc_auc").challenger.value == other.total.measure("roc_auc").challenger.value


def test_a_month_without_rows_is_shown_without_numbers() -> None:
    rows, scores, guesses = _better_and_worse()
    comparison = compare(CONTRACT, scored_pair(rows, guesses, scores, "UTC"), ["2024-12"], resamples=2)
    empty = comparison.months[-1]
    assert (empty.name, empty.rows, empty.positives) == ("2024-12", 0, 0)
    assert f"{empty.measure('roc_auc').difference}" == f"{IntervalEstimate(float('nan'), float('nan'), float('nan'))}"


def test_a_month_with_one_class_has_those_measures_that_need_no_other() -> None:
    (part,) = compare(CONTRACT, _pair([("2024-10", False, 0.2, 0.1)] * 5), resamples=5).months
    assert np.isnan(part.measure("roc_auc").difference.value)
    assert part.measure("brier_score").difference.value == pytest.approx(0.01 - 0.04)


def test_an_event_belongs_to_the_month_of_its_day_in_the_zone_of_the_source() -> None:
    midnight = pa.array([datetime(2024, 10, 31, 23, 30, tzinfo=timezone.utc)], pa.timestamp("us", "UTC"))
    rows = pa.table({"event_ts": midnight, "label": [1]})
    one = np.ones(1)
    assert scored_pair(rows, one, one, "UTC").months.to_pylist() == ["2024-10"]
    assert scored_pair(rows, one, one, "Europe/Zurich").months.to_pylist() == ["2024-11"]


def test_labels_of_every_type_are_numbers() -> None:
    assert numbers(pa.chunked_array([pa.array([True, False])])).tolist() == [1, 0]
    assert numbers(pa.chunked_array([pa.array([1, 0], pa.int32())])).tolist() == [1, 0]
    assert numbers(pa.chunked_array([pa.array([1.5, None], pa.float64()).fill_null(0).cast(pa.decimal128(4, 2))])).tolist() == [
        1.5,
        0,
    ]


def test_a_model_of_values_is_compared_by_its_own_measures() -> None:
    contract = model_contract(predicts="value")
    rows = ScoredPair(pa.array(["2024-10"] * 3), np.array([1.0, 2.0, 6.0]), np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 6.0]))
    total = compare(contract, rows).total
    assert total.positives is None
    assert [measure.name for measure in total.measures] == ["mean_absolute_error", "root_mean_squared_error", "r2"]
    assert total.measure("mean_absolute_error").gain == 1
    assert total.measure("r2").challenger.value == 1
