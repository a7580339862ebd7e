"""The distribution of a column, against plain Python."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.models import score_checks
from lakehouse.training_sets import build

NUMBERS = st.none() | st.integers(-9, 9).map(float) | st.floats(-1e9, 1e9) | st.just(math.nan)
TEXTS = st.none() | st.sampled_from(["", "a", "b", "c", "ä"]) | st.text("abc", max_size=3)


@given(values=st.lists(NUMBERS, max_size=60), cut=st.integers(0, 60))
def test_numbers(values: list[float | None], cut: int) -> None:
    column = pa.chunked_array([pa.array(values[:cut], pa.float64()), pa.array(values[cut:], pa.float64())])
    described = build.distribution(column)
    assert described["nulls"] == (values.count(None) / len(values) if values else 0)
    present = sorted(value for value in values if value is not None and not math.isnan(value))
    if not present:
        assert {described[name] for name in ("min", "max", "mean", "deviation", "quantiles")} == {None}
        return
    assert (described["min"], described["max"]) == (present[0], present[-1])
    assert described["mean"] == pytest.approx(statistics.fmean(present), abs=1e-6)
    assert described["deviation"] == pytest.approx(statistics.pstdev(present), rel=1e-6, abs=1e-6)
    for number, quantile in enumerate(described["quantiles"]):
        assert sum(value <= quantile for value in present) >= len(present) * number / 40
        assert quantile == present[0] or sum(value < quantile for value in present) < len(present) * number / 40
    assert score_checks.drift_from_summary(column, described, len(values)) == pytest.approx(0, abs=1e-9)


@given(values=st.lists(TEXTS, max_size=60))
def test_other_values(values: list[str | None]) -> None:
    described = build.distribution(pa.chunked_array([pa.array(values, pa.string())]))
    counts = Counter(value for value in values if value is not None)
    most = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0].encode()))[: build.MOST_FREQUENT]
    assert list(described["frequent"].items()) == most
    assert described["distinct"] == len(counts)
    assert described["nulls"] == (values.count(None) / len(values) if values else 0)


@pytest.mark.parametrize(
    ("values", "frequent"),
    [
        (pa.array([True, True, False, None]), {"true": 2, "false": 1}),
        (pa.array([date(2024, 2, 29), None]), {"2024-02-29": 1}),
    ],
    ids=["boolean", "date"],
)
def test_values_of_other_types_are_named_by_their_text_as_drift_names_them(values: pa.Array, frequent: dict[str, int]) -> None:
    column = pa.chunked_array([values])
    described = build.distribution(column)
    assert described["frequent"] == frequent
    assert score_checks.drift_from_summary(column, described, len(values)) == 0


def test_decimals_are_numbers() -> None:
    described = build.distribution(pa.chunked_array([pa.array([Decimal("1.50"), Decimal("2.50")])]))
    assert (described["min"], described["max"], described["mean"]) == (1.5, 2.5, 2.0)
