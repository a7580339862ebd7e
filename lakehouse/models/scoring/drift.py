"""How far some values lie from others of which only a summary is known, or from a sample: 0 for the same distribution, 1 at most.

The summaries are those of a training set's manifest. The bounds and the words for a failure belong to ``checks``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray


def from_summary(values: pa.ChunkedArray, summary: Mapping[str, Any], rows: int) -> float | None:
    """The distance of a column's values from those that a manifest describes; NULL and NaN are left out on both sides.

    :param summary: of a column of numbers ``quantiles``, evenly spaced from the least to the greatest; of others the most
        ``frequent`` values with their counts, and the share of ``nulls``.
    :param rows: how many rows the summary is of.
    :returns: None if either side has no value, or if the summary says nothing about the distribution.
    """
    present = values.drop_null()
    if not len(present):
        return None
    quantiles = summary.get("quantiles")
    if quantiles:
        plain = present.cast(pa.int8()) if pa.types.is_boolean(present.type) else present
        numbers = plain.cast(pa.float64(), safe=False).to_numpy()
        numbers = numbers[~np.isnan(numbers)]
        return from_quantiles(numbers, quantiles) if len(numbers) else None
    frequent = summary.get("frequent")
    described = round(rows * (1 - float(summary.get("nulls", 0))))
    return from_frequent(present, frequent, described) if frequent and described else None


def from_quantiles(values: NDArray[np.float64], quantiles: Sequence[float]) -> float:
    """The greatest difference of cumulative shares (Kolmogorov-Smirnov), as far as evenly spaced quantiles tell it.

    Between two quantiles the share may be anything from the one to the other: only what lies outside counts.

    :param values: at least one, without NaN.
    """
    known = np.asarray(quantiles, dtype=np.float64)
    levels = np.linspace(0, 1, len(known))
    ordered = np.sort(values)
    at = np.union1d(ordered, known)
    distance = 0.0
    for side in ("left", "right"):  # shares of the values below each place, and up to it
        ours = np.searchsorted(ordered, at, side=side) / len(ordered)
        places = np.searchsorted(known, at, side=side)
        least = np.where(places > 0, levels[np.maximum(places - 1, 0)], 0.0)
        most = np.where(places < len(known), levels[np.minimum(places, len(known) - 1)], 1.0)
        distance = max(distance, float(np.max(least - ours)), float(np.max(ours - most)))
    return distance


def from_frequent(values: pa.ChunkedArray, frequent: Mapping[str, int], described: int) -> float:
    """Half the sum of the differences of shares (total variation), where all values that are not named count as one.

    :param values: at least one, without NULL.
    :param described: how many values the counts of the frequent ones are of.
    """
    counted = pc.value_counts(values.cast(pa.string()))
    ours = dict(zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist()))
    shares = [(ours.get(name, 0) / len(values), count / described) for name, count in frequent.items()]
    others = (1 - sum(one for one, _ in shares), 1 - sum(other for _, other in shares))
    apart = [abs(one - other) for one, other in [*shares, others]]
    return float(sum(apart)) / 2


def of_samples(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> float:
    """The greatest difference of two samples' cumulative shares, neither empty; the exact form is in ``quality.statistics``."""
    first, second = np.sort(ours), np.sort(theirs)
    at = np.concatenate([first, second])
    shares = (np.searchsorted(sample, at, side="right") / len(sample) for sample in (first, second))
    return float(np.max(np.abs(np.subtract(*shares))))
