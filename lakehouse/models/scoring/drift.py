"""Distance between two distributions (0 identical, 1 disjoint). The reference is a sample or a stored summary.

The summaries are those of a training set's manifest. Bounds and failure messages belong to ``checks``.
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
    """The distance of a column's values from the distribution in a manifest; NULL and NaN are left out on both sides.

    :param summary: for a column of numbers, ``quantiles``, evenly spaced from the smallest to the greatest value; for other
        columns, the most ``frequent`` values with their counts, and the share of ``nulls``.
    :param rows: the number of rows summarized.
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
    """Kolmogorov-Smirnov statistic against a reference known only by evenly spaced quantiles (a lower bound).

    Between two quantiles, the reference's cumulative share may have any value between the two levels; only excess beyond these
    counts.

    :param values: at least one value, without NaN.
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
    """Half the sum of the differences of shares (total variation distance); all unlisted values count as one.

    :param values: at least one value, without NULL.
    :param described: the number of values from which the frequent ones were counted.
    """
    counted = pc.value_counts(values.cast(pa.string()))
    ours = dict(zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist()))
    shares = [(ours.get(name, 0) / len(values), count / described) for name, count in frequent.items()]
    others = (1 - sum(one for one, _ in shares), 1 - sum(other for _, other in shares))
    apart = [abs(one - other) for one, other in [*shares, others]]
    return float(sum(apart)) / 2


def of_samples(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> float:
    """The greatest difference between the cumulative shares of two non-empty samples; exact form: ``quality.statistics``."""
    first, second = np.sort(ours), np.sort(theirs)
    at = np.concatenate([first, second])
    shares = (np.searchsorted(sample, at, side="right") / len(sample) for sample in (first, second))
    return float(np.max(np.abs(np.subtract(*shares))))
