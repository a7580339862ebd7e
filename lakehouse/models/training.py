"""Trains a version of a model: calls its function with rows of a training set and measures its quality.

MLflow stores the run and the model, the release log the lineage. Nothing is recorded before the model is trained and measured. A
stopped training is completed by the same command: a version is first registered in MLflow, and exists once it is released.
Finding and calling the function belongs to ``scores``.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.contracts.training_set import Features
from lakehouse.delta import provenance
from lakehouse.delta.columns import is_number
from lakehouse.errors import LakehouseError
from lakehouse.models import scores as model_function
from lakehouse.models import tracking
from lakehouse.models.scores import TrainingError, TrainingFunction
from lakehouse.training_sets import releases
from lakehouse.training_sets.releases import Release, ReleaseEvent, ReleaseKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

    from lakehouse.contracts import Catalog, ModelContract
    from lakehouse.lake import Lake

__all__ = ["TrainingError", "TrainingRequest", "train"]

#: The parts of the set's manifest that a model's lineage repeats.
_ESSENTIALS = ("labels", "time", "rows", "content_hash", "published_until", "contract_version", "code_version")


@dataclass(frozen=True)
class _Task:
    """The inputs of a version. ``parameters`` are those of the contract, overridden by those of the command."""

    contract: ModelContract
    version: str
    of_set: Release
    function: TrainingFunction
    parameters: Mapping[str, Any]

    @property
    def identity(self) -> str:
        """A hash of everything that determines the model: a different hash means a different model."""
        contract = self.contract
        decisive = [
            *(self.of_set.full_name, self.of_set.about.get("content_hash"), self.function.name, self.function.code_version),
            *(dict(self.parameters), contract.predicts, contract.fit_on, contract.evaluate_on),
        ]
        return hashlib.sha256(json.dumps(decisive, sort_keys=True, default=str).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class TrainingRequest:
    """A version of a model to train.

    :param set_version: a version of the contract's training set, such as v5.0.
    :param parameters: override parameters of the contract with the same name.
    """

    version: str
    set_version: str
    by: str
    notes: str
    parameters: Mapping[str, Any] | None = None


def train(lake: Lake, catalog: Catalog, contract: ModelContract, request: TrainingRequest) -> Release:
    """Train a version of a model, register it in MLflow and release it; a repeated call returns the same release.

    The function receives a frame of the part ``fit_on`` and the parameters. The frame has the features of the set in their order
    and the column ``label``, see :func:`trained.frame_of`.

    :raises TrainingError: if the version exists with other inputs, the set or a feature is deprecated, or the function cannot be
        imported, fails or returns no model.
    :raises ReleaseError: if the version of the set does not exist.
    :raises TrackingError: if MLflow refuses a request or cannot be reached.
    """
    version, by, notes = request.version, request.by, request.notes
    if not releases.VERSION.fullmatch(version):
        msg = f"{version!r} is no version: write v and two numbers, such as v3.0"
        raise TrainingError(msg)
    of_set = _usable_set(lake, catalog, contract, request.set_version)
    function = model_function.find_function(lake, contract)
    task = _Task(contract, version, of_set, function, {**contract.parameters, **(request.parameters or {})})
    recorded = {entry.version: entry for entry in releases.all_of(lake, ReleaseKind.MODEL, contract.name)}.get(version)
    if recorded is not None:
        return _same(recorded, task)
    registered = tracking.registered(lake, contract.name, version)
    if registered is None:
        model = _trained(lake, task, by, notes)
        registered = tracking.register(lake, model)
        about = dict(model.about)
    else:
        about = tracking.lineage_in(lake, registered)
    if registered.identity != task.identity:
        msg = (
            f"{contract.name} {version} was registered in MLflow by a training from {about['training_set']['full_name']} that "
            f"was stopped, with other code or parameters (run {registered.run_id}); repeat that one, or take another version"
        )
        raise TrainingError(msg)
    about["mlflow"] = {"version": registered.number, "run_id": registered.run_id}
    entry = Release(contract.name, ReleaseKind.MODEL, version, ReleaseEvent.RELEASED, notes, by, lake.now(), about=about)
    released = releases.release(lake, entry)
    if released.about["mlflow"] != about["mlflow"]:
        tracking.unregister(lake, contract.name, registered)
        msg = f"{contract.name} {version} was trained by {released.by} at the same time; theirs counts, take another version"
        raise TrainingError(msg)
    return released


def _usable_set(lake: Lake, catalog: Catalog, contract: ModelContract, version: str) -> Release:
    of_set = releases.find(lake, ReleaseKind.TRAINING_SET, contract.training_set, version)
    deprecated = releases.deprecations(lake, ReleaseKind.TRAINING_SET, contract.training_set).get(of_set.full_name)
    if deprecated is not None:
        msg = f"the training set {of_set.full_name} is deprecated: {deprecated.notes}; name another version of it with --set"
        raise TrainingError(msg)
    for feature, instead in catalog.training_sets[contract.training_set].features.deprecated.items():
        if feature in _features(of_set):
            msg = f"the feature {feature} of {of_set.full_name} is deprecated: {instead}; build a version of the set without it"
            raise TrainingError(msg)
    return of_set


def _features(of_set: Release) -> list[str]:
    """The features of a set according to its manifest, because the contract may have changed since."""
    return Features.model_validate(of_set.about["contract"]["features"]).names


def _same(recorded: Release, task: _Task) -> Release:
    """Return the recorded version if it was made from the same inputs.

    :raises TrainingError: if it was not; the message names the differences.
    """
    about = recorded.about
    if about["identity"] == task.identity:
        return recorded
    recorded_terms = {
        "training set": about["training_set"]["full_name"],
        "parameters": about["parameters"],
        "function": about["function"],
        "code": about["code"]["training"],
    }
    wanted = {
        "training set": task.of_set.full_name,
        "parameters": json.loads(json.dumps(dict(task.parameters), default=str)),
        "function": task.function.name,
        "code": task.function.code_version,
    }
    differs = [f"{name}: {value}, now {wanted[name]}" for name, value in recorded_terms.items() if value != wanted[name]]
    msg = (
        f"{recorded.name} {recorded.version} exists and was made otherwise "
        f"({'; '.join(differs) or 'it was fitted or evaluated on other parts'}); a version never changes: take another one"
    )
    raise TrainingError(msg)


def _trained(lake: Lake, task: _Task, by: str, notes: str) -> tracking.TrainedModel:
    """Train and measure, without recording anything."""
    contract, of_set = task.contract, task.of_set
    features = _features(of_set)
    rows = releases.read_set(lake, of_set, ["split", "event_ts", *features, "label"])
    fit_on, evaluate_on = _parts(task, rows)
    frames = {
        part: _labelled(task, rows.filter(pc.equal(rows["split"], part)), features)
        for part in dict.fromkeys((fit_on, evaluate_on))
    }
    model = model_function.call_function(contract, task.function, frames[fit_on].copy(), task.parameters)
    metrics = {part: _quality(task, model, frame, features) for part, frame in frames.items()}
    about = {
        "identity": task.identity,
        "training_set": {
            "name": of_set.name,
            "version": of_set.version,
            "full_name": of_set.full_name,
            **{name: of_set.about[name] for name in _ESSENTIALS if name in of_set.about},
        },
        "features": of_set.about.get("features", {}),
        "feature_names": features,
        "function": task.function.name,
        "parameters": dict(task.parameters),
        "code": {"training": task.function.code_version, "lakehouse": provenance.code(), "commit": task.function.commit},
        "contract_version": provenance.of_definition(contract),
        "predicts": contract.predicts,
        "model_class": f"{type(model).__module__}.{type(model).__qualname__}",
        "fit_on": fit_on,
        "evaluated_on": evaluate_on,
        "part_rows": {part: len(frame) for part, frame in frames.items()},
        "metrics": {part: {name: _json_number(value) for name, value in of_part.items()} for part, of_part in metrics.items()},
    }
    about = json.loads(json.dumps(about, default=str))  # as the log returns it
    return tracking.TrainedModel(
        name=contract.name,
        version=task.version,
        notes=notes,
        by=by,
        trained=model,
        identity=task.identity,
        about=about,
        parameters=task.parameters,
        tags={
            "lakehouse.training_set": of_set.full_name,
            "lakehouse.contract_version": about["contract_version"],
            "lakehouse.training_code": task.function.code_version,
            "lakehouse.code_version": provenance.code(),
            **({"lakehouse.code_commit": task.function.commit} if task.function.commit else {}),
        },
        set_name=of_set.full_name,
        set_address=locations.training_set(lake, of_set.name, of_set.version).address,
        frames=frames,
        roles={evaluate_on: "evaluation", fit_on: "training"},
        metrics=metrics,
    )


def _parts(task: _Task, rows: pa.Table) -> tuple[str, str]:
    """The part to fit on and the part to evaluate on; by default the first and the last part in time.

    :raises TrainingError: if a part has no rows.
    """
    of_set, contract = task.of_set, task.contract
    first_times = rows.group_by("split").aggregate([("event_ts", "min")]).sort_by("event_ts_min")
    parts = first_times["split"].to_pylist()
    if not parts:
        msg = f"{of_set.full_name} has no rows; build a version with some"
        raise TrainingError(msg)
    for key, part in (("fit_on", contract.fit_on), ("evaluate_on", contract.evaluate_on)):
        if part is not None and part not in parts:
            msg = f"{contract.name}: '{key}: {part}' has no rows in {of_set.full_name}, whose parts are {', '.join(parts)}"
            raise TrainingError(msg)
    return contract.fit_on or parts[0], contract.evaluate_on or parts[-1]


def _labelled(task: _Task, rows: pa.Table, features: list[str]) -> pd.DataFrame:
    """The features and the label. A boolean or integer label becomes int64, so that classes are 0 and 1."""
    kind = rows["label"].type
    if not (pa.types.is_boolean(kind) or is_number(kind)):
        msg = (
            f"the label of {task.of_set.full_name} is of type {kind}; a model learns numbers or truth values: change 'label.sql'"
        )
        raise TrainingError(msg)
    frame = model_function.frame_of(rows, [*features, "label"])
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        frame["label"] = frame["label"].astype("int64")
    return frame


def _quality(task: _Task, model: Any, frame: pd.DataFrame, features: list[str]) -> dict[str, float]:
    from lakehouse.models import comparison  # noqa: PLC0415 (scikit-learn loads in seconds)

    try:
        scores = comparison.scores_of(task.contract, model, frame[features])
    except LakehouseError:
        raise
    except Exception as problem:
        described = model_function.described(problem)
        msg = f"{task.contract.name}: the model of {task.function.name} cannot score {len(frame):,} rows: {described}"
        raise TrainingError(msg) from problem
    return comparison.quality(task.contract, frame["label"].to_numpy(np.float64), scores)


def _json_number(value: float) -> float | None:
    return value if math.isfinite(value) else None
