"""Distances from the summaries of a manifest: never more than the exact distance, and less by one quantile at most."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.models import score_checks
from lakehouse.quality.statistics import kolmogorov_smirnov

_numbers = st.lists(st.integers(-5, 5).map(float), min_size=1, max_size=60)


def quantiles_of(values: list[float]) -> list[float]:
    """As Spark's percentile_approx has them: the least value up to which lies at least the share."""
    ordered = sorted(values)
    places = [max(0, int(np.ceil(level * len(ordered))) - 1) for level in np.linspace(0, 1, 41)]
    return [ordered[place] for place in places]


@given(_numbers, _numbers)
def test_quantiles_tell_the_distance_to_within_a_quantile(ours, theirs) -> None:
    exact = float(kolmogorov_smirnov(ours, theirs))
    distance = score_checks.from_quantiles(np.array(ours), quantiles_of(theirs))
    assert exact - 1 / 40 - 1e-9 <= distance <= exact + 1e-9


@given(_numbers, _numbers)
def test_the_distance_of_samples_is_the_exact_one(ours, theirs) -> None:
    assert score_checks.drift_of_samples(np.array(ours), np.array(theirs)) == pytest.approx(
        float(kolmogorov_smirnov(ours, theirs))
    )


_texts = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=40)


@given(_texts, _texts, st.integers(1, 6))
def test_frequent_values_tell_at_most_the_exact_distance(ours, theirs, named) -> None:
    counts, others = Counter(theirs), Counter(ours)
    exact = sum(abs(others[name] / len(ours) - counts[name] / len(theirs)) for name in {*others, *counts}) / 2
    frequent = dict(counts.most_common(named))
    distance = score_checks.from_frequent(pa.chunked_array([ours]), frequent, len(theirs))
    assert distance <= exact + 1e-9
    if named >= len({*others, *counts}):
        assert distance == pytest.approx(exact)


def test_a_column_without_values_or_without_a_description_has_no_distance() -> None:
    nulls = pa.chunked_array([pa.nulls(3, pa.float64())])
    assert score_checks.drift_from_summary(nulls, {"quantiles": [0.0] * 41}, 10) is None
    assert score_checks.drift_from_summary(pa.chunked_array([[1.0]]), {"nulls": 1.0}, 10) is None
    assert score_checks.drift_from_summary(pa.chunked_array([["a"]]), {"nulls": 1.0, "frequent": {"a": 1}}, 10) is None


def test_nulls_are_left_out_on_both_sides() -> None:
    values = pa.chunked_array([["a", None, None, "b"]])
    assert score_checks.drift_from_summary(values, {"nulls": 0.5, "frequent": {"a": 5, "b": 5}}, 20) == 0
    numbers = pa.chunked_array([pa.array([1, None, 2], pa.int32())])
    assert score_checks.drift_from_summary(numbers, {"nulls": 0.9, "quantiles": [1.0] * 21 + [2.0] * 20}, 20) <= 1 / 40
