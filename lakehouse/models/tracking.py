"""The lakehouse's data in MLflow: runs with parameters, metrics and data, registered versions, and the champion alias.

No other module exchanges data with MLflow. The client answers or fails within seconds, with errors as sentences. The decision to
train or promote belongs to ``training`` and ``promotion``.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
import threading
import warnings
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import requests
from filelock import FileLock

from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pandas as pd

    from lakehouse.contracts import ModelContract
    from lakehouse.lake import Lake
    from lakehouse.training_sets.releases import Release


#: Settings of MLflow's client unless the environment sets them: by default it retries for minutes, prints addresses and reports
#: its use.
_BEHAVIOUR = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}
#: Seconds within which a server must accept a connection, and answer a health check.
_PATIENCE = (3, 5)
_BAD_GATEWAYS = (502, 503, 504)
#: MLflow's logging functions use an address that is global to the process.
_ONE_AT_A_TIME = threading.RLock()


class TrackingError(LakehouseError):
    """MLflow refused a request, or lacks an expected object. The message says what, where, and what to do."""


class MlflowUnavailableError(TrackingError):
    """MLflow does not answer. The message has the address."""

    passes_by_itself = True


def address(lake: Lake) -> str:
    """The address of MLflow's tracking and registry: from the setting, or the embedded store below the root.

    :raises TrackingError: if the root is in an object store, which cannot hold the SQLite file.
    """
    if lake.settings.mlflow_uri:
        return lake.settings.mlflow_uri
    if "://" in lake.root:
        msg = (
            f"the root {lake.root} is in an object store, which cannot hold MLflow's SQLite file; set LAKEHOUSE_MLFLOW_URI "
            "to the address of an MLflow server"
        )
        raise TrackingError(msg)
    return f"sqlite:///{_folder(lake)}/mlflow.db"


def artifact_location(lake: Lake, experiment: str) -> str | None:
    """The folder in which the embedded store keeps an experiment's models; None with a server, which decides it."""
    return None if lake.settings.mlflow_uri else (_folder(lake) / "artifacts" / experiment).as_uri()


@contextmanager
def connected(lake: Lake, purpose: str) -> Iterator[Any]:
    """Connect to MLflow with a client whose errors become sentences.

    Within the context, MLflow's functions without a client use the same address.

    :param purpose: the purpose, as part of the error message: 'the alias of fraud could not be moved'.
    :raises TrackingError: if MLflow is not installed, refuses a request, or does not know a name.
    :raises MlflowUnavailableError: if MLflow does not answer.
    """
    uri = address(lake)
    for name, value in _BEHAVIOUR.items():
        os.environ.setdefault(name, value)
    _require_answer(uri, purpose)
    try:
        import mlflow  # noqa: PLC0415
        from mlflow.exceptions import MlflowException  # noqa: PLC0415
        from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415 (comes with MLflow)
    except ImportError as missing:
        msg = f"{purpose}: {missing.name} is not installed; install the extra with 'pip install lakehouse[ml]'"
        raise TrackingError(msg) from missing
    with _ONE_AT_A_TIME, _quiet():
        try:
            with _as_default(mlflow, uri):
                if not lake.settings.mlflow_uri:
                    _prepare(_folder(lake), mlflow, uri)
                yield mlflow.MlflowClient(uri, uri)
        except (requests.RequestException, SQLAlchemyError) as problem:
            raise MlflowUnavailableError(_sentence(purpose, uri, problem)) from problem
        except MlflowException as problem:
            kind = TrackingError if _is_refusal(problem) else MlflowUnavailableError
            raise kind(_sentence(purpose, uri, problem)) from problem


def shown(uri: str) -> str:
    """The address without its password."""
    parts = urlsplit(uri)
    return uri if parts.password is None else uri.replace(f":{parts.password}@", ":***@")


def _folder(lake: Lake) -> Path:
    return Path(lake.root) / "mlflow"


def _require_answer(uri: str, purpose: str) -> None:
    """Check that the server answers. MLflow's client would retry for long; a running server answers this request at once."""
    if not uri.startswith(("http://", "https://")):
        return
    try:
        status = requests.get(f"{uri.rstrip('/')}/health", timeout=_PATIENCE).status_code
    except requests.exceptions.SSLError:
        return  # MLflow has its own settings for certificates
    except requests.RequestException as problem:
        raise MlflowUnavailableError(_sentence(purpose, uri, problem)) from problem
    if status in _BAD_GATEWAYS:
        raise MlflowUnavailableError(_sentence(purpose, uri, f"it answers with status {status}"))


def _sentence(purpose: str, uri: str, problem: object) -> str:
    reason = _reason(problem)
    where = f"MLflow at {shown(uri)}"
    return (
        f"{purpose}: {where} says: {reason}"
        if reason
        else f"{purpose}: {where} does not answer; start it, or correct LAKEHOUSE_MLFLOW_URI"
    )


def _reason(problem: object) -> str:
    """MLflow's error text; empty if there is none because no connection was made."""
    if isinstance(problem, (requests.ConnectionError, requests.Timeout)):
        return ""
    text = f"{problem}".strip().partition("\n")[0]
    return "" if "Max retries exceeded" in text or "Connection refused" in text else text


def _is_refusal(problem: Any) -> bool:
    """Whether MLflow refused the request, as opposed to being unreachable."""
    return bool(_reason(problem)) and problem.error_code != "TEMPORARILY_UNAVAILABLE"


@contextmanager
def _as_default(mlflow: Any, uri: str) -> Iterator[None]:
    """Within the context, MLflow's functions without a client use ``uri``; afterwards, the previous address."""
    before = {name: os.environ.get(name) for name in ("MLFLOW_TRACKING_URI", "MLFLOW_REGISTRY_URI")}
    tracking, registry = mlflow.get_tracking_uri(), mlflow.get_registry_uri()
    mlflow.set_tracking_uri(uri)
    mlflow.set_registry_uri(uri)
    try:
        yield
    finally:
        mlflow.set_tracking_uri(tracking)
        mlflow.set_registry_uri(registry)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress MLflow's remarks about pickles, types and tables, which are irrelevant to users of a command."""
    loggers = [logging.getLogger(name) for name in ("mlflow", "alembic")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels):
            logger.setLevel(level)


def _prepare(folder: Path, mlflow: Any, uri: str) -> None:
    """Create the tables of the embedded store once: two processes that create them at the same time disturb each other."""
    ready = folder / "ready"
    if ready.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "ready.lock"):
        if not ready.exists():
            mlflow.MlflowClient(uri, uri).search_experiments(max_results=1)
            ready.touch()


__all__ = ["CHAMPION", "RegisteredVersion", "TrackingError", "TrainedModel"]

#: The alias of the version that scores.
CHAMPION = "champion"
#: Tags of runs and of registered versions: our version, and a hash of the version's inputs.
_VERSION, _IDENTITY = "lakehouse.version", "lakehouse.identity"
_LINEAGE = "lineage.json"
_UNKNOWN = ("RESOURCE_DOES_NOT_EXIST", "NOT_FOUND")


@dataclass(frozen=True)
class RegisteredVersion:
    """A version in MLflow's registry: MLflow's number, its run, and the hash of its inputs."""

    number: str
    run_id: str
    identity: str


@dataclass(frozen=True)
class TrainedModel:
    """A trained model with the data to record in MLflow.

    :param frames: the rows by part of the set, with the label in the column ``label``.
    :param roles: the use of each part: training or evaluation.
    :param metrics: the measures of quality by part.
    :param about: the lineage, as in the later release.
    """

    name: str
    version: str
    notes: str
    by: str
    trained: Any
    identity: str
    about: Mapping[str, Any]
    parameters: Mapping[str, Any]
    tags: Mapping[str, str]
    set_name: str
    set_address: str
    frames: Mapping[str, pd.DataFrame] = field(repr=False)
    roles: Mapping[str, str]
    metrics: Mapping[str, Mapping[str, float]]


def champion(lake: Lake, contract: ModelContract) -> str | None:
    """The version to which the alias ``champion`` points, such as v2.3; None without one.

    A version registered without the lakehouse is named like 'MLflow version 7'.

    :raises TrackingError: if MLflow cannot be read.
    """
    with connected(lake, f"the champion of {contract.name} could not be read") as client:
        number = _aliases(client, contract.name).get(CHAMPION)
        if number is None:
            return None
        tags = client.get_model_version(contract.name, number).tags
        return str(tags.get(_VERSION) or f"MLflow version {number}")


def set_champion(lake: Lake, release: Release) -> None:
    """Move the alias ``champion`` to a released version, in one step.

    :raises TrackingError: if MLflow does not know the version, or cannot be reached.
    """
    with connected(lake, f"{release.name} {release.version} could not be made the champion") as client:
        client.set_registered_model_alias(release.name, CHAMPION, _number_of(lake, client, release))


def registered(lake: Lake, name: str, version: str) -> RegisteredVersion | None:
    """A version in MLflow's registry, by our version; None if MLflow does not know it.

    :raises TrackingError: if MLflow cannot be read.
    """
    with connected(lake, f"{name} {version} could not be looked up") as client:
        return _registered(client, name, version)


def lineage_in(lake: Lake, version: RegisteredVersion) -> dict[str, Any]:
    """The lineage that the run of a registered version recorded.

    :raises TrackingError: if MLflow cannot be read.
    """
    purpose = f"the lineage of the run {version.run_id} could not be read"
    with connected(lake, purpose) as client, tempfile.TemporaryDirectory() as folder:
        lineage: dict[str, Any] = json.loads(Path(client.download_artifacts(version.run_id, _LINEAGE, folder)).read_text("utf-8"))
        return lineage


def register(lake: Lake, model: TrainedModel) -> RegisteredVersion:
    """Log a model and register it. The remains of an interrupted call are completed, or removed and replaced.

    A completed run is registered as it is, without the model of this call; so a version is registered once.

    :raises TrackingError: if MLflow refuses a request or cannot be reached; no version is registered then.
    """
    with connected(lake, f"{model.name} {model.version} could not be logged") as client:
        known = _registered(client, model.name, model.version)
        if known is not None:
            return known
        experiment = _experiment(lake, client, model.name)
        run_id, source = _ended_run(client, experiment, model) or _log(client, experiment, model)
        _require_registered_model(client, model.name)
        made = client.create_model_version(
            model.name,
            source=source,
            run_id=run_id,
            tags={_VERSION: model.version, _IDENTITY: model.identity},
            description=model.notes,
            model_id=source.removeprefix("models:/"),
        )
        return RegisteredVersion(f"{made.version}", run_id, model.identity)


def unregister(lake: Lake, name: str, version: RegisteredVersion) -> None:
    """Remove a registered version, because another process has also registered it and that registration was released.

    :raises TrackingError: if MLflow cannot be reached.
    """
    with connected(lake, f"version {version.number} of {name} could not be removed") as client:
        client.delete_model_version(name, version.number)


def load(lake: Lake, release: Release) -> Any:
    """Load the object returned by the training function of a released version.

    :raises TrackingError: if MLflow does not know the version, or its files cannot be read.
    """
    with connected(lake, f"{release.name} {release.version} could not be loaded") as client:
        import mlflow  # noqa: PLC0415

        source = f"models:/{release.name}/{_number_of(lake, client, release)}"
        try:
            if "sklearn" in mlflow.models.get_model_info(source).flavors:
                return mlflow.sklearn.load_model(source)
            return mlflow.pyfunc.load_model(source).unwrap_python_model().trained
        except (ImportError, AttributeError, OSError) as problem:
            msg = (
                f"{release.name} {release.version} could not be loaded: {type(problem).__name__}: {problem}; the code of "
                f"'{release.about['function']}' and its libraries have to be as they were when it was trained"
            )
            raise TrackingError(msg) from problem


def _number_of(lake: Lake, client: Any, release: Release) -> str:
    """MLflow's number of a version, after a check that MLflow has our version name for it.

    :raises TrackingError: if it does not: the MLflow is another one, or the version was removed there.
    """
    from mlflow.exceptions import MlflowException  # noqa: PLC0415

    number = f"{release.about['mlflow']['version']}"
    try:
        tags = client.get_model_version(release.name, number).tags
    except MlflowException as problem:
        if problem.error_code not in _UNKNOWN:
            raise
        tags = {}
    if tags.get(_VERSION) != release.version:
        uri = shown(address(lake))
        msg = (
            f"{release.name} {release.version} is not registered in MLflow at {uri}; correct LAKEHOUSE_MLFLOW_URI, or train "
            "another version there"
        )
        raise TrackingError(msg)
    return number


def _aliases(client: Any, name: str) -> dict[str, str]:
    from mlflow.exceptions import MlflowException  # noqa: PLC0415

    try:
        aliases: dict[str, str] = client.get_registered_model(name).aliases
    except MlflowException as problem:
        if problem.error_code in _UNKNOWN:
            return {}
        raise
    return aliases


def _registered(client: Any, name: str, version: str) -> RegisteredVersion | None:
    """The registered version; if two processes have registered it at once, the first."""
    of_version = client.search_model_versions(f"name = '{name}' and tags.`{_VERSION}` = '{version}'")
    if not of_version:
        return None
    first = min(of_version, key=lambda entry: int(entry.version))
    return RegisteredVersion(f"{first.version}", first.run_id, first.tags.get(_IDENTITY, ""))


def _experiment(lake: Lake, client: Any, name: str) -> str:
    from mlflow.exceptions import MlflowException  # noqa: PLC0415

    known = client.get_experiment_by_name(name)
    if known is None:
        try:
            return str(client.create_experiment(name, artifact_location=artifact_location(lake, name)))
        except MlflowException as problem:
            if problem.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
            known = client.get_experiment_by_name(name)  # another process has created it at this moment
    return str(known.experiment_id)


def _require_registered_model(client: Any, name: str) -> None:
    from mlflow.exceptions import MlflowException  # noqa: PLC0415

    try:
        client.create_registered_model(name)
    except MlflowException as problem:
        if problem.error_code != "RESOURCE_ALREADY_EXISTS":
            raise


def _ended_run(client: Any, experiment: str, model: TrainedModel) -> tuple[str, str] | None:
    """The completed run of this version and its model; other runs of this version are removed with their models."""
    for run in client.search_runs([experiment], f"tags.`{_VERSION}` = '{model.version}'"):
        logged = [output.model_id for output in run.outputs.model_outputs] if run.outputs else []
        if run.info.status == "FINISHED" and run.data.tags.get(_IDENTITY) == model.identity and logged:
            return run.info.run_id, f"models:/{logged[-1]}"
        for model_id in logged:
            client.delete_logged_model(model_id)
        client.delete_run(run.info.run_id)
    return None


def _log(client: Any, experiment: str, model: TrainedModel) -> tuple[str, str]:
    """Log a model and its data in a new run, and return the run and the address of the model."""
    import mlflow  # noqa: PLC0415

    tags = {**model.tags, _VERSION: model.version, _IDENTITY: model.identity, "mlflow.note.content": model.notes}
    run = client.create_run(
        experiment,
        run_name=f"{model.name}_{model.version}",
        tags={**tags, "mlflow.user": model.by, "mlflow.source.name": "lakehouse"},
    )
    with mlflow.start_run(run_id=run.info.run_id):
        mlflow.log_params(model.parameters)
        logged = _log_model(mlflow, model)
        for part, frame in model.frames.items():
            data = mlflow.data.from_pandas(frame, source=model.set_address, name=model.set_name, targets="label")
            mlflow.log_input(data, context=model.roles[part], tags={"part": part})
            measured = {f"{part}/{measure}": value for measure, value in model.metrics[part].items()}
            mlflow.log_metrics(measured, dataset=data, model_id=logged.model_id)
        mlflow.log_dict(dict(model.about), _LINEAGE)
    return run.info.run_id, str(logged.model_uri)


def _log_model(mlflow: Any, model: TrainedModel) -> Any:
    """Log the model with explicit requirements, because MLflow would determine them in a separate, slow process."""
    from importlib.metadata import version  # noqa: PLC0415

    from sklearn.base import BaseEstimator  # noqa: PLC0415

    needed = [f"{name}=={version(name)}" for name in ("mlflow", "scikit-learn", "pandas", "cloudpickle")]
    if isinstance(model.trained, BaseEstimator):
        return mlflow.sklearn.log_model(
            model.trained, name=model.name, serialization_format="cloudpickle", pip_requirements=needed
        )
    from lakehouse.models.python_model import WrappedModel  # noqa: PLC0415

    return mlflow.pyfunc.log_model(name=model.name, python_model=WrappedModel(model.trained), pip_requirements=needed)
