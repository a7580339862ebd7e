"""The addresses of the tables of training sets and models; all other addresses are in ``lakehouse.locations``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakehouse.lake import Lake, Table


def training_set(lake: Lake, name: str, version: str) -> Table:
    """The rows of a training set version, such as ``datasets/training_data_v5.0``."""
    full_name = f"{name}_{version}"
    return lake.table("datasets", full_name)


def releases(lake: Lake) -> Table:
    """The released and deprecated versions of labels, training sets and models."""
    return lake.table("ops", "releases")


def model_promotions(lake: Lake) -> Table:
    """The promotions and rollbacks of models, with their starts and ends."""
    return lake.table("ops", "model_promotions")


def backtests(lake: Lake) -> Table:
    """The comparisons of model versions on the same rows."""
    return lake.table("ops", "backtests")


def canaries(lake: Lake) -> Table:
    """The canaries of models: starts, judgements, stops."""
    return lake.table("ops", "canaries")


def retrainings(lake: Lake) -> Table:
    """The retrainings caused by corrections, step by step."""
    return lake.table("ops", "retrainings")


def scores(lake: Lake, model: str) -> Table:
    """The scores of a model, each with the version that computed it."""
    return lake.table("scores", model)


def model_reports(lake: Lake, model: str, version: str) -> str:
    """The folder with the reports of a model version; not a table."""
    return f"{lake.root}/models/{model}/{version}"
