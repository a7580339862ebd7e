"""The contract of a model: its training set, its training function, and the rules for its use.

The rules compare a model with the one in use: by which quality measure, by how much, and for which groups of rows. The comparison
of contracts with the deployment's training sets belongs to ``training_set``.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from lakehouse.contracts.base import Documented, Name, Strict
from lakehouse.contracts.checks import Share

if TYPE_CHECKING:
    from collections.abc import Iterator


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


_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def _share(value: Any) -> Any:
    """Parse a share, which may also be written in percent."""
    if isinstance(value, str) and value.strip().endswith("%"):
        try:
            return Decimal(value.strip()[:-1]) / 100
        except InvalidOperation:
            msg = f"{value!r} is no percentage; write it as 0.5% or 0.005"
            raise ValueError(msg) from None
    return value


#: A share, which may also be written in percent.
Percentage = Annotated[Share, BeforeValidator(_share)]


class Canary(Strict):
    """A trial in which a challenger scores a share of the entities in place of the champion, until enough labels are mature."""

    share: Percentage = Field(description="The share of entities that the challenger scores, such as 10%.")
    salt: str = Field("", description="Another text selects other entities; the name of the model is always part of it.")
    needs_labels: int = Field(200, ge=1, description="With fewer mature labels of the canary nothing is judged.")
    success: list[AcceptanceRule] = Field(
        default_factory=list, description="What the challenger must reach on these labels; default: the rules of 'acceptance'."
    )


class RetrainingPolicy(Strict):
    """The bounds beyond which corrected training data makes a new version, which is never promoted automatically."""

    changed_rows: Percentage | None = Field(None, description="The share of rows of the set that would differ now.")
    changed_labels: int | None = Field(None, ge=1, description="The number of labels that would differ now.")

    @model_validator(mode="after")
    def _some_bound(self) -> RetrainingPolicy:
        if self.changed_rows is None and self.changed_labels is None:
            msg = "give changed_rows or changed_labels, or leave the section out"
            raise ValueError(msg)
        return self


class ModelChecks(Strict):
    """The bounds of the asset checks on a model's scores."""

    feature_drift: Share = Field(
        Decimal("0.3"), description="The greatest distance of a feature's values on a day from those of the champion's set."
    )
    prediction_drift: Share = Field(
        Decimal("0.3"), description="The greatest distance of a day's scores from those of the champion on its own set."
    )
    null_share: Share = Field(
        Decimal("0.2"), description="By how much the share of NULLs of a feature may exceed that in the champion's set."
    )
    skew: Share = Field(
        Decimal("0.01"), description="The share of scored rows whose features are others in a set that is built afterwards."
    )
    needs_rows: int = Field(50, ge=1, description="With fewer rows on a day no distance is judged.")


class ModelContract(Documented):
    """The contract of one model: one file, and the function that it names."""

    model: Name
    training_set: Name = Field(description="The contract of the set that it learns from.")
    train: str = Field(description="The function '(frame, params) -> model', as 'package.module:function'.")
    parameters: dict[str, Any] = Field(default_factory=dict, description="What the function gets as 'params'.")
    predicts: Literal["probability", "value"] = Field(
        "probability", description="Whether a score is the probability of the label 1 ('predict_proba') or a value ('predict')."
    )
    fit_on: Name | None = Field(None, description="The part of the set that the function gets; default: the first one.")
    evaluate_on: Name | None = Field(None, description="The part that its quality is measured on; default: the last one.")
    metrics: list[QualityMeasure] = Field(default_factory=list, description="Measures of quality; default: those that fit.")
    acceptance: list[AcceptanceRule] = Field(
        default_factory=list, description="What a version must reach in a backtest against the champion to be promoted."
    )
    canary: Canary | None = None
    retrain_when: RetrainingPolicy | None = None
    checks: ModelChecks = Field(default_factory=ModelChecks)

    @property
    def name(self) -> str:
        """The model's name, also that of the registered model and of the experiment in MLflow."""
        return self.model

    @property
    def measures(self) -> dict[str, bool]:
        """The quality measures, each with whether greater is better."""
        fitting = OF_PROBABILITIES if self.predicts == "probability" else OF_VALUES
        return {name: better for name, better in fitting.items() if not self.metrics or name in self.metrics}

    @property
    def rules(self) -> list[str]:
        """The acceptance rules as sentences for people."""
        return [rule.text for rule in self.acceptance]

    @property
    def canary_rules(self) -> list[AcceptanceRule]:
        """The rules that a challenger must meet in its canary."""
        return (self.canary.success if self.canary else []) or self.acceptance

    @field_validator("train")
    @classmethod
    def _names_function(cls, value: str) -> str:
        if not _FUNCTION.fullmatch(value):
            msg = f"{value!r} names no function; write 'package.module:function'"
            raise ValueError(msg)
        return value

    @model_validator(mode="after")
    def _consistent(self) -> ModelContract:
        unfit = next(self._problems(), None)
        if unfit:
            raise ValueError(unfit)
        return self

    def _problems(self) -> Iterator[str]:
        fitting = OF_PROBABILITIES if self.predicts == "probability" else OF_VALUES
        for name in self.metrics:
            if name not in fitting:
                yield f"metrics: {name} is no measure of a {self.predicts}; there are {', '.join(fitting)}"
        used = [*self.acceptance, *(self.canary.success if self.canary else [])]
        for rule in used:
            if rule.metric not in self.measures:
                yield f"acceptance: {rule.metric} is not among the measures of the model: {', '.join(self.measures)}"
