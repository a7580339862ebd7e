"""The addresses of the tables of training sets and models; all other addresses are in ``lakehouse.locations``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakehouse.settings import Settings


def training_set(settings: Settings, name: str, version: str) -> str:
    """The rows of a training set version, such as ``datasets/training_data_v5.0``."""
    full_name = f"{name}_{version}"
    return settings.table("datasets", full_name)


def releases(settings: Settings) -> str:
    """The released and deprecated versions of labels, training sets and models."""
    return settings.table("ops", "releases")


def model_promotions(settings: Settings) -> str:
    """The promotions and rollbacks of models, with their starts and ends."""
    return settings.table("ops", "model_promotions")


def backtests(settings: Settings) -> str:
    """The comparisons of model versions on the same rows."""
    return settings.table("ops", "backtests")


def canaries(settings: Settings) -> str:
    """The canaries of models: starts, judgements, stops."""
    return settings.table("ops", "canaries")


def retrainings(settings: Settings) -> str:
    """The retrainings caused by corrections, step by step."""
    return settings.table("ops", "retrainings")


def scores(settings: Settings, model: str) -> str:
    """The scores of a model, each with the version that computed it."""
    return settings.table("scores", model)


def model_reports(settings: Settings, model: str, version: str) -> str:
    """The folder with the reports of a model version; not a table."""
    return f"{settings.root}/models/{model}/{version}"
