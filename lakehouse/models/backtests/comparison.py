"""The comparison of two versions of a model on the same rows: every measure with intervals, per event month and in total.

Functions of arrays, independent of the origin of the rows. Acceptance rules are evaluated in ``verdicts``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.contracts.training.acceptance import OF_PROBABILITIES, OF_VALUES
from lakehouse.models import evaluation
from lakehouse.models.backtests.resampling import resampled

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from lakehouse.contracts.training.model import ModelContract

#: The name of the part with all rows.
TOTAL = "total"
#: The number of resamples for an interval, and the share of them that lies within it.
RESAMPLES, LEVEL = 500, 0.95
_GREATER_IS_BETTER = {**OF_PROBABILITIES, **OF_VALUES}


@dataclass(frozen=True)
class ScoredPair:
    """Rows scored by two versions; all arrays have the same length.

    ``months`` is the month of the event of each row, such as ``2024-10``; ``labels``, ``champion`` and ``challenger`` are
    numbers; ``segments`` has, by feature, the value of each row as text.
    """

    months: pa.Array
    labels: NDArray[np.float64]
    champion: NDArray[np.float64]
    challenger: NDArray[np.float64]
    segments: Mapping[str, pa.Array] = field(default_factory=dict)

    def at(self, places: NDArray[np.intp]) -> ScoredPair:
        """The rows at ``places``, without their segments."""
        return ScoredPair(self.months.take(pa.array(places)), self.labels[places], self.champion[places], self.challenger[places])

    def ordered(self) -> ScoredPair:
        """The rows in an order that depends only on their content, so that drawn rows and rounding errors depend on it alone."""
        return self.at(np.lexsort((self.challenger, self.champion, self.labels)))

    def parts(self, values: pa.Array) -> dict[str, ScoredPair]:
        """The rows grouped by ``values``, an array with one text per row; in the order of the values."""
        coded = values.dictionary_encode()
        names, codes = coded.dictionary.to_pylist(), coded.indices.to_numpy()
        ordered = np.argsort(codes, kind="stable")
        places = np.split(ordered, np.cumsum(np.bincount(codes, minlength=len(names)))[:-1])
        return dict(sorted((name, self.at(rows)) for name, rows in zip(names, places)))


@dataclass(frozen=True)
class IntervalEstimate:
    """A number with the interval that contains it at a confidence of :data:`LEVEL`; NaN where it cannot be measured."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class ComparedMeasure:
    """A measure for both versions. ``difference`` is challenger - champion, with an interval from the same resamples."""

    name: str
    champion: IntervalEstimate
    challenger: IntervalEstimate
    difference: IntervalEstimate

    @property
    def gain(self) -> float:
        """The improvement of the challenger, whichever direction is better."""
        return self.difference.value if _GREATER_IS_BETTER[self.name] else -self.difference.value


@dataclass(frozen=True)
class ComparedPart:
    """The comparison for a month or for all rows. ``positives`` counts the labels 1; None if labels are values."""

    name: str
    rows: int
    positives: int | None
    measures: list[ComparedMeasure]

    def measure(self, name: str) -> ComparedMeasure:
        """The measure ``name``."""
        return next(measure for measure in self.measures if measure.name == name)


@dataclass(frozen=True)
class ModelComparison:
    """The comparison of two versions: month by month, and on all rows."""

    months: list[ComparedPart]
    total: ComparedPart


def scored_pair(
    rows: pa.Table,
    champion: NDArray[np.float64],
    challenger: NDArray[np.float64],
    zone: str,
    features: Collection[str] = (),
) -> ScoredPair:
    """The rows of a table with the scores of both versions.

    :param rows: with the columns ``event_ts``, ``label`` and the ``features``; in the order of the scores.
    :param zone: the time zone in which the source counts its days.
    :param features: the features that segment an acceptance rule.
    """
    local = rows["event_ts"].cast(pa.timestamp("us", zone))
    segments = {name: _texts(rows[name].combine_chunks()) for name in dict.fromkeys(features)}
    months = pc.strftime(local, "%Y-%m").combine_chunks()
    return ScoredPair(months, numbers(rows["label"]), champion, challenger, segments)


def numbers(labels: pa.ChunkedArray) -> NDArray[np.float64]:
    """Labels as numbers: true becomes 1, a decimal the nearest float."""
    plain = labels.cast(pa.int8()) if pa.types.is_boolean(labels.type) else labels
    return np.asarray(plain.cast(pa.float64()).to_numpy(), dtype=np.float64)


def compare(
    contract: ModelContract,
    rows: ScoredPair,
    months: Sequence[str] = (),
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> ModelComparison:
    """Compare two versions by the measures of the model.

    The result does not depend on the order of the rows, and is the same for the same ``seed``.

    :param months: months that are shown even without rows.
    """
    by_month = rows.parts(rows.months)
    nothing = rows.at(np.arange(0))
    parts = {month: by_month.get(month, nothing) for month in sorted({*months, *by_month})}
    return ModelComparison(
        [compared_part(contract, month, part, resamples, seed) for month, part in parts.items()],
        compared_part(contract, TOTAL, rows, resamples, seed),
    )


def compared_part(contract: ModelContract, name: str, rows: ScoredPair, resamples: int, seed: int) -> ComparedPart:
    """Compare the versions on all rows of ``rows``."""
    ordered = rows.ordered()
    labels = ordered.labels
    positives = int((labels > 0).sum()) if contract.predicts == "probability" else None
    return ComparedPart(name, len(labels), positives, _measures(contract, ordered, resamples, seed))


def _measures(contract: ModelContract, rows: ScoredPair, resamples: int, seed: int) -> list[ComparedMeasure]:
    champion, challenger = (evaluation.quality(contract, rows.labels, scores) for scores in (rows.champion, rows.challenger))
    if not len(rows.labels):
        unknown = IntervalEstimate(float("nan"), float("nan"), float("nan"))
        return [ComparedMeasure(name, unknown, unknown, unknown) for name in contract.measures]
    of_champion, of_challenger = resampled(
        rows.labels, [rows.champion, rows.challenger], list(contract.measures), resamples, seed
    )
    return [
        ComparedMeasure(
            name,
            _estimate(champion[name], of_champion[name]),
            _estimate(challenger[name], of_challenger[name]),
            _estimate(challenger[name] - champion[name], of_challenger[name] - of_champion[name]),
        )
        for name in contract.measures
    ]


def _estimate(value: float, drawn: NDArray[np.float64]) -> IntervalEstimate:
    """A number with the percentiles of the resamples that have a value."""
    known = drawn[~np.isnan(drawn)]
    if not len(known):
        return IntervalEstimate(value, float("nan"), float("nan"))
    low, high = np.percentile(known, [50 * (1 - LEVEL), 50 * (1 + LEVEL)])
    return IntervalEstimate(value, float(low), float(high))


def _texts(values: pa.Array) -> pa.Array:
    """The values of a feature as text."""
    coded = values.dictionary_encode(null_encoding="encode")
    texts = pa.array(["NULL" if value is None else f"{value}" for value in coded.dictionary.to_pylist()], pa.string())
    return texts.take(coded.indices)
