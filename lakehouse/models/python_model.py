"""A model of any class in MLflow's format for Python models. Models of scikit-learn have a separate format and do not need it.

This is the only module that imports MLflow at import time, because the format is a subclass; ``tracking`` imports this module
when needed.
"""

from __future__ import annotations

from typing import Any

from mlflow.pyfunc import PythonModel


class WrappedModel(PythonModel):  # type: ignore[misc] # a class without types
    """Holds the result of a training function, so that loading returns the same object."""

    def __init__(self, trained: Any) -> None:
        self.trained = trained

    def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN201, ARG002 (MLflow reads hints)
        """The predictions of the model."""
        return self.trained.predict(model_input)
