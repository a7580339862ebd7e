"""The response models about datasets, models and promotions, for the OpenAPI document."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field

from lakehouse.serving.api.models import Shape

Measures = dict[str, float | None]


class DeprecationModel(Shape):
    """The reason why a version should no longer be used, and the replacement."""

    at: datetime
    by: str
    notes: str


class DatasetVersionModel(Shape):
    """A released version of labels or of a training set."""

    name: str
    kind: Literal["labels", "training_set"]
    version: str
    full_name: str
    released_at: datetime
    released_by: str
    notes: str
    known_at: datetime | None = Field(description="The time whose knowledge it contains.")
    rows: int | None = Field(description="Of a training set; null for labels.")
    deprecated: DeprecationModel | None


class DatasetsModel(Shape):
    """The released versions, in the order of name and version."""

    datasets: list[DatasetVersionModel]


class ModelUseModel(Shape):
    """A model version trained on a set."""

    model: str
    version: str
    is_live: bool = Field(description="Whether it is the champion.")
    is_challenger: bool = Field(description="Whether a canary of it is running.")


class DatasetManifestModel(DatasetVersionModel):
    """A version with its manifest, and the versions made from it."""

    manifest: dict[str, Any] = Field(
        description="Of a training set: labels, features with definitions, sets of inputs, time ranges, rows, the distribution "
        "of each column, content hash, contract. Of labels: the snapshot and its set of inputs."
    )
    training_sets: list[str] = Field(description="Of labels: the training sets built with them, by full name.")
    models: list[ModelUseModel] = Field(description="Of a training set: the versions of models that have learned from it.")


class ChampionModel(Shape):
    """The version in use."""

    version: str
    since: datetime
    by: str
    notes: str
    training_set: str | None


class NewestBacktestModel(Shape):
    """A comparison of two versions on the same rows."""

    version: str
    against: str
    first_month: str
    last_month: str
    passed: bool
    failed: list[str] = Field(description="The acceptance rules that were not met, as sentences.")
    recorded_at: datetime


class CanaryModel(Shape):
    """The running canary."""

    challenger: str
    champion: str
    share: str = Field(description="Of the entities, as text.")
    since: datetime
    outcome: str | None = Field(description="Of the newest judgement; null before the first.")
    labels: int | None


class ModelSummaryModel(Shape):
    """A model at a glance."""

    model: str
    description: str
    owner: str
    training_set: str | None = Field(description="The contract of the set that it learns from; null without a contract.")
    versions: int
    champion: ChampionModel | None
    newest_backtest: NewestBacktestModel | None
    canary: CanaryModel | None


class ModelsModel(Shape):
    """All models."""

    models: list[ModelSummaryModel]


class ModelVersionModel(Shape):
    """A version in the list of a model's versions."""

    version: str
    state: Literal["champion", "challenger", "deprecated", "released"]
    training_set: str
    evaluated_on: str = Field(description="The part of the set that the measures are from.")
    metrics: Measures
    released_at: datetime
    released_by: str
    notes: str
    deprecated: DeprecationModel | None


class ModelDetailsModel(ModelSummaryModel):
    """A model with its versions, oldest first."""

    released: list[ModelVersionModel]


class ModelPromotionModel(Shape):
    """A promotion or rollback from or to a version."""

    kind: Literal["promote", "rollback"]
    from_version: str | None
    to_version: str
    by: str
    notes: str
    recorded_at: datetime
    accepted: list[str] = Field(description="Acceptance rules that were not met and were signed off.")
    sign_off: str | None
    backtest: str | None


class BacktestModel(NewestBacktestModel):
    """A backtest of a version, with the measures over all its rows."""

    known_at: datetime
    by: str
    report: str
    measures: dict[str, Any] = Field(description="By measure the champion, the challenger and their difference, with intervals.")


class ModelLineageModel(Shape):
    """The complete lineage of a version."""

    model: str
    version: str
    in_use: bool
    released_at: datetime
    released_by: str
    notes: str
    training_set: dict[str, Any] = Field(description="Name and version, labels, time ranges, rows, content hash.")
    features: dict[str, Any] = Field(description="By feature its definition, with the version of the contract it is taken from.")
    feature_names: list[str]
    function: str
    parameters: dict[str, Any]
    code: dict[str, Any]
    contract_version: str
    predicts: str
    model_class: str
    fit_on: str
    evaluated_on: str
    part_rows: dict[str, int]
    metrics: dict[str, Measures] = Field(description="By part of the set that they were measured on.")
    mlflow: dict[str, Any]
    promotions: list[ModelPromotionModel]
    backtests: list[BacktestModel]
    canaries: list[dict[str, Any]]
    deprecated: DeprecationModel | None
    training_set_deprecated: DeprecationModel | None


class PromotionModel(Shape):
    """A promotion or rollback of data or of a model, in a common form."""

    of: Literal["data", "model"]
    name: str
    kind: Literal["promote", "rollback"]
    from_: str | None = Field(alias="from")
    to: str
    by: str
    reason: str
    at: datetime
    accepted: list[str]
    sign_off: str | None
    release_notes: str
    more: dict[str, Any]


class PromotionsModel(Shape):
    """Promotions and rollbacks, oldest first."""

    promotions: list[PromotionModel]
