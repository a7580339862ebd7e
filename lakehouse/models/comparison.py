"""The comparison of two versions of a model on the same rows: every measure with intervals, per event month and in total.

Here are the scores of a model, the measures of their quality, and the uncertainty of a measure: its values on resamples of the
rows (a bootstrap), a batch of resamples at a time. All are functions of arrays, independent of the origin of the rows. Selecting
the rows belongs to ``backtest``, evaluating the acceptance rules to ``backtest_log``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.contracts.model import OF_PROBABILITIES, OF_VALUES
from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    import pandas as pd
    from numpy.typing import NDArray

    from lakehouse.contracts.model import ModelContract

    Floats = NDArray[np.float64]


#: A score of at least this value counts as the prediction 1, for measures that need predictions.
THRESHOLD = 0.5


class ScoringError(LakehouseError):
    """A model that gives no usable scores. The message states the actual and the expected result."""


def scores_of(contract: ModelContract, trained: Any, features: pd.DataFrame) -> NDArray[np.float64]:
    """The score of each row: the probability of the label 1, or the predicted value.

    :param trained: the training function's result, with ``predict_proba`` or ``predict`` as in scikit-learn.
    :raises ScoringError: if the model lacks that method, or does not give one number per row.
    """
    method = "predict_proba" if contract.predicts == "probability" else "predict"
    predict = getattr(trained, method, None)
    if predict is None:
        msg = f"{contract.name}: {type(trained).__name__} has no '{method}', which 'predicts: {contract.predicts}' needs"
        raise ScoringError(msg)
    scores = np.asarray(predict(features), dtype=np.float64)
    if scores.ndim == 2:  # noqa: PLR2004 (a column for each class)
        scores = scores[:, -1]
    if scores.shape != (len(features),) or not np.isfinite(scores).all():
        msg = f"{contract.name}: '{method}' gave {scores.shape} for {len(features)} rows, or numbers that are not finite"
        raise ScoringError(msg)
    return scores


def _both_classes(labels: NDArray[np.int64]) -> bool:
    return bool(0 < labels.sum() < len(labels))


def _sklearn() -> Any:
    """The measures of scikit-learn, of the extra ``ml``: who only reads the results of comparisons does without it."""
    from sklearn import metrics  # noqa: PLC0415

    return metrics


_OF_PROBABILITIES: dict[str, Any] = {
    "roc_auc": lambda labels, scores: float(_sklearn().roc_auc_score(labels, scores)) if _both_classes(labels) else float("nan"),
    "average_precision": lambda labels, scores: (
        float(_sklearn().average_precision_score(labels, scores)) if _both_classes(labels) else float("nan")
    ),
    "log_loss": lambda labels, scores: float(_sklearn().log_loss(labels, scores, labels=[0, 1])),
    "brier_score": lambda labels, scores: float(((scores - labels) ** 2).mean()),
    "accuracy": lambda labels, scores: float(_sklearn().accuracy_score(labels, scores >= THRESHOLD)),
    "precision": lambda labels, scores: float(_sklearn().precision_score(labels, scores >= THRESHOLD, zero_division=0)),
    "recall": lambda labels, scores: float(_sklearn().recall_score(labels, scores >= THRESHOLD, zero_division=0)),
    "f1": lambda labels, scores: float(_sklearn().f1_score(labels, scores >= THRESHOLD, zero_division=0)),
}


def quality(contract: ModelContract, labels: NDArray[np.float64], scores: NDArray[np.float64]) -> dict[str, float]:
    """The quality measures of ``scores``; a measure that needs both classes is NaN if there is only one."""
    if not len(labels):
        return dict.fromkeys(contract.measures, float("nan"))
    if contract.predicts == "value":
        error = scores - labels
        spread = ((labels - labels.mean()) ** 2).sum()
        of_values = {
            "mean_absolute_error": float(np.abs(error).mean()),
            "root_mean_squared_error": float(np.sqrt((error**2).mean())),
            "r2": float(1 - (error**2).sum() / spread) if spread else float("nan"),
        }
        return {name: of_values[name] for name in contract.measures}
    return {name: _OF_PROBABILITIES[name](labels.astype(int), scores) for name in contract.measures}


class Scored:
    """Labels and scores of the same rows, prepared once for all resamples.

    Rank measures need weights only at scores of rows with the label 1. ``ascending`` orders the rows by score. ``starts`` and
    ``ends`` are the positions in that order where the rows with such a score begin and end. ``positive`` has the rows with the
    label 1 in that order; the rows of each such score begin at ``firsts``.
    """

    def __init__(self, labels: Floats, scores: Floats) -> None:
        """Prepare two arrays of the same length, which is not 0."""
        self.labels, self.scores = labels, scores
        self.ascending = np.argsort(scores, kind="stable")
        ordered = scores[self.ascending]
        self.positive = self.ascending[labels[self.ascending] > 0]
        of_positive = scores[self.positive]
        self.firsts = np.flatnonzero(np.r_[True, of_positive[1:] != of_positive[:-1]]) if len(of_positive) else np.arange(0)
        self.starts = np.searchsorted(ordered, of_positive[self.firsts], side="left")
        self.ends = np.searchsorted(ordered, of_positive[self.firsts], side="right")


class Resamples:
    """Rows with their weights in a number of resamples: ``weights`` is (resamples x rows)."""

    def __init__(self, rows: Scored, weights: Floats) -> None:
        self.rows, self.weights = rows, weights

    @cached_property
    def by_score(self) -> tuple[Floats, Floats, Floats]:
        """At each score of a label 1, in ascending order: the weight of the labels 1 with that score, of all rows below it, and
        of all rows up to it.

        Each is (resamples x scores).
        """
        rows = self.rows
        upto = np.zeros((len(self.weights), self.weights.shape[1] + 1))
        np.cumsum(np.take(self.weights, rows.ascending, axis=1), axis=1, out=upto[:, 1:])
        positive = np.take(self.weights, rows.positive, axis=1)
        positive = np.add.reduceat(positive, rows.firsts, axis=1) if len(rows.firsts) else positive
        return positive, np.take(upto, rows.starts, axis=1), np.take(upto, rows.ends, axis=1)

    @cached_property
    def hits(self) -> tuple[Floats, Floats, Floats]:
        """The weights of true positives, of predicted positives, and of actual positives."""
        predicted, positive = self.rows.scores >= THRESHOLD, self.rows.labels > 0
        columns = np.stack([predicted & positive, predicted, positive], axis=1).astype(np.float64)
        hits, of_predicted, of_positive = (self.weights @ columns).T
        return hits, of_predicted, of_positive

    @cached_property
    def total(self) -> Floats:
        """The weight of all rows in each resample."""
        total: Floats = self.weights.sum(axis=1)
        return total

    def mean(self, values: Floats) -> Floats:
        """The weighted mean of ``values``, one per row."""
        return (self.weights @ values) / self.total


def resampled(
    labels: Floats, scores: Collection[Floats], measures: Collection[str], resamples: int, seed: int
) -> list[dict[str, Floats]]:
    """For each array in ``scores``, the values of the measures on the same resamples of the rows.

    :param labels: the labels of at least one row.
    :param seed: the same seed and number of rows give the same resamples.
    :returns: for each array in ``scores``, by measure, an array of ``resamples`` numbers; NaN where a resample has no value.
    """
    prepared = [Scored(labels, column) for column in scores]
    values: list[dict[str, Floats]] = [{name: np.empty(resamples) for name in measures} for _ in prepared]
    for part, weights in _weights(len(labels), resamples, seed):
        for rows, by_measure in zip(prepared, values):
            drawn = Resamples(rows, weights)
            for name in measures:
                by_measure[name][part] = MEASURES[name](drawn)
    return values


#: The number of weights in memory at a time.
_WEIGHTS_AT_A_TIME = 2**21


def _weights(rows: int, resamples: int, seed: int) -> Iterator[tuple[slice, Floats]]:
    """The number of draws of each row, for a batch of resamples at a time: the batch's slice, and (resamples x rows)."""
    random = np.random.default_rng(seed)
    step = max(1, _WEIGHTS_AT_A_TIME // rows)
    for first in range(0, resamples, step):
        count = min(step, resamples - first)
        drawn = random.integers(0, rows, size=(count, rows)) + np.arange(count)[:, None] * rows
        counts = np.bincount(drawn.ravel(), minlength=count * rows).reshape(count, rows)
        yield slice(first, first + count), counts.astype(np.float64)


def _roc_auc(drawn: Resamples) -> Floats:
    positive, below, upto = drawn.by_score
    positive_below = np.cumsum(positive, axis=1) - positive
    # Of the rows without the label 1, rows below count fully and rows with the same score count half.
    lower = (below - positive_below) + (upto - below - positive) / 2
    of_positive = positive.sum(axis=1)
    return _ratio((positive * lower).sum(axis=1), of_positive * (drawn.total - of_positive))


def _average_precision(drawn: Resamples) -> Floats:
    positive, below, _ = drawn.by_score
    of_positive = positive.sum(axis=1)
    above = of_positive[:, None] - np.cumsum(positive, axis=1) + positive
    rows_above = drawn.total[:, None] - below
    precision = np.divide(above, rows_above, out=np.zeros_like(above), where=rows_above > 0)
    both = (of_positive > 0) & (of_positive < drawn.total)
    return np.where(both, _ratio((positive * precision).sum(axis=1), of_positive), np.nan)


def _log_loss(drawn: Resamples) -> Floats:
    least = np.finfo(np.float64).eps
    scores = np.clip(drawn.rows.scores, least, 1 - least)
    return drawn.mean(-np.where(drawn.rows.labels > 0, np.log(scores), np.log1p(-scores)))


def _mean_squared_error(drawn: Resamples) -> Floats:
    return drawn.mean((drawn.rows.scores - drawn.rows.labels) ** 2)


def _accuracy(drawn: Resamples) -> Floats:
    return drawn.mean(((drawn.rows.scores >= THRESHOLD) == (drawn.rows.labels > 0)).astype(np.float64))


def _precision(drawn: Resamples) -> Floats:
    hits, predicted, _ = drawn.hits
    return _ratio(hits, predicted, 0.0)


def _recall(drawn: Resamples) -> Floats:
    hits, _, positive = drawn.hits
    return _ratio(hits, positive, 0.0)


def _f1(drawn: Resamples) -> Floats:
    hits, predicted, positive = drawn.hits
    return _ratio(2 * hits, predicted + positive, 0.0)


def _mean_absolute_error(drawn: Resamples) -> Floats:
    return drawn.mean(np.abs(drawn.rows.scores - drawn.rows.labels))


def _root_mean_squared_error(drawn: Resamples) -> Floats:
    return np.sqrt(_mean_squared_error(drawn))


def _r2(drawn: Resamples) -> Floats:
    # The label that all rows of a resample may share is compared exactly: rounding errors are no spread.
    labels = drawn.rows.labels
    away = labels - labels.mean()  # small numbers, whose squares do not cancel
    spread = drawn.mean(away**2) - drawn.mean(away) ** 2
    present = drawn.weights > 0
    varied = np.where(present, labels, -np.inf).max(axis=1) > np.where(present, labels, np.inf).min(axis=1)
    return 1 - _ratio(_mean_squared_error(drawn), np.where(varied, spread, 0.0))


def _ratio(upper: Floats, lower: Floats, without: float = np.nan) -> Floats:
    """The ratio, or ``without`` where the divisor is 0."""
    return np.divide(upper, lower, out=np.full_like(upper, without), where=lower > 0)


#: For each measure, its value on each resample.
MEASURES: dict[str, Callable[[Resamples], Floats]] = {
    "roc_auc": _roc_auc,
    "average_precision": _average_precision,
    "log_loss": _log_loss,
    "brier_score": _mean_squared_error,
    "accuracy": _accuracy,
    "precision": _precision,
    "recall": _recall,
    "f1": _f1,
    "mean_absolute_error": _mean_absolute_error,
    "root_mean_squared_error": _root_mean_squared_error,
    "r2": _r2,
}


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
    champion, challenger = (quality(contract, rows.labels, scores) for scores in (rows.champion, rows.challenger))
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
