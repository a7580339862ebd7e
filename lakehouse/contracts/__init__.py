"""Contracts: what a source sends and what a metric means, as YAML files checked by pydantic models.

The models, the loader with its errors (file, line, field) and the bundled examples belong here. The use of a contract belongs to
the capability that uses it.
"""

from lakehouse.contracts.loader import Catalog, check_files, load_catalog, load_contract, sources_beside
from lakehouse.contracts.metric import MetricContract
from lakehouse.contracts.model import ModelContract
from lakehouse.contracts.source import SourceContract
from lakehouse.contracts.training_set import TrainingSetContract
from lakehouse.contracts.yaml_file import ContractError

__all__ = [
    "Catalog",
    "ContractError",
    "MetricContract",
    "ModelContract",
    "SourceContract",
    "TrainingSetContract",
    "check_files",
    "load_catalog",
    "load_contract",
    "sources_beside",
]
