"""A model of any class in MLflow's form for Python models. Models of scikit-learn have a form of their own and do not need it.

This is the only module that imports MLflow at once, because the form is a subclass; ``tracking`` imports it when it is needed.
"""

from __future__ import annotations

from typing import Any

from mlflow.pyfunc import PythonModel


class WrappedModel(PythonModel):  # type: ignore[misc] # a class without types
    """Holds what a training function returned, so that loading gives the same object back."""

    def __init__(self, trained: Any) -> None:
        self.trained = trained

    def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201, ARG002 (MLflow reads hints)
        """The predictions of the model."""
        return self.trained.predict(model_input)
