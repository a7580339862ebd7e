"""Rules for comparing a model with the one in use: which quality measure, by how much, and for which groups of rows.

The measures themselves are computed in ``models.evaluation``.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from lakehouse.contracts.base import Name, Strict

#: Quality measures of probabilities, each with whether greater is better.
OF_PROBABILITIES = {
    "roc_auc": True,
    "average_precision": True,
    "log_loss": False,
    "brier_score": False,
    "accuracy": True,
    "precision": True,
    "recall": True,
    "f1": True,
}
#: Quality measures of values.
OF_VALUES = {"mean_absolute_error": False, "root_mean_squared_error": False, "r2": True}
QualityMeasure = Literal[
    "roc_auc",
    "average_precision",
    "log_loss",
    "brier_score",
    "accuracy",
    "precision",
    "recall",
    "f1",
    "mean_absolute_error",
    "root_mean_squared_error",
    "r2",
]


class AcceptanceRule(Strict):
    """The result that a challenger must reach against the champion on the same rows."""

    metric: QualityMeasure
    better_by: float | None = Field(None, ge=0, description="The challenger must be better by at least this much.")
    not_worse_than: float | None = Field(None, ge=0, description="The challenger may be worse by at most this much.")
    by: Name | None = Field(None, description="A feature: the rule holds for each of its values ('segment'), not in total.")
    needs_rows: int = Field(50, ge=1, description="A segment with fewer rows is not judged.")

    @model_validator(mode="after")
    def _one_bound(self) -> AcceptanceRule:
        if (self.better_by is None) == (self.not_worse_than is None):
            msg = "give better_by or not_worse_than: one of the two"
            raise ValueError(msg)
        return self

    @property
    def least_gain(self) -> float:
        """By how much the challenger must be better; negative where it may be worse."""
        return self.better_by if self.better_by is not None else -(self.not_worse_than or 0.0)

    @property
    def text(self) -> str:
        """The rule as a sentence for people."""
        bound = f"better by {self.better_by:g}" if self.better_by is not None else f"not worse than {self.not_worse_than:g}"
        return f"{self.metric} {bound}" + (f" for each {self.by}" if self.by else "")
