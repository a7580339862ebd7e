"""The training function of the model ``fraud``, as a user would write it: scikit-learn only, independent of the lakehouse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

_TEXTS = ("channel", "country", "tier")
_NUMBERS = ("log_amount", "night", "abroad", "country_payments")


def train(frame: pd.DataFrame, params: Mapping[str, Any]) -> Any:
    """Train a pipeline with ``predict_proba``: encode the inputs from :func:`prepared`, then fit a logistic regression.

    :param frame: the features of the training set and its column ``label``.
    :param params: ``inputs`` (the names of the inputs that the model uses; default: all), ``C`` and ``max_iter`` of the
        regression.
    """
    from sklearn.compose import ColumnTransformer  # noqa: PLC0415 (who only reads contracts needs no scikit-learn)
    from sklearn.impute import SimpleImputer  # noqa: PLC0415
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415
    from sklearn.pipeline import Pipeline, make_pipeline  # noqa: PLC0415
    from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler  # noqa: PLC0415

    used = params.get("inputs") or [*_TEXTS, *_NUMBERS]
    texts, numbers = ([name for name in known if name in used] for known in (_TEXTS, _NUMBERS))
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    # In its first week a metric has no published number yet; an indicator tells the model that the value is missing.
    filled = make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
    steps = [
        ("prepare", FunctionTransformer(prepared)),
        ("encode", ColumnTransformer([("texts", encoder, texts), ("numbers", filled, numbers)])),
        ("regression", LogisticRegression(C=params.get("C", 0.1), max_iter=params.get("max_iter", 500))),
    ]
    return Pipeline(steps).fit(frame, frame["label"].astype(int))


def prepared(frame: pd.DataFrame) -> pd.DataFrame:
    """The inputs of the model: texts without gaps, numbers as floats, and whether the payment is abroad."""
    texts = {name: frame[name].fillna("unknown").astype(str) for name in _TEXTS}
    return frame.assign(
        **texts,
        log_amount=np.log(frame["amount"].astype(np.float64).clip(lower=1)),
        night=frame["night"].astype(np.float64),
        abroad=(frame["home_country"].fillna(frame["country"]) != frame["country"]).astype(np.float64),
        country_payments=frame["country_payments"].astype(np.float64),
    )
