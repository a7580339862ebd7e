"""The addresses of the tables of training sets and models; those of all other tables are in ``lakehouse.locations``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakehouse.settings import Settings


def training_set(settings: Settings, name: str, version: str) -> str:
    """The rows of a version of a training set, such as ``datasets/training_data_v5.0``."""
    full_name = f"{name}_{version}"
    return settings.table("datasets", full_name)


def releases(settings: Settings) -> str:
    """The versions of labels, training sets and models that were released or deprecated."""
    return settings.table("ops", "releases")


def model_promotions(settings: Settings) -> str:
    """The promotions and rollbacks of models, each as it was begun and as it ended."""
    return settings.table("ops", "model_promotions")


def backtests(settings: Settings) -> str:
    """The comparisons of versions of models on the same rows."""
    return settings.table("ops", "backtests")


def canaries(settings: Settings) -> str:
    """The canaries of models: begun, judged, ended."""
    return settings.table("ops", "canaries")


def retrainings(settings: Settings) -> str:
    """What corrections have made models learn again, step by step."""
    return settings.table("ops", "retrainings")


def scores(settings: Settings, model: str) -> str:
    """The scores of a model, each with the version that made it."""
    return settings.table("scores", model)


def model_reports(settings: Settings, model: str, version: str) -> str:
    """The folder with the reports of a version of a model; no table."""
    return f"{settings.root}/models/{model}/{version}"
