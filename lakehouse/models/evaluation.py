"""The scores of a model and their quality, as functions of arrays. Selecting the rows belongs elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn import metrics

from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from lakehouse.contracts.model import ModelContract

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


def _both_classes(labels: NDArray[np.int64]) -> bool:
    return bool(0 < labels.sum() < len(labels))


_OF_PROBABILITIES: dict[str, Any] = {
    "roc_auc": lambda labels, scores: float(metrics.roc_auc_score(labels, scores)) if _both_classes(labels) else float("nan"),
    "average_precision": lambda labels, scores: (
        float(metrics.average_precision_score(labels, scores)) if _both_classes(labels) else float("nan")
    ),
    "log_loss": lambda labels, scores: float(metrics.log_loss(labels, scores, labels=[0, 1])),
    "brier_score": lambda labels, scores: float(((scores - labels) ** 2).mean()),
    "accuracy": lambda labels, scores: float(metrics.accuracy_score(labels, scores >= THRESHOLD)),
    "precision": lambda labels, scores: float(metrics.precision_score(labels, scores >= THRESHOLD, zero_division=0)),
    "recall": lambda labels, scores: float(metrics.recall_score(labels, scores >= THRESHOLD, zero_division=0)),
    "f1": lambda labels, scores: float(metrics.f1_score(labels, scores >= THRESHOLD, zero_division=0)),
}
